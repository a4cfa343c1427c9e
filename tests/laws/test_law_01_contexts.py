"""LAW 1 under every context strategy: what was sampled is what is trained, in the context in which it was sampled."""

from __future__ import annotations

from pathlib import Path

from contexts import CONTEXTS, MAX_TOKENS, NAMES, REGISTRY, every_context, make, noise
from stage import BOTH_MODES, TOKENIZER, Recorder, Stage, questions
from test_law_01_what_was_sampled_is_trained import assert_as_sampled, assert_trained_as_sampled

from agent_r1_core.testing import ScriptedPolicy
from agent_r1_core.trajectory import Trajectory

CONTROL = TOKENIZER.encode("<tool_call>")[0]


def test_every_registered_strategy_is_under_the_laws() -> None:
    registered = {record.name for record in REGISTRY.components("context")}
    assert registered == set(NAMES) <= set(CONTEXTS)
    assert {"append", "window", "summary"} <= registered


@every_context
@BOTH_MODES
def test_noise_is_trained_id_by_id(folder: Path, context: str, deterministic: bool) -> None:
    """Ids of a random model: broken characters, cut actions, spellings that no tokenizer would choose."""
    result, recorder = noise(context, folder / "model", deterministic=deterministic)
    trajectories = result.trajectories
    assert len(trajectories) == 6
    for one in trajectories:
        assert_as_sampled(one, recorder)
        assert all(len(segment.ids) <= MAX_TOKENS for segment in one.segments)
        assert one.reason in ("max_turns", "answer"), "the budget of tokens is wide enough for six turns"
    assert_trained_as_sampled(result, recorder)
    actions = [pair for one in trajectories for pair in zip(one.turns, recorder.of(one), strict=True)]
    encoded = [TOKENIZER.encode(turn.text) != list(made.ids) for turn, (_, made) in actions]
    assert sum(encoded) > 6, "re-encoding would change nothing"
    if context != "append":
        assert sum(len(one.segments) > 1 for one in trajectories) > 3, "too little was rewritten to prove much"


def scripted(context: str, action: str) -> tuple[Trajectory, Recorder]:
    """An episode in which the policy says one thing again and again."""
    recorder = Recorder(ScriptedPolicy([action], TOKENIZER))
    stage = Stage(recorder, env={"max_turns": 6, "max_tokens": MAX_TOKENS}, context=make(context))
    (one,) = stage.play(questions(1)).groups[0].trajectories
    return one, recorder


@every_context
def test_what_stays_is_read_as_it_was_sampled(context: str) -> None:
    """Control ids that the policy sampled as actions are control ids where a segment repeats them, and text in its
    summaries; the question stands before them all."""
    one, recorder = scripted(context, "<tool_call> for Name0")
    assert_as_sampled(one, recorder)
    for number, segment in enumerate(one.segments):
        text = TOKENIZER.decode(segment.ids)
        assert "Where was Name0 born?" in text
        first = next(turn for turn in one.turns if turn.segment == number)
        read = segment.ids[: first.start]
        repeated = TOKENIZER.decode(read).count("<|im_start|>assistant\n") - 1
        assert read.count(CONTROL) == repeated
    for turn in (turn for turn in one.turns if turn.purpose == "summary"):
        for following in one.turns[turn.index + 1 :][:1]:
            read = one.segments[following.segment].ids[: following.start]
            assert "<tool_call> for Name0"[: len(turn.text)] in TOKENIZER.decode(read)
            assert CONTROL not in read
