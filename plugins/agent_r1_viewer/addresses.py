"""ADDRESSES: every place of the viewer, once: what the API answers there, which page it is, and what that page needs.

A page and the answer that it shows have the same form: `#/runs/NAME/steps/3` is drawn from `/api/runs/NAME/steps/3`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Address:
    """A form of addresses."""

    form: str
    """Its parts; those in braces have names and differ."""
    answer: str | None = None
    """What the API answers there; two forms may have one answer."""
    page: str | None = None
    """The module in `static/pages`, and the style sheets that it needs beside the first one."""
    sheets: tuple[str, ...] = ()
    carries: tuple[str, ...] = ()
    """The answers that this page has in a notebook, about the same names; none: a notebook has no such page."""

    def parts(self) -> list[str | None]:
        """The parts in order; None: any."""
        return [None if part.startswith("{") else part for part in filter(None, self.form.split("/"))]

    def names(self) -> list[str]:
        """The names of the parts that differ, in order."""
        return [part[1:-1] for part in self.form.split("/") if part.startswith("{")]

    def match(self, parts: Sequence[str]) -> dict[str, str] | None:
        """What these parts are by name; None: they have another form."""
        own = self.parts()
        if len(own) != len(parts) or any(mine not in (None, other) for mine, other in zip(own, parts, strict=True)):
            return None
        given = [other for mine, other in zip(own, parts, strict=True) if mine is None]
        return dict(zip(self.names(), given, strict=True))


_STEP = "runs/{run}/steps/{step}"
_STEP_EPISODE = f"{_STEP}/episodes/{{row}}"
_EVALUATED = "runs/{run}/evaluations/{evaluation}/episodes/{row}"
_CURVES, _EPISODES = ("run.css",), ("episode.css",)
ADDRESSES = (
    Address("", page="runs"),
    Address("compare", page="run", sheets=_CURVES),
    Address("plot", page="plot", sheets=_CURVES, carries=("run", "metrics")),
    Address("runs", "runs"),
    Address("runs/{run}", "run", "run", _CURVES),
    Address("runs/{run}/metrics", "metrics"),
    Address("runs/{run}/search", "search", "search", _EPISODES),
    Address("runs/{run}/evaluations", "evaluations", "evaluations", _CURVES),
    Address(_STEP, "step", "step", _EPISODES),
    Address(f"{_STEP}/groups/{{group}}", "group", "group", _EPISODES),
    Address(_STEP_EPISODE, "episode", "episode", _EPISODES, ("step", "episode")),
    Address(f"{_STEP_EPISODE}/tokens", "tokens"),
    Address(f"{_STEP_EPISODE}/text", "text"),
    Address(_EVALUATED, "episode", "episode", _EPISODES, ("episode",)),
    Address(f"{_EVALUATED}/tokens", "tokens"),
    Address(f"{_EVALUATED}/text", "text"),
)


def found(parts: Sequence[str]) -> tuple[Address, dict[str, str]] | None:
    """The address of these parts, and what they are by name."""
    matches = ((one, one.match(parts)) for one in ADDRESSES)
    return next(((one, values) for one, values in matches if values is not None), None)


def parts_of(answer: str, values: Mapping[str, object]) -> list[str]:
    """The parts at which the API gives an answer about names; of the names that are given, the answer takes its own."""
    forms = [one for one in ADDRESSES if one.answer == answer and set(one.names()) <= values.keys()]
    return [str(values[part[1:-1]]) if part.startswith("{") else part for part in forms[0].form.split("/")]


def pages() -> list[tuple[list[str | None], str, tuple[str, ...]]]:
    """What the page itself knows of all pages: parts, module, sheets."""
    return [(one.parts(), one.page, one.sheets) for one in ADDRESSES if one.page is not None]


def sheets() -> list[str]:
    """The style sheets of all pages."""
    return list(dict.fromkeys(sheet for one in ADDRESSES for sheet in one.sheets))
