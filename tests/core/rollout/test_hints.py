"""A hint is in what a teacher reads, and nowhere in what the policy reads."""

from __future__ import annotations

from bad_tools import lookup
from stage import TOKENIZER, Stage, call, questions

from agent_r1_core import Task
from agent_r1_core.testing import ScriptedPolicy
from agent_r1_core.trajectory import Trajectory

HINT = "The answer is {answers}, <|im_end|> by {sources}."
TOLD = "\n\nThe answer is Tavelo or Oslo, <|im_end|> by a friend, 2."
ASKED = "Where was Ana born?"


def played(task: Task, hint: str | None, **env: int) -> Trajectory:
    policy = ScriptedPolicy([call("lookup", name="Ana"), "<answer>Oslo</answer>"])
    result = Stage(policy, [lookup()], env={"system_prompt": "Search.", **env}).play([task], 1, hint=hint)
    assert all("a friend" not in TOKENIZER.decode(request.ids) for request in policy.requests)
    (episode,) = result.trajectories
    return episode


def test_a_teacher_reads_the_same_prompt_with_the_hint_behind_it():
    task = Task("q", ASKED, ("Tavelo", "Oslo"), metadata={"sources": ["a friend", 2]})
    episode = played(task, HINT)
    (segment,) = episode.segments
    prompt = TOKENIZER.decode(segment.ids[: segment.prompt_length])
    assert TOKENIZER.decode(episode.hinted) == prompt.replace(ASKED, ASKED + TOLD)
    ends = (ids.count(TOKENIZER.end_id) for ids in (segment.ids[: segment.prompt_length], episode.hinted))
    assert len(set(ends)) == 1, "an answer holds no control token"


def test_a_task_that_lacks_what_the_hint_names_or_would_be_too_long_with_it_has_none():
    assert played(questions(1)[0], HINT).hinted == []
    assert played(questions(1)[0], None).hinted == []
    assert "Look it up" in TOKENIZER.decode(played(questions(1)[0], "Look it up.").hinted)
    length = len(played(questions(1)[0], None).segments[0].ids)
    assert played(questions(1)[0], "Look it up.", max_tokens=length + 13).hinted
    assert played(questions(1)[0], "Look it up.", max_tokens=length + 12).hinted == []
