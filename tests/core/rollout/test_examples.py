"""Examples before a task: in any environment, wherever a conversation begins; what cannot be shown is said."""

from __future__ import annotations

from typing import Any

import pytest
from agent_r1_tool_formats.hermes import Hermes
from agent_r1_tool_formats.search_tags import SearchTags
from stage import TOKENIZER, Stage

from agent_r1_core import Action, Observation, Step, Task, ToolEnv
from agent_r1_core.errors import ConfigError
from agent_r1_core.rollout.examples import Examples
from agent_r1_core.testing import ScriptedPolicy
from agent_r1_core.trajectory import EndStatus, Trajectory


class Corridor(ToolEnv):
    """Two turns; every turn begins the conversation anew with what is seen now. The clock may end it from outside."""

    clock = False

    def reset(self, task: Task) -> Observation:
        self.place = task.seed or 0
        return self._seen(new_context=False)

    def step(self, action: Action) -> Step:
        self.place += 1
        over = self.place >= 2
        return Step(self._seen(), terminated=over and not self.clock, truncated=over and self.clock)

    def _seen(self, new_context: bool = True) -> Observation:
        system = {"role": "system", "content": "Say left or right."}
        user = {"role": "user", "content": f"You stand at {self.place}."}
        return Observation([system, user], new_context=new_context)  # type: ignore[list-item]


class Clocked(Corridor):
    clock = True


def walked(place: int) -> Task:
    """A game of text alone, in which the environment speaks twice."""
    said = [("assistant", "left"), ("user", f"A wall, at {place}."), ("assistant", "right")]
    shown: Any = [{"role": role, "content": text} for role, text in said]
    return Task("w", f"You stand at {place}.", demonstration=shown)


def play(env: type[ToolEnv], examples: Examples, **budget: Any) -> Trajectory:
    stage = Stage(
        ScriptedPolicy(["right"]),
        make_env=lambda services: env(env.Config(**budget), services),
        tool_format=None,
        examples=examples,
    )
    result = stage.play([Task("t", "Begin.", seed=0)])
    (trajectory,) = [*result.trajectories, *result.dropped]
    return trajectory


def read(episode: Trajectory) -> list[str]:
    """The segments as text, each cut where the policy first acts."""
    return [TOKENIZER.decode(segment.ids[: segment.prompt_length or None]) for segment in episode.segments]


@pytest.mark.parametrize(("env", "segments"), [(Corridor, 2), (Clocked, 3)])
def test_a_context_that_an_environment_begins_anew_begins_with_the_examples(env, segments):
    """Also the last one, which only a bootstrap reads."""
    episode = play(env, Examples("walks.jsonl", (walked(0), walked(7), walked(8)), most=1))
    texts = read(episode)
    assert [text.count("A wall, at 7.") for text in texts] == [1] * segments
    for place, text in enumerate(texts):
        turns = ["Say left or right.", "You stand at 7.", "left", "A wall, at 7.", "right", f"You stand at {place}."]
        assert [part.split("\n", 1)[1].split("<|im_end|>")[0] for part in text.split("<|im_start|>")[1:-1]] == turns
    assert episode.examples == 1


def test_a_kept_game_is_left_out_of_the_game_with_its_seed_alone_and_examples_count_towards_the_budget():
    """Its prompt is that of all games."""
    kept = [Task("k", "Begin.", seed=seed, demonstration=walked(seed + 5).demonstration) for seed in (0, 1)]
    (first, *_) = read(play(Corridor, Examples("walks.jsonl", tuple(kept))))
    assert "A wall, at 5." not in first
    assert "A wall, at 6." in first
    examples = Examples("walks.jsonl", (walked(7), walked(8)))
    episode = play(Corridor, examples, max_tokens=150)
    assert episode.status is EndStatus.FAILED
    assert episode.reason == (
        "the prompt of task t with 2 examples before it has 220 tokens, "
        "which do not fit into env.max_tokens=150; raise it"
    )
    for most, count in ((None, 3), (2, 2), (9, 3)):
        examples = Examples("walks.jsonl", tuple(map(walked, range(3))), most)
        facts = examples.to_json()
        assert (facts["file"], facts["conversations"], facts["before_a_task"]) == ("walks.jsonl", 3, count)
        assert f"{count} of the 3 conversations in walks.jsonl" in examples.describe()


CALL = {"function": {"name": "lookup", "arguments": {"name": "Karimo", "of": "towns"}}}
CALLS, TOLD = {"role": "assistant", "content": "", "tool_calls": [CALL]}, {"role": "tool", "content": "Tavelo"}


@pytest.mark.parametrize(
    ("form", "shown", "sentence"),
    [
        (None, [CALLS, TOLD], "action 1 of conversation 2 of f.jsonl calls a tool, and the environment has no"),
        (Hermes(), [CALLS], "makes 1 calls, and 0 tool messages follow; give each call one"),
        (Hermes(), [{"role": "assistant", "content": "hm"}, TOLD], "makes 0 calls, and 1 tool messages follow"),
        (SearchTags(), [CALLS, TOLD], "makes other calls in the run's tool format than it shows; use another"),
        (Hermes(), [CALLS, TOLD, {"role": "root", "content": "x"}], "a message of the role 'root' follows action 1 of"),
    ],
)  # fmt: skip
def test_what_cannot_be_shown_is_a_sentence(form, shown, sentence):
    examples = Examples("f.jsonl", (walked(0), Task("two", "Where?", demonstration=shown)))
    with pytest.raises(ConfigError) as error:
        examples.messages(examples.tasks, form, TOKENIZER.control)
    assert str(error.value).startswith("env.examples cannot be shown: ")
    assert sentence in str(error.value)
