"""docs/health.md lists every monitor as it is; `python tests/core/health/test_documents.py` prints the rows."""

from __future__ import annotations

from pathlib import Path

from agent_r1_core.health.monitors import MONITORS
from agent_r1_core.health.rule import AtLeast, AtMost, Fall, Growth, Loss, MeanFall, MeasuredFall, Monitor, Rule, Spike


def limit(rule: Rule) -> str:
    """The default limit in words."""
    number, several = f"{rule.threshold:g}", getattr(rule, "window", 1)
    forms = {
        AtLeast: f"at least {number}",
        AtMost: f"at most {number}",
        Fall: f"at most {number} x the mean of the first {several}",
        MeanFall: f"a mean of {several} in a row at most {number} x the first such",
        Growth: f"at least {number} x the mean of the first {several}",
        Spike: f"at least {number} x the median of the last {several}",
        Loss: f"{number} below the best mean of {several} in a row",
    }
    form = forms[Fall if isinstance(rule, MeasuredFall) else type(rule)]
    return f"{form}, {rule.steps} x" if rule.steps > 1 else form


def row(monitor: Monitor) -> str:
    """The line of a monitor in the table."""
    seen = monitor.seen.replace(" (alarm at {limit})", "").replace(", alarm at {limit}", "").replace("{value}", "...")
    metric = f"`{monitor.metric}`" + (f" / `{' + '.join(monitor.per)}`" if monitor.per else "")
    name = f"**`{monitor.name}`**" if monitor.severe else f"`{monitor.name}`"
    bound = limit(monitor.rule) + (f", and `{monitor.gain}` no higher" if monitor.gain is not None else "")
    return f"| {name} | {metric} | {bound} | {seen} | {monitor.helps} |"


def test_the_table_has_every_monitor_with_its_default_and_nothing_else(root: Path) -> None:
    lines = (root / "docs" / "health.md").read_text(encoding="utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| monitor "))
    table = lines[start + 2 : lines.index("", start)]
    assert table == [row(monitor) for monitor in MONITORS]


if __name__ == "__main__":
    print("\n".join(map(row, MONITORS)))
