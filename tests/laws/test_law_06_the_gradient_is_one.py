"""LAW 6: the gradient does not depend on how it was computed."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from agent_r1_grpo.grpo import GRPO
from algorithms import ALGORITHMS
from contexts import every_context, noise
from gradients import relative_difference, update_gradients
from rank_cases import formulas, found_by
from real_learner import relative_error
from torch import Tensor, nn

from agent_r1_core.errors import ConfigError
from agent_r1_core.learning import decoder, head
from agent_r1_core.learning.batch import Batch
from agent_r1_core.learning.ranks import ONE_RANK
from agent_r1_core.testing import make_task, make_trajectory, random_group, tiny_model
from agent_r1_core.trajectory import Group, Trajectory

every_algorithm = pytest.mark.parametrize("name", list(ALGORITHMS))
BOUND = 1e-5


def rollout() -> list[Group]:
    """Groups with spread and without, segments, closing ids, lengths from one token to dozens."""
    flat = Group(make_task("flat"), [make_trajectory((((1, 2), (3 + i, 4)),), sample=i, reward=1.0) for i in range(3)])
    lone = Group(make_task("lone"), [make_trajectory((((9, 8), (7,)),), reward=0.3)])
    cut = Group(make_task("cut"), [make_trajectory(sample=i, reward=float(i), bootstrap=i == 1) for i in range(2)])
    first, second = random_group(1, 4, closing=(1, 2, 3)), random_group(2, 3, turns=3, new_segment_at=(1, 2))
    return [first, flat, second, lone, cut, random_group(3, 2, longest=30)]


def branching() -> list[Group]:
    """Two groups under equal prompts: actions part early, late, or not at all; segments extend one another."""
    prompt, answer = (20, 21, 22, 23), (30, 31, 32)
    ways = [((5, 6), (7, 8)), ((5, 6), (7, 9)), ((5, 6), (7, 8, 4)), ((3,), (7, 8)), ((5, 6), (7, 8))]
    plain = [_rewarded(i, ((prompt, first), (answer, second))) for i, (first, second) in enumerate(ways)]
    extended = [
        _rewarded(i, ((prompt, first), ((*prompt, *first, *answer), second)), new_segment_at=(1,))
        for i, (first, second) in enumerate(ways)
    ]
    greedy = make_trajectory(reward=0.4, baseline=True)
    return [Group(make_task("plain"), plain, greedy), Group(make_task("extended"), extended, greedy)]


def _rewarded(sample: int, turns: Any, **more: Any) -> Trajectory:
    return make_trajectory(turns, sample=sample, reward=0.3 * sample + 0.1, turn_rewards=(0.1, 0.0), **more)


def gradient_of(name: str, groups: list[Group] | None = None, **settings) -> Tensor:
    return update_gradients(tiny_model(), ALGORITHMS[name], groups or rollout(), **settings)[0]


@cache
def usual(name: str) -> Tensor:
    """The gradient of the rollout as an update computes it without further settings."""
    return gradient_of(name)


@every_algorithm
def test_the_learners_gradient_is_the_one_by_the_book(name: str) -> None:
    """That of the formulas of tests/yardstick, in float64: they use no machinery of the learner."""
    for gradient, expected in zip(found_by(ONE_RANK, name)["gradients"], formulas(name), strict=True):
        assert relative_error(gradient, expected) < BOUND


@every_algorithm
def test_micro_batches_and_skipping_leave_it_alone(name: str) -> None:
    for tokens, skip in ((1, True), (30, False), (77, True), (100_000, False)):
        part = gradient_of(name, max_tokens_per_microbatch=tokens, skip_without_gradient=skip)
        assert relative_difference(part, usual(name)) < BOUND, (tokens, skip)


@every_algorithm
def test_sharing_prefixes_leaves_it_alone(name: str) -> None:
    """Groups whose trajectories share a prompt, a first action and what the environment said to it."""
    expected = gradient_of(name, branching(), share_prefixes=False)
    for tokens in (40, 100_000):
        part = gradient_of(name, branching(), max_tokens_per_microbatch=tokens)
        assert relative_difference(part, expected) < BOUND, tokens


@every_context
def test_rewritten_contexts_leave_it_alone(folder: Path, context: str) -> None:
    """Segments of real rollouts: what they have in common is computed once; policy and critic."""
    groups = noise(context, folder / "model")[0].groups
    expected = gradient_of("ppo", groups, share_prefixes=False, max_tokens_per_microbatch=1)
    assert expected.norm() > 1e-4
    for tokens in (700, 100_000):
        part = gradient_of("ppo", groups, max_tokens_per_microbatch=tokens)
        assert relative_difference(part, expected) < BOUND, tokens


@every_algorithm
def test_order_padding_and_chunks_of_logits_leave_it_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups and trajectories turned round, columns that none of them reaches, and one token's logits at a time."""
    expected = usual(name)
    turned = [replace(group, trajectories=group.trajectories[::-1]) for group in reversed(rollout())]
    original = Batch.from_groups.__func__

    def padded(cls: type[Batch], groups: list[Group], *more: Any) -> Batch:
        batch = original(cls, groups, *more)
        for field, value in vars(batch).items():
            if isinstance(value, Tensor) and value.ndim == 2:
                setattr(batch, field, nn.functional.pad(value, (0, 13), value=-1 if field == "turn" else 0))
        return batch

    monkeypatch.setattr(Batch, "from_groups", classmethod(padded))
    monkeypatch.setitem(head._CHUNK, "cpu", 1)
    assert relative_difference(gradient_of(name, turned, max_tokens_per_microbatch=40), expected) < BOUND


