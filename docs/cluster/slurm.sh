#!/bin/bash
# Trains on all machines of a SLURM allocation. Submit it from a folder that all of them see; what follows the script
# goes to `agent-r1 train`:
#
#   sbatch docs/cluster/slurm.sh my_recipe.yaml run.name=first \
#     distributed.rollout_workers=8 distributed.learner_workers=24
#
# and again, to go on after the time limit: sbatch docs/cluster/slurm.sh runs/first --resume
#
# Before: one virtual environment with agent-r1 and Ray (VENV below) and the model, both where all machines see them.
#SBATCH --job-name=agent-r1
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --mem=0
#SBATCH --exclusive
#SBATCH --time=24:00:00
#SBATCH --no-kill
#SBATCH --signal=B:TERM@300
#SBATCH --output=agent-r1-%j.log
set -euo pipefail

: "${VENV:=$SLURM_SUBMIT_DIR/.venv}"
# shellcheck source=/dev/null
source "$VENV/bin/activate"

# Each machine's Ray lives as long as its step of the job; no `ray stop`, which would end other jobs' Ray, too.
steps=()
# shellcheck disable=SC2317  # the trap calls it
finish() {
  kill "${steps[@]}" 2>/dev/null || true
  wait || true
  rm -f "$RAY_AUTH_TOKEN_PATH"
}
trap finish EXIT

# Whoever shows this token may run code on the cluster: a file that only its owner reads.
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH="$SLURM_SUBMIT_DIR/.ray-token-$SLURM_JOB_ID"
(umask 077 && od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >"$RAY_AUTH_TOKEN_PATH")
export RAY_USAGE_STATS_ENABLED=0

machines=()
mapfile -t machines < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${machines[0]} # this script runs on it
address=$(python -c 'import ray.util; print(ray.util.get_node_ip_address())'):${RAY_PORT:-6379}
ray_start=(ray start --block "--num-cpus=$SLURM_CPUS_PER_TASK" "--num-gpus=${SLURM_GPUS_ON_NODE:-0}")
step=(srun --overlap --no-kill --ntasks-per-node=1 "--cpus-per-task=$SLURM_CPUS_PER_TASK")

"${step[@]}" --nodes=1 --ntasks=1 "--nodelist=$head" "${ray_start[@]}" --head "--port=${address##*:}" &
steps+=($!)
if [ "${#machines[@]}" -gt 1 ]; then
  others=$((${#machines[@]} - 1))
  "${step[@]}" "--nodes=$others" "--ntasks=$others" "--exclude=$head" "${ray_start[@]}" "--address=$address" &
  steps+=($!)
fi

python - "$address" "${#machines[@]}" <<'WAIT'
"""Wait until every machine has joined, for five minutes at most."""
import sys
import time

import ray

address, wanted, joined = sys.argv[1], int(sys.argv[2]), 0
until = time.monotonic() + 300
while joined < wanted:
    try:
        if not ray.is_initialized():
            ray.init(address, log_to_driver=False)
        joined = sum(node["Alive"] for node in ray.nodes())
    except ConnectionError:
        pass  # the head starts
    if time.monotonic() > until:
        sys.exit(f"{joined} of {wanted} machines have joined {address}; see what `ray start` says above")
    time.sleep(1)
WAIT

# SLURM sends SIGTERM five minutes before the time limit: agent-r1 saves the run and ends.
agent-r1 train "$@" distributed.address=auto &
training=$!
trap 'kill -TERM "$training" 2>/dev/null || true' TERM
while kill -0 "$training" 2>/dev/null; do
  wait "$training" || true # a signal interrupts it
done
wait "$training"
