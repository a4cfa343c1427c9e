"""Sections of a run's configuration, without the others: a whole one takes several times as long to parse."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from agent_r1_core.errors import ConfigError
from agent_r1_core.opening import read_text
from agent_r1_core.runs.evaluation_file import damaged_file

_SECTION = re.compile(r"(\w+):")


def read_sections(path: Path, names: Collection[str]) -> dict[str, Any]:
    """The sections with these names; those that are missing are left out.

    Raises:
        OSError: the file cannot be read.
        RunError: it is damaged there.
    """
    from agent_r1_core.config.yaml_text import parse

    kept, lines = True, []
    try:
        for line in read_text(path).split("\n"):
            section = _SECTION.match(line)
            if section is not None:
                kept = section[1] in names
            lines.append(line if kept else "")  # empty lines keep the numbers of the others
        value = parse("\n".join(lines), str(path)).value
    except (ConfigError, UnicodeDecodeError) as error:
        raise damaged_file(path) from error
    if not isinstance(value, dict):
        raise damaged_file(path)
    return value
