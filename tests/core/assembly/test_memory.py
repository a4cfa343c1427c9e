"""The memory of each role, against numbers computed by hand, the bundled model's tensors and torch's own shards."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from live_results import LiveResults
from torch import nn
from transformers import AutoModelForCausalLM

from agent_r1_core.assembly import memory
from agent_r1_core.assembly.memory import LearnerLoad, MemoryPlan, RolloutLoad, estimate_memory, memory_plan, total
from agent_r1_core.assembly.model_size import ModelSize
from agent_r1_core.assembly.model_source import BUNDLED
from agent_r1_core.config import load_config
from agent_r1_core.contracts.training import LoraSettings
from agent_r1_core.errors import ModelError
from agent_r1_core.learning.lora import add_lora
from agent_r1_core.learning.recomputation import recompute as choose_recomputation

SHAPE = {"layers": 3, "hidden": 10, "intermediate": 30, "heads": 4, "kv_heads": 2, "head_size": 5}
SIZE = ModelSize(
    parameters=1000, layer=200, root=400, head=300, matrices={"model.layers.0.a": 30, "model.layers.0.b": 20}, **SHAPE
)
LOGITS = 4 * 3 * 8 * 30
"""Of eight tokens."""


def by_name(load: LearnerLoad | RolloutLoad) -> dict[str, float]:
    """Bytes by the first words of the use."""
    return {" ".join(use.what.split()[:2]): use.bytes for use in load.uses()}


@pytest.fixture(scope="module")
def model() -> nn.Module:
    module: nn.Module = AutoModelForCausalLM.from_pretrained(BUNDLED / "tiny", dtype=torch.float32)
    return module


@pytest.fixture(scope="module")
def size() -> ModelSize:
    return ModelSize.of_folder(BUNDLED / "tiny")


def test_the_counts_of_a_folder_are_those_of_the_loaded_model(model, size, tmp_path):
    (tmp_path / "config.json").write_text((BUNDLED / "tiny" / "config.json").read_text())
    assert ModelSize.of_folder(tmp_path) is None, "it has no safetensors"
    decoder = model.get_decoder()
    elements = [sum(one.numel() for one in layer.parameters()) for layer in decoder.layers]
    assert size.parameters == sum(one.numel() for one in model.parameters())
    assert (size.layer, size.root) == (max(elements), size.parameters - sum(elements))
    assert size.head == model.get_output_embeddings().weight.numel()
    cache = model(input_ids=torch.arange(7)[None], use_cache=True).past_key_values
    assert 7 * size.kv_width == sum(layer.keys.numel() + layer.values.numel() for layer in cache.layers)


def test_one_process_holds_everything_whole():
    assert by_name(LearnerLoad(SIZE, tokens=8, reference=SIZE.parameters)) == {
        "weights, gradients": 16_000,
        "the reference's": 4_000,
        "the weights": 2_000,
        "logits in": LOGITS + 300 * 6,
        "activations of": 8 * 3 * 2 * (4 * 30 + 16 * 10),
    }
    recomputed = by_name(LearnerLoad(SIZE, tokens=8, critic=True, recompute="full"))
    assert recomputed["weights, gradients"] == 32_000
    assert recomputed["the reference's"] == 0
    assert recomputed["the weights"] == 2_000
    assert recomputed["activations of"] == 8 * (2 * 3 * 4 * 10 + 2 * (4 * 30 + 16 * 10))
    selective = by_name(LearnerLoad(SIZE, tokens=8, critic=True, recompute="selective"))
    assert selective["the weights"] == 2_000
    assert selective["activations of"] == 8 * 2 * (2 * 3 * (2 * 30 + 7 * 10) + (2 * 30 + 9 * 10))
    exact = by_name(LearnerLoad(SIZE, tokens=8, width=4))
    assert exact["the weights"] == 0
    most = [by_name(LearnerLoad(SIZE, tokens=10**8, width=width))["logits in"] for width in (2, 4)]
    assert most == [12 * 2**27 + 300 * 6, 12 * 2**24 + 300 * 8], "a chunk on a GPU, and on a CPU"
    assert exact["activations of"] == 8 * 3 * 4 * (4 * 30 + 9 * 10)


def test_adapters_learn_above_a_frozen_model(model, size):
    pytest.importorskip("peft")
    for lora in (LoraSettings(rank=3), LoraSettings(rank=3, target_modules=("q_proj", "mlp.down_proj"))):
        adapted = add_lora(copy.deepcopy(model), lora, seed=0)
        assert 3 * size.sides(lora) == sum(one.numel() for one in adapted.parameters() if one.requires_grad)
    assert size.unknown_targets(LoraSettings(target_modules=("q_proj", "foo"))) == ["foo"]
    found = by_name(LearnerLoad(SIZE, tokens=8, lora=LoraSettings(rank=4), critic=True, ranks=2))
    assert found["weights, gradients"] == 16 * (4 * 50 + 1000) / 2
    assert found["the frozen"] == 4 * 1000 / 2
    assert found["logits in"] == LOGITS + 2 * 300


def test_ranks_share_the_state_and_gather_what_they_compute_with_and_off_load_it_to_main_memory():
    device = by_name(LearnerLoad(SIZE, tokens=8, ranks=4, critic=True, reference=SIZE.parameters))
    assert device == {
        "weights, gradients": 8_000,
        "the reference's": 1_000,
        "two layers": 2 * 2 * 200 + 2 * 4 * 400,
        "gradients of": (2 + 4) * 200 + 2 * 4 * 400,
        "logits in": LOGITS + 300 * 6,
        "activations of": 2 * 8 * 3 * 2 * (4 * 30 + 16 * 10),
    }
    state = {name: device.pop(name) for name in ("weights, gradients", "the reference's")}
    assert LearnerLoad(SIZE, tokens=8).kept() == []
    load = LearnerLoad(SIZE, tokens=8, ranks=4, critic=True, reference=SIZE.parameters, offload=True)
    assert by_name(load) == device
    assert {" ".join(use.what.split()[:2]): use.bytes for use in load.kept()} == state
    alone = by_name(LearnerLoad(SIZE, tokens=8, offload=True))
    assert alone["two layers"] == 2 * 2 * 200 + 4 * 400, "a single rank puts its layers together, too"
    lines = MemoryPlan(load, RolloutLoad(SIZE, 6, 50), placement="separate").lines()
    assert [line.partition(": ")[2].split("GiB  ")[-1] for line in lines if "main memory" in line] == [
        "learner worker, in main memory: weights, gradients and optimiser of 0.0 M trained parameters, a share of 1/4",
        "learner worker, in main memory: the reference's 0.0 M weights, a share of 1/4",
    ]


RANK = """
import sys
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from transformers import AutoModelForCausalLM

