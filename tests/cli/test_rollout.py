"""`agent-r1 rollout` plays real episodes; on paper every id stands once, and rewards stand beside their turns."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence

import pytest

from agent_r1_cli.transcript import Transcript, episode_json
from agent_r1_core import train
from agent_r1_core.contracts.success import PER_TASK
from agent_r1_core.testing import make_trajectory
from agent_r1_core.trajectory import CallRecord, EndStatus, Trajectory
from agent_r1_core.work import watched_by

SETTINGS = ("calculator", "engine.max_new_tokens=8", "env.max_turns=2", "threads=1")
QUIET = ("evaluation.every=0", "evaluation.at_start=false", "evaluation.at_end=false", "checkpoint.best=null")
SMALL = (*QUIET, "threads=1", "training.steps=1", "training.tasks_per_step=2", "training.samples_per_task=1")


def test_json_holds_ids_mask_and_rewards_of_every_episode(succeed, noise):
    done = succeed("rollout", *SETTINGS, "--model", noise, "-n", 2, "-s", 2, "--task", 1, "--json")
    answer = json.loads(done.stdout)
    assert answer["schema"] == 1
    episodes = answer["episodes"]
    assert [episode["sample"] for episode in episodes] == [0, 1, 0, 1]
    for episode in episodes:
        assert 1 <= len(episode["turns"]) <= 2
        assert set(episode["rewards"]) == {"exact_match", "format"}
        (segment,) = episode["segments"]
        assert len(segment["ids"]) == len(segment["mask"])
        assert 0 < sum(segment["mask"]) <= 16


def test_off_a_terminal_episodes_are_marked_text_and_whoever_watches_is_told_what_takes_long(succeed, noise):
    ended: dict[str, str] = {}
    with watched_by(lambda work: ended.update({work.what: work.count()} if work.ended else {})):
        done = succeed("rollout", *SETTINGS, "--model", noise, "-n", 2, "-s", 2, "--greedy")
    assert done.stdout.startswith("[[sampled by the policy (action mask 1)]]")
    assert "\nepisode sum." in done.stdout
    assert "  turn 0: reward 0.000" in done.stdout
    assert "\x1b" not in done.stdout
    loading = f"loading {noise}"
    assert list(ended) == [loading, "starting tools and engine", "playing"]
    assert ended[loading].endswith(" tensors")
    assert ended["playing"] == "4 episodes"


OWN = ("rollout", "calculator", "threads=1", "--set", "train", "-n", 6, "-s", 4)


def test_successes_become_a_file_that_sft_learns_from(refuse, succeed, tmp_path):
    file = tmp_path / "own.jsonl"
    done = succeed(*OWN, "--keep-successes", file, "--per-task", 2)
    assert done.stdout == ""
    records = [json.loads(line) for line in file.read_text().splitlines()]
    assert f"{file}: {len(records)} conversations, from " in done.stderr
    assert 1 <= len(records) <= 12
    for record in records:
        (answer,) = record["answers"]
        assert record["messages"][-1]["content"].endswith(f"<answer>{answer}</answer>")
    settings = [
        *SMALL,
        f"tasks.train={{name: conversations, path: {file}}}",
        "algorithm={name: sft, observations: file}",
    ]
    run = train("calculator", [*settings, f"run.dir={tmp_path}"])
    (line,) = run.metrics()
    assert (line["rollout/episodes"], line["rollout/failed"], line["reward/exact_match"]) == (2, 0, 1)
    before = file.read_bytes()
    refuse(1, f"error: {file} exists already; remove it, or choose another name", *OWN, "--keep-successes", file)
    assert file.read_bytes() == before


def test_where_nothing_succeeds_nothing_is_written_and_what_cannot_be_shown_counts(agent_r1, noise, tmp_path, succeed):
    file = tmp_path / "own.jsonl"
    done = agent_r1("rollout", *SETTINGS, "--model", noise, "-s", 2, "--keep-successes", file)
    assert done.exit_code == 1
    assert f"error: 0 of 4 episodes succeeded, none is kept, and {file} is not written" in done.stderr
    assert list(tmp_path.iterdir()) == []
    # Noise that every bound calls a success: its actions are cut by their budget.
    done = agent_r1("rollout", *SETTINGS, "--model", noise, "-n", 4, "--keep-successes", file, "--success-at", -1)
    assert "left out" in done.stderr
    assert " successes: " in done.stderr
    for alone in (("--per-task", 2), ("--success-at", 0.5)):
        refused = agent_r1("rollout", *SETTINGS, *alone)
        assert (refused.exit_code, "give --keep-successes too" in " ".join(refused.stderr.split())) == (2, True)
    assert f"(default: {PER_TASK})" in agent_r1("rollout", "--help").stdout
    own = succeed("rollout", "calculator", "threads=1", "-n", 6, "-s", 4, "--keep-successes", file)
    assert "its tasks are those of the set eval, which evaluation asks too; --set train takes" in own.stderr


def decode(ids: Sequence[int]) -> str:
    return "".join(chr(ord("a") + index) for index in ids)


def written(trajectory: Trajectory, colour: bool = False) -> str:
    stream = io.StringIO()
    transcript = Transcript(stream, colour=colour)
    transcript.legend()
    transcript.episode(trajectory, decode)
    return stream.getvalue()


def two_turns() -> Trajectory:
    turns = [([0, 1], [2, 3]), ([4], [5, 6])]
    rewards = {"turn_rewards": [0.5, 0.0], "reward": 1.0, "rewards": {"exact_match": 1.0}}
    trajectory = make_trajectory(turns, **rewards, closing=[7], answer="2", reason="answer")
    trajectory.turns[0].rewards = {"env": 0.0, "polite": 0.25}
    trajectory.turns[1].errors = ["no answer"]
    trajectory.turns[1].calls = [CallRecord("search", error="Error: hung.")]
    return trajectory


def test_actions_stand_in_brackets_or_are_coloured_and_plain_data_has_ids_mask_and_rewards():
    lines = written(two_turns()).splitlines()
    assert lines[0].startswith("[[sampled by the policy (action mask 1)]]")
    assert lines[2] == "episode task/0: terminated (answer), 2 turns, 8 tokens, 4 of them sampled"
    assert lines[3:6] == ["ab[[cd]]", "  turn 0: reward 0.500 (polite 0.250)", "e[[fg]]"]
    assert (lines[6], lines[7]) == ("  turn 1: reward 0.000; no answer; search: Error: hung.", "h")
    assert lines[8:11] == [
        "  answer '2', accepted: '2'",
        "  outcome reward 1.000 (exact_match 1.000)",
        "  return 1.500",
    ]
    assert "\x1b" not in "".join(lines)
    data = episode_json(two_turns(), decode)
    (segment,) = data["segments"]
    assert segment == {"ids": list(range(8)), "mask": [0, 0, 1, 1, 0, 1, 1, 0], "text": "abcdefgh"}
    assert data["turns"][0]["rewards"] == {"env": 0.0, "polite": 0.25}
    assert (data["return"], data["status"], data["answer"]) == (1.5, "terminated", "2")
    text = written(two_turns(), colour=True)
    assert "\x1b[1;32mcd\x1b[0m" in text
    assert "\x1b[2mab\x1b[0m" in text
    assert "[[" not in text
    stream = io.StringIO()
    Transcript(stream, colour=True).episode(two_turns(), lambda ids: "[red] :bug:")
    assert "[red] :bug:" in stream.getvalue(), "text that looks like markup is printed as it is"


@pytest.mark.parametrize("colour", [False, True])
def test_what_a_model_or_a_tool_says_does_not_act_on_the_terminal(colour):
    trajectory = two_turns()
    trajectory.reason = "\x1b[2J"
    trajectory.turns[1].calls = [CallRecord("search", error="Error: no.\n  return 9.000\x9b1A")]
    stream = io.StringIO()
    Transcript(stream, colour=colour).episode(trajectory, lambda ids: "paid\r\x1b]0;free\x07\u202e\n")
    text = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())
    assert text.count(r"paid\r\x1b]0;free\x07\u202e") == 5
    assert r"terminated (\x1b[2J)" in text
    assert r"search: Error: no.\n  return 9.000\x9b1A" in text
    assert not re.search("[\r\x1b\x07\x9b\u202e]", text)


def test_a_summary_a_rewritten_context_and_a_cut_action_are_told():
    turns = [([0], [1]), ([2], [3]), ([4], [5])]
    trajectory = make_trajectory(turns, new_segment_at={2}, status=EndStatus.TRUNCATED)
    trajectory.turns[1].purpose, trajectory.turns[1].errors = "summary", ["the summary is empty"]
    trajectory.turns[2].finish = "length"
    told = written(trajectory)
    assert "2 turns, 1 summaries, 6 tokens" in told
    assert "turn 1: a summary, with which the context begins anew; the summary is empty" in told
    assert "--- segment 1: the context was rewritten ---" in told
    assert "cut by the token budget" in told
    assert "no answer, accepted: '2'" in told
    assert [turn["purpose"] for turn in episode_json(trajectory, decode)["turns"]] == ["action", "summary", "action"]
