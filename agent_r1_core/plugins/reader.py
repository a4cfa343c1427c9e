"""The process that reads one installed plugin: `python -m agent_r1_core.plugins.reader FILE NAME VALUE`.

It writes what the plugin offers to FILE, with the files of the plugin's own package that the import read.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

from agent_r1_core.hookspecs import PROJECT
from agent_r1_core.plugins.reading import read


def main(answer: str, name: str, value: str) -> None:
    """Read the plugin, write the answer and end, whatever threads the plugin has left."""
    os.dup2(2, 1)  # what a plugin prints goes to stderr
    reading = read(EntryPoint(name, value, PROJECT).load, value, name, local=False)
    package = value.partition(":")[0].partition(".")[0]
    modules = [module for key, module in sys.modules.items() if key.partition(".")[0] == package]
    files = sorted({str(file) for module in modules if (file := getattr(module, "__file__", None))})
    Path(answer).write_text(json.dumps({**reading.to_json(), "files": files}), encoding="utf-8")
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