rank, meeting, folder = int(sys.argv[1]), sys.argv[2], sys.argv[3]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
for layer in model.get_decoder().layers:
    fully_shard(layer)
fully_shard(model)
optimiser = torch.optim.AdamW(model.parameters())
model(input_ids=torch.arange(9)[None], use_cache=False).logits.sum().backward()
optimiser.step()
held = [*model.parameters(), *(one.grad for one in model.parameters())]
held += [moment for state in optimiser.state.values() for moment in (state["exp_avg"], state["exp_avg_sq"])]
print(sum(one.to_local().nbytes for one in held))
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_two_ranks_of_fsdp_hold_the_state_that_is_computed(size, tmp_path):
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(rank), tmp_path / "meeting", BUNDLED / "tiny"],
            env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    held = [int(rank.communicate()[0]) for rank in ranks]
    computed = by_name(LearnerLoad(size, tokens=1, ranks=2))["weights, gradients"]
    assert held == [computed, computed], "every tensor of this model has an even first dimension"


def test_the_gpus_of_a_worker_share_its_weights_and_heads_and_roles_on_one_device_take_turns_or_add_up():
    token = 2 * 3 * 2 * 5 * 2
    assert by_name(RolloutLoad(SIZE, 6, 50)) == {"the engine's": 2_000, "keys and": 300 * token}
    assert by_name(RolloutLoad(SIZE, 6, 50, gpus=2)) == {"the engine's": 1_000, "keys and": 150 * token}
    assert by_name(RolloutLoad(SIZE, 6, 50, gpus=4))["keys and"] == 150 * token, "two heads cannot be shared by four"
    given = RolloutLoad(SIZE, 6, 50, cache=2.5 * 50 * token).uses()[1]
    assert (given.bytes, given.what) == (125 * token, "keys and values, which 2 episodes of full length fill")
    learner, worker = LearnerLoad(SIZE, 80, reference=SIZE.parameters).uses(), RolloutLoad(SIZE, 6, 50).uses()
    assert memory.peak(learner, worker, turns=False) == total(learner) + total(worker)
    assert memory.peak(learner, worker, turns=True) == total(learner)
    large = RolloutLoad(SIZE, 6, 10**7).uses()
    assert memory.peak(learner, large, turns=True) == 12_000 + 4_000 + total(large), "weights, moments, reference stay"
    assert memory.peak(
        learner, large, turns=True, handed=LearnerLoad(SIZE, 8, lora=LoraSettings(rank=2)).handed
    ) == 20_000 + total(large)
    assert LearnerLoad(SIZE, 8).handed == 0, "an engine in this process reads the policy's own weights"


@pytest.mark.parametrize("width", [2, 4])
@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_what_a_layer_keeps_for_the_backward_pass_is_what_torch_keeps(model, size, recompute, width):
    decoder, tokens = copy.deepcopy(model.get_decoder()).train(), 101
    choose_recomputation(decoder, recompute)
    every = decoder.layers

    def kept(layers: int, tokens: int) -> int:
        decoder.layers = every[:layers]
        with LiveResults() as results, torch.autocast("cpu", torch.bfloat16, enabled=width == 2):
            hidden = decoder(input_ids=torch.arange(tokens)[None], use_cache=False)  # noqa: F841
            return results.bytes()

    # Of twice as many tokens, since a layer keeps converted weights, too, whatever their number.
    layer = (kept(2, 2 * tokens) - kept(1, 2 * tokens) - kept(2, tokens) + kept(1, tokens)) / tokens
    one, more = (
        by_name(LearnerLoad(replace(size, layers=count), tokens=1, width=width, recompute=recompute))["activations of"]
        for count in (1, 2)
    )
    assert more - one == pytest.approx(layer, rel=0.01)


