"""Reads the folder of one task: `task.toml` (schema 1.4 and older), `instruction.md`, `environment/`, `tests/`,
`solution/`. Nothing of it runs here.

What this reader cannot honour is refused by name; tables that only describe a task, and build settings, are ignored.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_r1_core import TaskError
from agent_r1_core.opening import check_folder, read_bytes, read_text
from agent_r1_core.sandbox import File

NEWEST = (1, 4)
MOST_BYTES = 64 << 20
"""Of a task's files together."""
MOST_SECONDS = 1_000_000
WORKDIR = "/app"


@dataclass(frozen=True)
class HarborTask:
    """What a folder says."""

    folder: Path
    instruction: str
    image: str | None
    """A prebuilt image; None: `environment/Dockerfile` says what to build, or no image is needed."""
    builds: bool
    """Whether there is a Dockerfile."""
    workdir: str
    """Empty: that of its image."""
    agent_seconds: float
    verifier_seconds: float
    memory: int | None
    """MiB."""
    disk: int | None
    """MiB."""
    environment: Mapping[str, str]
    """Variables of the agent's commands and of the tests."""
    verifier_environment: Mapping[str, str]

    @property
    def needs_image(self) -> bool:
        return self.image is not None or self.builds

    def files(self, name: str) -> dict[str, File]:
        """The files of one of its folders, by their relative paths."""
        return read_files(self.folder / name)


def read_task(folder: Path) -> HarborTask:
    """Read a task's folder.

    Raises:
        TaskError: something is missing or malformed, or asks for what is not offered; the sentence names it.
    """
    try:
        check_folder(folder)
        settings = tomllib.loads(read_text(folder / "task.toml"))
        instruction = read_text(folder / "instruction.md").strip()
    except (OSError, ValueError, UnicodeDecodeError) as error:
        raise TaskError(f"the task {folder} cannot be read: {error}") from error
    read = _Settings(folder, settings)
    read.check()
    environment, tests = folder / "environment", folder / "tests" / "test.sh"
    image, builds = read.get("environment", "docker_image", str, None), (environment / "Dockerfile").is_file()
    if image is not None and not re.match("[A-Za-z0-9]", image):
        raise TaskError(f"environment.docker_image of the task {folder} is {image!r:.80}; give the name of an image")
    if not tests.is_file():
        raise TaskError(f"the task {folder} has no tests/test.sh; add one that writes /logs/verifier/reward.txt")
    return HarborTask(
        folder=folder,
        instruction=instruction,
        image=image,
        builds=builds,
        workdir=read.get("environment", "workdir", str, "" if image or builds else WORKDIR),
        agent_seconds=read.number("agent", "timeout_sec", 600.0),
        verifier_seconds=read.number("verifier", "timeout_sec", 600.0),
        memory=read.mebibytes("memory_mb"),
        disk=read.mebibytes("storage_mb"),
        environment=read.variables("environment"),
        verifier_environment=read.variables("verifier"),
    )


def read_files(folder: Path) -> dict[str, File]:
    """The regular files below a folder, by their relative paths; none where there is no such folder.

    Raises:
        TaskError: there is a link among them, or they are too large together.
    """
    files: dict[str, File] = {}
    size = 0
    for place, folders, names in os.walk(folder):
        folders.sort()
        if links := [path for path in map(Path(place).joinpath, ("", *folders, *names)) if path.is_symlink()]:
            raise TaskError(f"{links[0]} is a link; put the file itself there")
        for name in sorted(names):
            path = Path(place, name)
            try:
                content = read_bytes(path, MOST_BYTES - size)
            except OSError as error:
                raise TaskError(f"{path} cannot be read as a file of a task: {error}") from error
            size += len(content)
            files[str(path.relative_to(folder))] = File(content, os.access(path, os.X_OK))
    return files


@dataclass(frozen=True)
class _Settings:
    folder: Path
    values: Mapping[str, Any]

    def check(self) -> None:
        """Refuse what a task asks for and does not get."""
        for table in ("environment", "agent", "verifier"):
            if not isinstance(value := self.values.get(table, {}), dict):
                raise TaskError(f"{table} of the task {self.folder} is {value!r:.80}; give a table")
        version = str(self.values.get("schema_version", self.values.get("version", "1.0")))
        try:
            known = tuple(int(part) for part in version.split(".")) <= NEWEST
        except ValueError:
            known = False
        environment = self.values.get("environment", {})
        refused = {
            f"schema_version {version!r}; 1.4 is the newest that is read": not known,
            "several steps": bool(self.values.get("steps")),
            "docker-compose.yaml": (self.folder / "environment" / "docker-compose.yaml").exists(),
            "GPUs": bool(environment.get("gpus")),
            "MCP servers": bool(environment.get("mcp_servers")),
            "an operating system other than Linux": environment.get("os", "linux") != "linux",
            "a verifier with an environment of its own": "environment" in self.values.get("verifier", {}),
        }
        for what, asked in refused.items():
            if asked:
                raise TaskError(f"the task {self.folder} asks for {what}, which is not offered; leave it out")

    def get(self, table: str, key: str, kind: type, default: Any) -> Any:
        value = self.values.get(table, {}).get(key, default)
        if value is not default and not isinstance(value, kind):
            raise TaskError(f"{table}.{key} of the task {self.folder} is {value!r:.80}; give a {kind.__name__}")
        return value

    def number(self, table: str, key: str, default: float) -> float:
        value = self.values.get(table, {}).get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MOST_SECONDS:
            asked = f"give seconds above 0, at most {MOST_SECONDS:,}"
            raise TaskError(f"{table}.{key} of the task {self.folder} is {value!r:.80}; {asked}")
        return float(value)

    def mebibytes(self, key: str) -> int | None:
        return self.get("environment", key, int, None)

    def variables(self, table: str) -> dict[str, str]:
        given = self.get(table, "env", dict, {})
        if any("${" in str(value) for value in given.values()):
            raise TaskError(f"{table}.env of the task {self.folder} asks for variables of the host; write values")
        return {str(name): str(value) for name, value in given.items()}
