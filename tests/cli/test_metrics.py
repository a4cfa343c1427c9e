"""`agent-r1 metrics` explains what stands in metrics.jsonl."""

from __future__ import annotations

import json


def test_it_lists_what_a_name_means(agent_r1) -> None:
    said = agent_r1("metrics", "health/group_std")
    assert "falls before a collapse" in said.stdout
    answer = json.loads(agent_r1("metrics", "time/step", "--json").stdout)
    assert answer["metrics"] == [
        {"name": "time/step", "unit": "s", "better": "lower", "meaning": "the whole step, evaluation included"}
    ]


def test_an_unknown_part_is_an_error(agent_r1) -> None:
    said = agent_r1("metrics", "nonsense")
    assert said.exit_code == 2
    assert "no metric has 'nonsense' in its name" in said.stderr