def test_lines_say_whose_memory_it_is(size):
    learner, worker = LearnerLoad(size, 4096, ranks=4), RolloutLoad(size, 64, 1024, gpus=2)
    apart = MemoryPlan(learner, worker, workers=3, placement="separate").lines()
    assert apart[0] == "placement: separate, 10 devices: 3 rollout workers x 2, 4 learner workers x 1"
    assert apart[1].endswith("worker: weights, gradients and optimiser of 1.7 M trained parameters, a share of 1/4")
    assert [line.split("GiB  ")[1] for line in apart[-3:]] == [
        "rollout worker's device: keys and values of 64 episodes, at most",
        "learner worker, in total",
        "rollout worker's device, in total",
    ]
    paired = MemoryPlan(learner, RolloutLoad(size, 64, 1024), 4, "colocated", turns=True).lines()
    assert paired[0] == "placement: colocated, 4 devices: 4 rollout workers x 1, 4 learner workers x 1"
    assert paired[-1].endswith("a device with both, at the peak, since engine and learner take turns")
    assert not any("reference" in line for line in apart + paired), "there is none"


def test_a_recipe_says_what_each_role_holds_and_deals_episodes_and_weights_to_its_workers(size):
    resolved = load_config("default", ["algorithm={name: ppo, kl_coef: 0.1}", "model.dtype=bfloat16"])
    plan = memory_plan(resolved, size)
    assert plan == MemoryPlan(
        LearnerLoad(size, tokens=4096, width=2, critic=True, reference=size.parameters),
        RolloutLoad(size, episodes=128, tokens=1024, width=2),
    )
    lines = estimate_memory(resolved)
    assert lines == plan.lines()
    in_all = total([*plan.learner.uses(), *plan.worker.uses()]) / 2**30
    assert lines[-1] == f"memory: {in_all:8.2f} GiB  in total"
    lora = memory_plan(load_config("default", ["model.lora.rank=4", "algorithm.kl_coef=0.1"]), size)
    assert lora.learner.lora == LoraSettings(rank=4)
    assert not lora.learner.reference, "the model below the adapters is the reference"
    keys = ["distributed.rollout_workers=3", "distributed.learner_workers=2"]
    plan = memory_plan(load_config("default", keys), size)
    assert plan == MemoryPlan(
        LearnerLoad(size, tokens=4096, width=4, ranks=2),
        RolloutLoad(size, episodes=43, tokens=1024, width=4),
        workers=3,
        placement="separate",
    )
    assert memory_plan(load_config("default", [*keys, "training.cpu_offload=true"]), size).learner.offload
    both = ["distributed.rollout_workers=2", "distributed.learner_workers=2", "distributed.placement=colocated"]
    assert memory_plan(load_config("default", both), size).placement == "colocated"


def test_a_teacher_has_its_own_size_and_a_missing_one_is_refused(size):
    asked = "algorithm={name: distillation, teacher: tiny-worlds}"
    other = ModelSize.of_model("tiny-worlds")
    assert other is not None
    assert other.parameters != size.parameters
    for adapters in ("null", "{rank: 4}"):
        plan = memory_plan(load_config("default", [asked, f"model.lora={adapters}"]), size)
        assert plan.learner.reference == other.parameters
    away = load_config("default", [asked.replace("tiny-worlds", "nobody/nothing")])
    assert estimate_memory(away)[-1] == "memory: without the frozen model nobody/nothing, whose size nothing here tells"
    for policy in ("tiny", "nobody/nothing"):
        nothing = load_config("default", [asked.replace("tiny-worlds", "./nothing"), f"model.name={policy}"])
        with pytest.raises(ModelError, match="nothing' is neither a Hugging Face folder"):
            estimate_memory(nothing)


def test_a_frozen_model_is_counted_once_beside_the_policy(size):
    asked = "rewards=[{name: judge, frozen: tiny-worlds}, {name: exact_match}]"
    lines = estimate_memory(load_config("calculator", [asked]))
    other = ModelSize.of_folder(BUNDLED / "tiny-worlds")
    plan = memory_plan(load_config("calculator", [asked]), size, [other])
    assert lines == plan.lines()
    assert plan.frozen == (replace(plan.worker, size=other),)
    in_all = total([*plan.learner.uses(), *plan.worker.uses(), *plan.frozen[0].uses()]) / 2**30
    assert lines[-1] == f"memory: {in_all:8.2f} GiB  in total"
    assert sum("a frozen model: " in line for line in lines) == 2
    away = estimate_memory(load_config("calculator", [asked.replace("tiny-worlds", "nobody/nothing")]))
    assert away[-1] == "memory: without the frozen model nobody/nothing, whose size nothing here tells"
