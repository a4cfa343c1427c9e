"""LAW 1: what was sampled is what is trained."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from bad_tools import lookup
from small_run import REWARD, overrides
from stage import BOTH_MODES, TOKENIZER, Recorder, Stage, call, questions

from agent_r1_core import Action, Generation, Observation, Request, Sampling, Step, Task, ToolEnv, train
from agent_r1_core.chat import ChatTokenizer, DriftGuard
from agent_r1_core.contracts.engine import context_digest
from agent_r1_core.errors import DriftError
from agent_r1_core.learning.batch import Batch
from agent_r1_core.rollout import RolloutResult
from agent_r1_core.testing import ScriptedPolicy, tiny_model_folder, tiny_tokenizer
from agent_r1_core.trajectory import EndStatus, Trajectory

FORGETFUL_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- set content = message['content'] -%}"
    "{%- if message['role'] == 'assistant' and '</think>' in content -%}"
    "{%- set content = content.split('</think>')[-1] -%}{%- endif -%}"
    "{{- '<|im_start|>' + message['role'] + '\\n' + content + '<|im_end|>\\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)
"""Drops the thinking of every action that is no longer the last message, as reasoning models' templates do."""
END = TOKENIZER.encode("<|im_end|>")


class Letters:
    """Spells every word byte by byte: no tokenizer would write `<tool_call>` like that, but a policy may sample it."""

    eos_token_id, decode = END[0], TOKENIZER.raw.decode

    def encode(self, text: str, **_: bool) -> list[int]:
        return [token for letter in text for token in TOKENIZER.encode(letter)]


class Speller(ScriptedPolicy):
    """Says a script in letters, each with a log-prob of its own."""

    def __init__(self, script: list[str]) -> None:
        super().__init__(script, Letters())

    async def generate(self, request: Request) -> Generation:
        made = await super().generate(request)
        return replace(made, logprobs=tuple(-0.01 * (place + 1) for place in range(len(made.ids))))


class ReadingAgain(Speller):
    """An engine behind a text interface: what it conditions on is the context, decoded and encoded again."""

    async def generate(self, request: Request) -> Generation:
        read = TOKENIZER.encode(TOKENIZER.decode(request.ids))
        return replace(await super().generate(request), context=context_digest(read))


def assert_as_sampled(trajectory: Trajectory, recorder: Recorder) -> None:
    """Every action stands in the context that the engine saw, id by id; nothing else has action mask 1."""
    heard = recorder.of(trajectory)
    assert len(heard) == len(trajectory.turns) > 0
    actions = {number: [0] * len(segment.ids) for number, segment in enumerate(trajectory.segments)}
    for turn, (request, generation) in zip(trajectory.turns, heard, strict=True):
        segment = trajectory.segments[turn.segment]
        assert tuple(segment.ids[: turn.start]) == request.ids
        assert tuple(segment.ids[turn.start : turn.stop]) == generation.ids
        assert tuple(segment.logprobs[turn.start : turn.stop]) == generation.logprobs
        assert generation.context == context_digest(request.ids)
        actions[turn.segment][turn.start : turn.stop] = [1] * turn.tokens
    for number, segment in enumerate(trajectory.segments):
        assert segment.mask == actions[number]
        assert not any(value for value, kept in zip(segment.logprobs, segment.mask, strict=True) if not kept)


def assert_trained_as_sampled(result: RolloutResult, recorder: Recorder) -> None:
    """The batch that the learner gets holds at its action tokens what was sampled, and nothing else."""
    batch = Batch.from_groups(result.groups)
    for row, trajectory in enumerate(batch.trajectories):
        sampled = [token for _, generation in recorder.of(trajectory) for token in generation.ids]
        assert batch.ids[row][batch.action_mask[row]].tolist() == sampled


@BOTH_MODES
def test_a_spelling_that_no_tokenizer_would_choose_is_kept(deterministic: bool) -> None:
    recorder = Recorder(Speller([call("lookup", name="Name0"), "<answer>Tavelo</answer>"]))
    result = Stage(recorder, [lookup()], deterministic=deterministic).play(questions(2), 2)
    for one in (trajectory for group in result.groups for trajectory in group.trajectories):
        assert one.answer == "Tavelo", "the spelled call must be read like any other"
        sampled = [made.ids for _, made in recorder.of(one)]
        assert [tuple(TOKENIZER.encode(turn.text + "<|im_end|>")) for turn in one.turns] != sampled
        assert len(one.segments) == 1
        assert_as_sampled(one, recorder)
    assert_trained_as_sampled(result, recorder)


def test_ids_that_close_a_cut_action_have_mask_zero() -> None:
    recorder = Recorder(Speller(["I was going to say that"]))
    stage = Stage(recorder, env={"max_turns": 3, "max_tokens": 400}, sampling=Sampling(max_new_tokens=8))
    result = stage.play(questions(1))
    (one,) = result.groups[0].trajectories
    (segment,) = one.segments
    assert [turn.finish for turn in one.turns] == ["length"] * 3
    for turn in one.turns:
        assert segment.ids[turn.stop] == END[0]
        assert segment.mask[turn.stop] == 0
        assert segment.logprobs[turn.stop] == 0.0
    assert_as_sampled(one, recorder)
    assert_trained_as_sampled(result, recorder)


def test_an_action_that_the_episodes_budget_cut_is_the_last_of_its_ids() -> None:
    recorder = Recorder(Speller(["word " * 100]))
    (one,) = Stage(recorder, env={"max_tokens": 120}).play(questions(1)).groups[0].trajectories
    assert (one.status, one.turns[-1].finish) == (EndStatus.TRUNCATED, "length")
    assert one.turns[-1].stop == len(one.segments[0].ids) == 120
    assert_as_sampled(one, recorder)


