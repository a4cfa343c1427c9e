"""Metric: the declaration of a number that a run reports: its name, what it means, its unit, which way is good."""

from __future__ import annotations

from typing import Any, Literal, Self

Better = Literal["higher", "lower", "neither"]


class Metric(str):
    """A declared metric: a string, its own name, to be used wherever a name can be: `metrics[GROUP_STD]`.

    A name with a part in angle brackets declares a family: `reward/<name>` stands for `reward/exact_match` and all
    others of that form. A component declares its own metrics under bare names (`hits`); the core adds the prefix:
    `update/hits` for an algorithm, `env/hits` for an environment, `tools/<tool>/hits` for a tool, `reward/<name>/hits`
    for a reward.
    """

    meaning: str
    """One sentence without its full stop."""
    unit: str
    """`s`, `tokens`, `nats`, `share` (0 to 1), ...; empty for a plain number."""
    better: Better
    """Which way is good; `neither` where that depends."""

    def __new__(cls, name: str, meaning: str, *, unit: str = "", better: Better = "neither") -> Self:
        metric = super().__new__(cls, name)
        metric.meaning, metric.unit, metric.better = meaning, unit, better
        return metric

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """A copy, in this or another process, is the plain name."""
        return str, (str(self),)

    def of(self, *parts: str) -> Metric:
        """A member of the family, with its parts in order: `reward/<name>` of `f1` is `reward/f1`."""
        name = str(self)
        for part in parts:
            start, end = name.index("<"), name.index(">")
            name = f"{name[:start]}{part}{name[end + 1 :]}"
        return Metric(name, self.meaning, unit=self.unit, better=self.better)

    def under(self, prefix: str) -> Metric:
        """The same declaration under a prefixed name."""
        return Metric(f"{prefix}{self}", self.meaning, unit=self.unit, better=self.better)

    def to_json(self) -> dict[str, Any]:
        """Plain data, for a run's `metric_catalogue.json` and `--json`."""
        return {"name": str(self), "unit": self.unit, "better": self.better, "meaning": self.meaning}
