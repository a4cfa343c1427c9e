"""How good is a policy on the frozen lake, compared with the best that anybody can do?

    python benchmarks/frozen_lake.py                               the optimum, with 1, 2 and 3 actions per turn
    python benchmarks/frozen_lake.py --run runs/frozen_lake-1      and a run's policy against it, on the same maps

The optimum is computed exactly, by value iteration over the turns that are left (it knows the map, the slips and the
turn). With k actions per turn it picks, for each turn, the best sequence of at most k actions without seeing between
them where it is: what an agent that writes k actions can do. The budget of actions stays the same, so that there are
fewer turns. The policy takes its likeliest actions; its interval is Wilson's, over seeds; several draw one map.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import report


def transitions(lake: Any) -> np.ndarray:
    """Chances of a lake, [actions, states, states]."""
    states = lake.observation_space.n
    chances = np.zeros((lake.action_space.n, states, states))
    for state, action in itertools.product(range(states), range(lake.action_space.n)):
        for chance, following, _, _ in lake.P[state][action]:
            chances[action, state, following] += chance
    return chances


def optimum(chances: np.ndarray, turns: int, actions: int) -> float:
    """The chance of the best policy to get from the first cell to the last one.

    V_0 = 1 at the goal, V_t(s) = max over sequences a_1..a_j, j <= actions, of (P_a1 ... P_aj V_{t-1})(s).
    """
    sequences = [chances]
    for _ in range(actions - 1):
        sequences.append(np.concatenate([sequences[-1] @ one for one in chances]))
    everything = np.concatenate(sequences)
    values = np.zeros(chances.shape[1])
    values[-1] = 1.0
    for _ in range(turns):
        values = (everything @ values).max(axis=0)
    return float(values[0])


def main() -> None:
    parser = report.parser(__doc__, "frozen_lake")
    parser.add_argument("--run", type=Path, help="the run whose policy is measured, on its own evaluation seeds")
    parser.add_argument("--actions", type=int, nargs="+", default=[1, 2, 3], help="actions per turn")
    parser.add_argument("--maps", type=int, default=400, help="held-out seeds")
    options = report.chosen(parser, maps=20)
    from agent_r1_core.evaluation.evaluator import EvaluationPlan
    from agent_r1_core.training.api import evaluate, resolve

    policy = [f"model.name={options.run}"] if options.run else []
    resolved = resolve(options.run or "frozen_lake", [f"evaluation.size={options.maps}", *policy], training=False)
    source = resolved.config.tasks.eval_sets["eval"]
    if source is None:
        raise SystemExit(f"{options.run} holds its evaluation maps out of training; name a run with a tasks.eval")
    env, tasks = resolved.make("env", resolved.config.env), resolved.make("tasks", source).load()[: options.maps]
    budget, own = env.config.max_turns * env.config.actions_per_turn, env.config.actions_per_turn
    lakes = [transitions(env.make(task.seed)) for task in tasks]
    mean = lambda most: float(np.mean([optimum(lake, budget // most, most) for lake in lakes]))
    best = {most: mean(most) for most in sorted({*options.actions, own})}
    first = best[options.actions[0]]
    rows: list[dict[str, Any]] = [
        {"actions per turn": most, "turns": budget // most, "optimum": value, "of the first": value / first}
        for most, value in best.items()
    ]
    report.show(f"The optimal policy on {len(tasks)} seeds, {budget} actions", rows)
    tables: dict[str, Any] = {"optimum": rows}
    if options.run is not None:
        found, _ = evaluate(EvaluationPlan(resolved))
        success, top = found.result.metrics["success"], best[own]
        row = {"policy": str(options.run), "actions per turn": own, "success": success.mean, "optimum": top}
        row["share of the optimum"] = success.mean / top
        row["from"], row["to"] = (end / top for end in (success.low or 0.0, success.high or 0.0))
        report.show(f"A policy on the same seeds, n = {found.result.n}; from and to: 95 %", [row])
        tables["policy"] = [row]
    report.save(options.out, options, tables)


if __name__ == "__main__":
    main()