@every_algorithm
def test_a_pass_of_their_own_for_old_log_probs_leaves_it_alone(name: str) -> None:
    """The first mini-batch of the first of two passes has the gradient of a single pass."""
    assert relative_difference(gradient_of(name, epochs=2), usual(name)) < BOUND


@every_algorithm
def test_old_log_probs_from_an_engine_that_agrees_leave_it_alone(name: str) -> None:
    groups, model = rollout(), tiny_model()
    for segment in (segment for group in groups for one in group.trajectories for segment in one.segments):
        ids = torch.tensor(segment.ids)
        table = torch.log_softmax(model(input_ids=ids[None], use_cache=False).logits[0].float(), -1)
        logprobs = [0.0, *table[:-1].gather(1, ids[1:, None])[:, 0].tolist()]
        segment.logprobs[:] = [value * bit for value, bit in zip(logprobs, segment.mask, strict=True)]
    expected = gradient_of(name, groups, epochs=2, old_logprobs="learner")
    sources = ["engine", "auto"]
    if not ALGORITHMS[name].config.loss_mask:
        with pytest.raises(ConfigError, match="old_logprobs"):
            gradient_of(name, old_logprobs=sources.pop(0))
    for source in sources:
        assert relative_difference(gradient_of(name, groups, epochs=2, old_logprobs=source), expected) < BOUND, source


def test_a_mini_batch_has_its_own_normaliser_whatever_is_skipped() -> None:
    model, skips = tiny_model(), ({"minibatches": 3, "skip_without_gradient": skip} for skip in (True, False))
    cuts = [update_gradients(model, GRPO(), rollout(), **settings) for settings in skips]
    assert len(cuts[0]) == 3
    for skipped, kept in zip(*cuts, strict=True):
        assert (skipped - kept).norm() <= BOUND * kept.norm()


def test_a_trajectory_under_a_kl_or_an_entropy_bonus_is_never_skipped() -> None:
    flat = [Group(make_task(), [make_trajectory((((1, 2), (3 + i,)),), sample=i) for i in range(3)])]
    assert float(gradient_of("grpo_kl", flat).norm()) > 1e-6
    assert float(gradient_of("grpo_entropy", flat).norm()) > 1e-6
    assert float(gradient_of("grpo", flat).norm()) == 0.0


def test_an_author_who_forgets_the_bonus_gets_it_on_every_trajectory_too() -> None:
    class Forgetful(GRPO):
        def needs_every_trajectory(self) -> bool:
            return False

    (gradient,) = update_gradients(tiny_model(), Forgetful(GRPO.Config(entropy_coef=0.1)), rollout())
    assert relative_difference(gradient, usual("grpo_entropy")) < BOUND


@pytest.mark.gpu
@pytest.mark.parametrize("one_kernel", [True, False])
@every_algorithm
def test_a_gpu_computes_the_gradient_of_the_cpu(name, one_kernel, gpu, monkeypatch):
    """With one attention kernel for a whole tree, and with one for each span, in float32."""
    if not one_kernel:
        monkeypatch.setattr(decoder, "_one_kernel", lambda own: None)
    groups = branching() + rollout()
    found = update_gradients(tiny_model().to(gpu), ALGORITHMS[name], groups)[0]
    assert relative_difference(found.cpu(), gradient_of(name, groups)) < 10 * BOUND
