"""The page that `agent-r1 plugins show` prints: facts, options, presets, metrics and tool schema of a component."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from agent_r1_cli.output import show

_NARROWEST, _WIDEST = 60, 100
"""Columns of the page."""
_NAMES = 26
"""Columns for the names of options; a longer name gets its own line."""


def print_page(answer: dict[str, Any]) -> None:
    """Print a component; `answer` is what `--json` prints."""
    for title, text in _facts(answer).items():
        if text:
            show(_wrapped(text, f"{title + ':':<11}", " " * 11))
    if answer["doc"]:
        show(f"\n{_prose(answer['doc'])}")
    show()
    if answer["kind"] == "command":
        show(f"Its arguments: agent-r1 {answer['name']} --help")
        return
    if answer["kind"] == "site":
        show(f"A recipe says: distributed.site={answer['name']}")
        return
    if answer["options"]:
        _print_entries("options:", [_option(option) for option in answer["options"]])
    else:
        show("It has no options of its own.")
    if answer["recipe_options"]:
        _print_entries(f"\nevery {answer['kind']} has:", [_option(option) for option in answer["recipe_options"]])
    if answer["presets"]:
        _print_entries("\npresets:", [(p["name"], [p["summary"], _settings(p["config"])]) for p in answer["presets"]])
    if answer["metrics"]:
        _print_entries("\nmetrics:", [(m["name"], [_metric(m)]) for m in answer["metrics"]])
    if "schema_of_tool" in answer:
        show("\ntool schema, as the model is told:")
        show(json.dumps(answer["schema_of_tool"], indent=2, ensure_ascii=False))
    elif answer["kind"] == "tool":
        show("\nIt stands for several tools, known once it is open; `agent-r1 play RECIPE` lists them.")


def _facts(answer: dict[str, Any]) -> dict[str, str]:
    where = f"{answer['distribution']} {answer['version']}" if answer["distribution"] else answer["plugin_source"]
    facts = {
        "component": f"{answer['kind']} {answer['qualified']}",
        "summary": answer["summary"],
        "plugin": f"{answer['plugin']} ({where})",
        "target": answer["target"],
        "source": f"{answer['source']}:{answer['line']}" if answer["source"] else "",
        "alias of": answer["alias_of"] or "",
        "preset of": f"{answer['preset_of']}, with {_settings(answer['preset'])}" if answer["preset_of"] else "",
        "aliases": ", ".join(answer.get("aliases", ())),
    }
    if answer["kind"] == "reward":
        method = "score_turn(turn, trajectory)" if answer["scope"] == "turn" else "score(trajectory)"
        low, high = answer["range"]
        facts["scores"] = f"each {answer['scope']}, by {method}, from {low:g} to {high:g}"
        if answer["cap"] is not None:
            facts["scores"] += f", at most {answer['cap']:g} in an episode"
    if answer["kind"] == "tool" and answer["reward_range"] is not None:
        low, high = answer["reward_range"]
        facts["rewards"] = f"each call, from {low:g} to {high:g}"
    if answer["kind"] == "env":
        facts["tools"] = (
            "the recipe's" if answer["uses_tools"] else "none; a recipe with this environment names no tools"
        )
    return facts


def _option(option: dict[str, Any]) -> tuple[str, list[str]]:
    default = "required" if option["required"] else f"default {_value(option['default'])}"
    return option["name"], [f"{option['type']}; {default}", option["doc"]]


def _settings(config: dict[str, Any]) -> str:
    return ", ".join(f"{name}: {_value(value)}" for name, value in config.items())


def _value(value: Any) -> str:
    """A value as it is written in a recipe."""
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


def _metric(metric: dict[str, Any]) -> str:
    unit = f" ({metric['unit']})" if metric["unit"] else ""
    better = "" if metric["better"] == "neither" else f"; {metric['better']} is better"
    return f"{metric['meaning']}{unit}{better}"


def _print_entries(title: str, entries: Sequence[tuple[str, Iterable[str]]]) -> None:
    """Print names in a column, with paragraphs beside them."""
    show(title)
    column = min(_NAMES, 4 + max(len(name) for name, _ in entries))
    for name, paragraphs in entries:
        first, *rest = [text for text in paragraphs if text] or [""]
        label = f"  {name}"
        if len(label) + 2 > column:
            show(label)
            label = ""
        show(_wrapped(first, label.ljust(column), " " * column))
        for text in rest:
            show(_wrapped(text, " " * column, " " * column))


def _prose(text: str) -> str:
    """A docstring with its plain paragraphs filled to the width of the page."""
    paragraphs = text.split("\n\n")
    return "\n\n".join(part if "\n " in f"\n{part}" else _wrapped(part) for part in paragraphs)


def _wrapped(text: str, first: str = "", others: str = "") -> str:
    width = max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size((_WIDEST, 24)).columns))
    return textwrap.fill(
        text, width, initial_indent=first, subsequent_indent=others, break_long_words=False, break_on_hyphens=False
    ).rstrip()
