"""The process that imports one installed plugin: `python -m agent_r1_core.plugins.reader FILE JSON`.

It writes to FILE what the plugin offers, with the folders of the plugin's own package and the files in it that the
import read, or what a check of its components found. JSON says which plugin, whether to check it, and after how many
seconds to die: nobody else ends this process if the command that started it is killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterable
from dataclasses import asdict
from importlib.metadata import EntryPoint
from pathlib import Path

from agent_r1_core.hookspecs import PROJECT
from agent_r1_core.plugins.reading import answer_of, read
from agent_r1_core.plugins.registry import Registry
from agent_r1_core.plugins.sources import Candidate


def main(file: str, question: str) -> None:
    """Import the plugin, write the answer and end, whatever threads the plugin has left."""
    os.dup2(2, 1)  # what a plugin prints goes to stderr
    asked = json.loads(question)
    signal.setitimer(signal.ITIMER_REAL, asked["seconds"])
    name, value = asked["name"], asked["value"]
    record = read(Candidate(name, asked["distribution"], value, asked["version"], EntryPoint(name, value, PROJECT)))
    answer = {**answer_of(record), "files": _files(value)}
    if asked["check"]:
        from agent_r1_core.plugins.checks import check_plugin

        answer = asdict(check_plugin(Registry([record]), record))
    Path(file).write_text(json.dumps(answer), encoding="utf-8")
    sys.stderr.flush()
    os._exit(0)


def _files(value: str) -> list[str]:
    package = value.partition(":")[0].partition(".")[0]
    modules = [module for name, module in sys.modules.items() if name.partition(".")[0] == package]
    files = {str(file) for module in modules if (file := getattr(module, "__file__", None))}
    return sorted(files | {folder for module in modules for folder in _folders(getattr(module, "__path__", ()))})


def _folders(places: Iterable[str]) -> Iterable[str]:
    """The folders in which a package may look for modules and data."""
    for place in places:
        for folder, inner, _ in os.walk(place):
            inner[:] = [name for name in inner if name != "__pycache__"]
            yield folder


if __name__ == "__main__":
    main(*sys.argv[1:])
