"""Alarms of a whole run: told once, rebuilt from its metrics, summed up in a verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_r1_core.config import load_config
from agent_r1_core.config.monitor_checks import idle_monitors
from agent_r1_core.errors import ConfigError, RunError
from agent_r1_core.health.alarm import Alarm, verdict
from agent_r1_core.health.monitors import MONITORS
from agent_r1_core.health.watch import HealthConfig, Watch
from agent_r1_core.runs.files import LinesFile

CLIPS, REFERENCE, LONE = {"clip_fraction", "importance_clip", "mismatch_mask"}, {"kl_reference"}, {"return_std"}
"""Idle with one optimiser step on each rollout and no mask, without a KL, and where there are groups."""


def echo_trap() -> list[dict[str, float]]:
    """Sixty steps: spread falls, then entropy, then the gradient's norm jumps for good, then the reward goes."""
    return [
        {
            "step": step,
            "health/group_std": 0.4 if step < 13 else 0.02,
            "update/entropy": 0.5 if step < 20 else 0.01,
            "update/grad_norm": 0.3 if step < 30 else 4.0,
            "reward/mean": 0.6 if step < 41 else 0.1,
            "prob_gap": 0.02 if step == 5 else 0.001,
        }
        for step in range(1, 61)
    ]


def test_a_service_that_was_gone_for_most_of_a_run_stands_in_the_verdict() -> None:
    """Though most calls were answered, by a cache."""
    lines = [
        {"step": step, "tools/calls": 20.0, "tools/errors": 4.0, "tools/away": 0.2 if step > 2 else 0.0}
        for step in range(1, 9)
    ]
    assert verdict(Watch(HealthConfig()).replay(lines), 8).splitlines() == [
        "health: alarms stand after 8 steps: tools_away since step 3",
        "tools_away: 20 % of the calls of a tool found the service behind it away (alarm at 10 %), since step 3; what "
        "usually helps: a look at the service, and a resume from a checkpoint of before it went",
    ]


def test_a_collapse_is_told_sign_by_sign_each_once_also_by_whoever_goes_on_in_the_middle() -> None:
    alarms = Watch(HealthConfig()).replay(echo_trap())
    assert [(alarm.step, alarm.monitor, alarm.event, alarm.since) for alarm in alarms] == [
        (5, "prob_gap", "begins", 5),
        (10, "prob_gap", "ends", 5),
        (14, "spread_without_gain", "begins", 14),
        (22, "group_std", "begins", 13),
        (29, "entropy_collapse", "begins", 20),
        (32, "grad_norm", "begins", 30),
        (45, "reward", "begins", 41),
    ]
    assert alarms[3].note() == (
        "step 22: the spread of returns within groups has fallen to 0.02 (alarm at 0.04), since step 13; what usually "
        "helps: a lower learning rate, more samples per task, algorithm.filter=top_p, or, if the tasks are solved, "
        "harder ones (health.group_std)"
    )
    assert [(alarm.value, alarm.threshold) for alarm in alarms[:2]] == [(0.02, 0.01), (0.001, 0.01)]
    assert alarms[1].note() == "step 10: the alarm that stood since step 5 is over (health.prob_gap)"
    assert verdict(alarms, 60).splitlines() == [
        "health: alarms stand after 60 steps: group_std since step 13, spread_without_gain since step 14, "
        "entropy_collapse since step 20, grad_norm since step 30, reward since step 41",
        f"group_std: {alarms[3].sentence}",
        "alarms that are over: prob_gap (steps 5 to 10)",
    ]
    assert verdict(alarms[:2], 12) == "health: healthy now, with alarms that are over: prob_gap (steps 5 to 10)"
    assert verdict([], 1) == "health: healthy, no alarm in 1 step"
    assert verdict([], 0) == "health: not known, no step is recorded"
    assert verdict(None, 60) == "health: not known, the run has no health.jsonl"
    lines = echo_trap()
    whole = Watch(HealthConfig()).replay(lines)
    for done in (0, 4, 5, 17, 22, 31, 60):
        watch = Watch(HealthConfig())
        assert watch.replay(lines[:done]) + watch.replay(lines[done:]) == whole
    found = {alarm.monitor for alarm in whole}
    quiet = {alarm.monitor for alarm in Watch(HealthConfig(), {min(found)}).replay(lines)}
    assert quiet == found - {min(found)} != found