@BOTH_MODES
def test_a_template_that_drops_thinking_opens_a_segment(deterministic: bool) -> None:
    """The first action was sampled without a past, the second after its own thinking was gone: both stay true."""
    tokenizer = ChatTokenizer(tiny_tokenizer(FORGETFUL_TEMPLATE), name="forgetful")
    script = ["<think>Hm, where?</think>Let me think again.", "<think>Ah!</think><answer>Tavelo</answer>"]
    recorder = Recorder(ScriptedPolicy(script, tokenizer))
    stage = Stage(recorder, tokenizer=tokenizer, deterministic=deterministic)
    result = stage.play(questions(1), 2)
    for one in result.groups[0].trajectories:
        first, second = one.segments
        assert tokenizer.decode(first.ids).endswith("<think>Hm, where?</think>Let me think again.<|im_end|>")
        assert "Hm, where?" not in tokenizer.decode(second.ids)
        assert "Let me think again." in tokenizer.decode(second.ids[: second.prompt_length])
        assert [turn.segment for turn in one.turns] == [0, 1]
        assert_as_sampled(one, recorder)
    assert_trained_as_sampled(result, recorder)


class Forgetful(ToolEnv):
    """Shows the policy, instead of all that was said, what it said last."""

    def reset(self, task: Task) -> Observation:
        return Observation([{"role": "user", "content": "Where was Name0 born?"}])

    def step(self, action: Action) -> Step:
        summary = f"You said: {action.text} Go on."
        seen = Observation([{"role": "user", "content": summary}], new_context=True)
        return Step(seen, terminated="Tavelo" in action.text)


@BOTH_MODES
def test_an_environment_that_begins_anew_opens_a_segment(deterministic: bool) -> None:
    """Every action was sampled in the context of the environment's last messages alone, and is trained in it."""
    recorder = Recorder(ScriptedPolicy(["In the north?", "In the south?", "Tavelo!"]))
    stage = Stage(recorder, make_env=lambda services: Forgetful(None, services), deterministic=deterministic)
    result = stage.play(questions(1), 2)
    for one in result.groups[0].trajectories:
        assert [(turn.segment, turn.new_context) for turn in one.turns] == [(0, False), (1, True), (2, True)]
        last = TOKENIZER.decode(one.segments[2].ids)
        assert "You said: In the south? Go on." in last
        assert "north" not in last
        assert "Where was" not in last
        assert_as_sampled(one, recorder)
    assert_trained_as_sampled(result, recorder)


@BOTH_MODES
def test_an_engine_that_saw_other_ids_ends_the_rollout_by_name(deterministic: bool) -> None:
    """The prompt survives re-encoding, the spelled action before turn 1 does not."""
    engine = ReadingAgain([call("lookup", name="Name0"), "<answer>Tavelo</answer>"])
    said = r"^some/model: episode q0/0, turn 1, token \d+ \(id \d+, .*would see other ids"
    with pytest.raises(DriftError, match=said):
        Stage(engine, [lookup()], model="some/model", deterministic=deterministic).play(questions(1))


@pytest.mark.parametrize(
    ("what", "offset", "becomes", "turn", "sentence"),
    [
        ("ids", -2, [7], 1, "the context changed"),
        ("ids", 1, [7], 1, "not those that were sampled"),
        ("ids", 1, [], 1, "not those that were sampled"),
        ("mask", 0, [0], 1, "a sampled id has action mask 0"),
        ("mask", -1, [1], 0, "an id that nobody sampled has action mask 1"),
    ],
)
def test_the_guard_names_model_turn_and_token(what, offset, becomes, turn, sentence):
    recorder = Recorder(Speller(["Let me see", "<answer>Tavelo</answer>"]))
    (one,) = Stage(recorder).play(questions(1)).groups[0].trajectories
    guard = DriftGuard("some/model", TOKENIZER)
    guard.check_trajectory(one, recorder.sampled(one))
    at = one.turns[1].start + offset
    getattr(one.segments[0], what)[at : at + 1] = becomes
    place = rf"turn {turn}, token {at} \(id {one.segments[0].ids[at]}, "
    with pytest.raises(DriftError, match=f"^some/model: episode q0/0, .*{place}.*{sentence}"):
        guard.check_trajectory(one, recorder.sampled(one))


LIAR = '''
"""The embedded engine, but from the second weights on it admits to have seen something else."""
from dataclasses import replace

from agent_r1_core import EngineSpec, hookimpl
from agent_r1_transformers.engine import TransformersEngine

AGENT_R1_PLUGIN_API = 1


class Liar(TransformersEngine):
    async def generate_batch(self, requests):
        made = await super().generate_batch(requests)
        return [replace(one, context=one.context ^ int(one.version > 0)) for one in made]


@hookimpl
def register_engines():
    return [EngineSpec("liar", ":Liar", "an engine that lies")]
'''


def test_the_guard_stands_in_every_training_run(tmp_path: Path) -> None:
    tiny_model_folder(tmp_path / "model")
    plugins = [tmp_path / "vowels.py", tmp_path / "liar.py"]
    for file, text in zip(plugins, (REWARD, LIAR), strict=True):
        file.write_text(text)
    given = [*overrides(tmp_path, 3, engine__name="liar"), "evaluation.at_start=false", "run.name=liar"]
    with pytest.raises(DriftError, match=r"model: episode .*, turn 0, token \d+ "):
        train("default", given, plugins=plugins)
