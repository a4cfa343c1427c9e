"""A policy that collapses: the alarm, the end of the run, and a resume that knows what was seen."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_run import PLUGIN, Notes, overrides, run_once

from agent_r1_core import Run, train

BROKEN = '''
"""A reward that never varies, and breaks on sums in words, which evaluations ask, from the third on."""
from agent_r1_core import EpisodeError, RewardFn, RewardSpec, hookimpl

AGENT_R1_PLUGIN_API = 1
ASKED = []


class Lost(RewardFn):
    def score(self, trajectory):
        if trajectory.task.id.startswith("steps"):
            ASKED.append(trajectory)
            if len(ASKED) > 2:
                raise EpisodeError("the scorer is gone")
        return 1.0


@hookimpl
def register_rewards():
    return [RewardSpec("lost", ":Lost", "breaks in evaluations")]
'''
HEALTH = "{early_stop: true, group_std: {threshold: 0.6, steps: 2}}"


def collapse(folder: Path, name: str, steps: int, resume: bool = False, **changed: str) -> tuple[Run, list[str]]:
    """A learning rate at which the policy soon says the same vowel in every episode; and what was said."""
    own = {
        "tasks__train": "{name: arithmetic, size: 6}",
        "env__max_turns": 1,
        **{"training__samples_per_task": 4, "training__epochs": 1, "training__minibatches": 1, "training__lr": 0.1},
        **{"evaluation__every": 0, "evaluation__at_start": "false"},
        "checkpoint": "{every: 3, keep: 9, best: null}",
        "health": HEALTH,
    }
    notes = Notes()
    return run_once(folder, name, steps, resume=resume, listener=notes, **own | changed), notes.said


@pytest.mark.slow
def test_a_collapse_ends_the_run_and_a_resume_says_what_it_would_have_said(folder: Path) -> None:
    whole, said = collapse(folder, "whole", 30)
    (alarm,) = [alarm for alarm in whole.alarms() if alarm.monitor == "group_std"]
    stopped = alarm.step
    assert len(whole.metrics()) == stopped < 30
    assert alarm.since == stopped - 1
    first = [line["health/group_std"] for line in whole.metrics()][:3]
    assert alarm.threshold == pytest.approx(0.6 * sum(first) / 3)
    assert said.count(alarm.note()) == 1
    assert f"stopped early after step {stopped}, at the alarm group_std; resume with" in " ".join(said)
    assert whole.state().kind == "finished"
    assert f"stopped early after step {stopped}, at the alarm group_std" in whole.state().sentence
    assert said[-2:] == whole.health().splitlines()[-2:]
    assert f"group_std since step {alarm.since}" in whole.health()
    assert whole.checkpoints.latest().step == stopped  # type: ignore[union-attr]
    assert list(whole.evaluations()) == [f"step_{stopped:06d}"]
    assert whole.model.is_dir()

    half, _ = collapse(folder, "half", stopped - 1)
    (half.path / "health.jsonl").write_text("")
    resumed, _ = collapse(folder, "half", 30, resume=True)
    assert resumed.alarms() == whole.alarms()

    lines = whole.metrics()
    again, said = collapse(folder, "whole", 30, resume=True)
    assert again.metrics() == lines, "the alarm still stands"
    assert "stopped early" in " ".join(said)
    onward, _ = collapse(folder, "whole", stopped + 1, resume=True, health=HEALTH.replace("true", "false"))
    assert len(onward.metrics()) == stopped + 1
    assert onward.alarms()[: len(whole.alarms())] == whole.alarms()


def test_a_measurement_of_information_comes_when_it_is_due_and_changes_nothing(folder: Path) -> None:
    """Weights, episodes and all other metrics are those of a run without it; a resume measures in the same steps."""
    alone = {"evaluation__every": "4", "evaluation__at_end": "false", "health": "{group_std: off}"}
    plain, _ = collapse(folder, "plain", 4, **alone)
    alone["health"] = "{information: {every: 2, threshold: 0.9, steps: 1, window: 1}, thought_effect: {every: 1}}"
    _, begun = collapse(folder, "measured", 3, **alone)
    assert sum("health.thought_effect measures nothing here" in text for text in begun) == 1
    measured, said = collapse(folder, "measured", 4, resume=True, **alone)
    lines = measured.metrics()
    found = [{name: line.pop(name) for name in EXTRA if name in line} for line in lines]
    assert [sorted(one) for one in found] == [sorted(EXTRA), [], sorted(EXTRA), []]
    assert all(0.0 <= one["health/retrieval"] <= 1.0 for one in found[::2])
    assert all(one["time/health"] > 0.0 for one in found[::2])
    assert [timeless(line) for line in lines] == [timeless(line) for line in plain.metrics()]
    assert not any("measures nothing" in text for text in said)
    saw = [alarm.step for alarm in measured.alarms() if alarm.monitor == "information"]
    fell = found[2]["health/information"] <= 0.9 * found[0]["health/information"]
    assert saw == ([3] if fell else [])


def test_tasks_that_all_ask_the_same_are_told_not_to_be_measurable(folder: Path) -> None:
    changed = {"tasks__train": "{name: arithmetic, size: 1}", "health": "{information: {every: 1}}"}
    run, said = collapse(folder, "alike", 2, **changed)
    assert not any(name in line for line in run.metrics() for name in EXTRA)
    assert sum("health.information measures nothing here" in text for text in said) == 1


EXTRA = ("health/information", "health/retrieval", "time/health")
"""What is measured; episodes of arithmetic have no thoughts."""


def timeless(line: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in line.items() if not name.startswith("time/") and "per_second" not in name}


def test_what_neither_learns_nor_is_scored_says_both_and_keeps_its_steps(folder: Path) -> None:
    """A training whose every update is zero is not healthy; evaluations that nobody finishes cost no step."""
    (folder / "broken.py").write_text(BROKEN)
    changed = {
        "rewards": "[lost]",
        "tasks__eval": "{name: arithmetic, wording: words, split: eval, size: 2}",
        "run__name": "broken",
        "checkpoint": "{best: null}",
        "scores": "[broken]",
        "training__max_retries": 0,
        "training__minibatches": 1,
    }
    notes, plugins = Notes(), [PLUGIN, PLUGIN.with_name("scores.py"), folder / "broken.py"]
    run = train("default", overrides(folder, 3, **changed), plugins=plugins, listener=notes)
    assert any(text.startswith("in this evaluation 2 of 2 episodes lack the score broken") for text in notes.said)
    assert len(run.metrics()) == 3
    assert run.model.is_dir()
    for step in (2, 3):
        lost = f"the evaluation after step {step} has no scores: no episode of the evaluation finished"
        assert lost in str(notes.said)
    assert "zero_update" in {alarm.monitor for alarm in run.alarms()}