def test_spread_is_judged_beside_the_reward_by_episodes_where_no_groups_are_compared_and_a_critic_where_it_is() -> None:
    """Spread that falls while the reward rises is no sign."""

    def alarms(last_reward: float) -> set[str]:
        lines = echo_trap()[:20]
        for line in lines[12:]:
            line["reward/mean"] = last_reward
        return {alarm.monitor for alarm in Watch(HealthConfig()).replay(lines)}

    assert alarms(0.6) - alarms(0.9) == {"spread_without_gain"}
    metrics = {"health/return_std": 0.0, "health/groups_without_spread": 1.0, "update/critic_skipped_nonfinite": 1.0}
    for keys, monitors in (
        (["training.samples_per_task=1"], ["return_std"]),
        (["algorithm=ppo"], ["return_std", "critic_nonfinite"]),
        ([], ["no_spread"]),
    ):
        config = load_config("default", keys)
        algorithm = config.make("algorithm", config.config.algorithm)
        watch = Watch(HealthConfig(), set(idle_monitors(config.config, "it", algorithm)))
        assert [alarm.monitor for alarm in watch.judge(1, metrics)] == monitors


def test_a_severe_alarm_is_a_reason_to_stop_while_it_stands_and_up_to_six_are_named() -> None:
    watch = Watch(HealthConfig())
    watch.replay(echo_trap()[:21])
    assert watch.severe is None
    watch.replay(echo_trap()[21:60])
    assert watch.severe.monitor == "group_std"
    watch.replay([{"step": step, "health/group_std": 0.4} for step in range(61, 71)])
    assert watch.severe is None
    ones = ("health/groups_without_spread", "update/skipped_nonfinite", "episode/cut_actions", "episode/malformed")
    bad = dict.fromkeys(ones, 1.0) | dict.fromkeys(("update/trajectories", "episode/terminated"), 0.0)
    alarms = Watch(HealthConfig()).replay([{"step": step, **bad} for step in range(1, 11)])
    assert verdict(alarms[:6], 10).splitlines()[0].endswith(", malformed since step 1")
    (first, _) = verdict(alarms, 10).splitlines()
    assert first == (
        "health: alarms stand after 10 steps: filtered_out since step 1, no_spread since step 1, empty_update since "
        "step 1, nonfinite since step 1, cut_actions since step 1, malformed since step 1, and 2 more"
    )


def test_the_numbers_of_a_recipe_count_off_is_off_and_what_a_monitor_can_use_is_taken(tmp_path: Path) -> None:
    keys = ["health.group_std={threshold: 0.5, steps: 2}", "health.grad_norm=off", "health.prob_gap.steps=2"]
    resolved = load_config("default", keys)
    settings = resolved.config.health
    alarms = [(alarm.step, alarm.monitor) for alarm in Watch(settings).replay(echo_trap())]
    assert alarms == [(14, "group_std"), (14, "spread_without_gain"), (29, "entropy_collapse"), (45, "reward")]
    (tmp_path / "config.yaml").write_text(resolved.yaml())
    assert load_config(tmp_path / "config.yaml").config.health == settings
    assert "grad_norm: 'off'" in resolved.yaml()
    load_config("default", ["health.information={every: 3, threshold: 0.2, steps: 1}", "health.retrieval.steps=1"])
    load_config("default", ["health.information.every=0"])
    load_config("default", [*SEVERE[1:], "health.early_stop=true"])


SEVERE = [f"health.{monitor.name}=off" for monitor in MONITORS if monitor.severe]
UNMEASURED = r"health\.information\.every is 0"


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        (["health.group_sdt.steps=3"], r"health\.group_sdt .* is not a key \(did you mean health\.group_std\?\)"),
        (["health.group_std.treshold=3"], r"health\.group_std\.treshold .*did you mean health\.group_std\.threshold\?"),
        (["health.group_std.threshold=1"], "must be less than 1"),
        (["health.grad_norm.threshold=1"], "must be greater than 1"),
        (["health.reward.window=1"], "must be greater than or equal to 2"),
        (["health.no_spread=5"], "must be keys with values"),
        (["health.information.steps=3"], rf"health\.information\.steps .*{UNMEASURED}"),
        (["health.information=off", "health.retrieval.steps=3"], rf"health\.retrieval\.steps .*{UNMEASURED}"),
        ([*SEVERE, "health.early_stop=true"], r"health\.early_stop .*no severe monitor is on"),
    ],
)
def test_what_no_monitor_can_use_is_refused(keys: list[str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        load_config("default", keys)


COMPARED = {"no_spread", "groups_without_spread"}
GROUPS = {"group_std", "spread_without_gain", *COMPARED}
CALLS = {"tool_calls", "tool_errors", "tools_away", "repeated_calls"}
CRITIC = {"critic_nonfinite"}
SHOWN = {"entropy_collapse", "length", "tool_calls", "reward"}
"""Idle where everything is shown to the policy."""


@pytest.mark.parametrize(
    ("keys", "idle"),
    [
        (["tools=[]"], CALLS | LONE | CLIPS | REFERENCE | CRITIC),
        (["training.samples_per_task=1"], GROUPS | CLIPS | REFERENCE | CRITIC),
        (["algorithm={name: grpo, kl_coef: 0.1}", "training.epochs=2"], LONE | CLIPS - {"clip_fraction"} | CRITIC),
        (["training={importance_clip: 2, mismatch_mask: icepop, minibatches: 2}"], LONE | REFERENCE | CRITIC),
        (["algorithm={name: grpo, objective: dppo}"], LONE | REFERENCE | CLIPS - {"clip_fraction"} | CRITIC),
        (["algorithm=sft", "training.samples_per_task=1"], SHOWN | GROUPS | LONE | CLIPS | REFERENCE | CRITIC),
        (
            ["algorithm=ppo", "evaluation.every=0"],
            {"bootstrapped_without_critic", "exact_match", "success", *COMPARED} | CLIPS | REFERENCE,
        ),
    ],
)
def test_a_monitor_without_a_metric_is_refused_where_somebody_set_it(keys: list[str], idle: set[str]) -> None:
    resolved = load_config("default", keys)
    algorithm = resolved.make("algorithm", resolved.config.algorithm)
    assert set(idle_monitors(resolved.config, "it", algorithm)) == idle | {"information", "retrieval", "thought_effect"}
    for change in (f"health.{min(idle)}.steps=2", f"health.{max(idle)}=off"):
        with pytest.raises(ConfigError, match=r"health\.\w+(\.steps)? .*has no effect here"):
            load_config("default", [*keys, change])
    load_config("default", [*keys, "health.malformed.steps=2"])


def test_alarms_come_back_as_they_were_written(tmp_path: Path) -> None:
    file = LinesFile(tmp_path / "health.jsonl", Alarm, "an alarm")
    alarms = Watch(HealthConfig()).replay(echo_trap())
    assert file.read() == []
    for some in (alarms[:4], [], alarms[4:]):
        file.append(some)
    assert file.read() == alarms
    whole = file.path.read_bytes()
    file.path.write_bytes(whole + b'{"step": 61')
    assert file.read() == alarms, "a torn line is none"
    file.write(alarms[:1])
    assert file.read() == alarms[:1]
    for damage in (b"null", b"[1]", b"{}", b"x", whole.split(b"\n")[0].replace(b'"begins"', b'"sleeps"')):
        file.path.write_bytes(whole + damage + b"\n")
        with pytest.raises(RunError, match=r"line 8 of .* is not an alarm; delete the line"):
            file.read()
