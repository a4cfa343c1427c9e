"""A program that gives a command a run in which files are none, and tells what the command did.

`hostile_files.py RUN COMMAND` prints a line of JSON for the sound run, one for the run in which every file that the
command did not open is a pipe, and one for every file that it did open and every disguise of it. It works on a copy of
the run, bounds its own memory, and ends a command that waits.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from agent_r1_cli.main import build_app
from agent_r1_core import opening

SECONDS = float(os.environ.get("LAWS_PATIENCE", "60"))
"""Until a command counts as one that waits."""
MEMORY = 2**31
"""Bytes beyond what this process has at first."""
PLAY = ["engine.max_new_tokens=4", "env.max_turns=1", "tasks.eval.size=1"]
Names = dict[str, str]

COMMANDS: dict[str, Callable[[Names], list[str]]] = {
    "train --dry-run": lambda at: ["train", at["run"], "--dry-run"],
    "train --resume": lambda at: ["train", at["run"], "--resume"],
    "eval": lambda at: ["eval", at["run"], *PLAY],
    "eval --rescore": lambda at: ["eval", "--rescore", at["run"]],
    "compare": lambda at: ["compare", at["run"], f"{at['run']}/step_000002"],
    "rollout": lambda at: ["rollout", at["run"], "-n", "1", *PLAY],
    "play": lambda at: ["play", at["run"], "--script", at["script"]],
    "runs": lambda at: ["runs", at["home"]],
    "runs --json": lambda at: ["runs", at["run"], "--json"],
    "replay": lambda at: ["replay", at["run"], "--step", "1", "--update"],
    "view": lambda at: ["view", at["home"], "--no-open"],
    "view --export": lambda at: ["view", at["run"], "--export", at["page"], "--force"],
    "reproduce --dry-run": lambda at: ["reproduce", "table3", "--dir", at["run"], "--dry-run"],
}
"""How every command is given a run. Those that write it get a fresh copy each time."""
WRITING = ("train --resume", "eval")
SLOW = ("train --resume", "eval", "rollout", "play", "replay", "view --export")
"""These try one disguise of every file, each file the next one."""
WITHOUT_RUNS = (
    *("metrics", "league", "serve", "new", "plugins list", "plugins show", "plugins doctor"),
    *("wiki build", "wiki serve", "wiki query", "wiki bench"),
)
"""Commands that take no run; and `serve`, which reads one as `rollout` does, and then does not end."""

BOMB = "3 GB in kilobytes"
DISGUISES: dict[str, Callable[[Path], None]] = {
    "a pipe": lambda path: os.mkfifo(path),
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "10 GiB without a block": lambda path: _sparse(path),
    BOMB: lambda path: write_bomb(path),
}


class Waited(BaseException):
    """A command did not end."""


def kinds(run: Path) -> list[str]:
    """One file of every kind that a run holds."""
    found = {}
    for path in sorted(run.rglob("*")):
        if path.is_file():
            name = path.relative_to(run).as_posix()
            found[re.sub(r"\d+", "0", name)] = name
    return list(found.values())


def main(run: Path, command: str) -> None:
    """Try the sound run, then every disguise of every file."""
    at = _places(run)
    copy = Path(at["run"])
    limit = _size() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    signal.signal(signal.SIGALRM, _wait_no_longer)
    sys.addaudithook(partial(_note, copy))
    opened, check = set[str](), opening._check

    def watching(found: os.stat_result, path: Path | str, most: int | None) -> None:
        if Path(path).is_relative_to(copy):
            opened.add(str(Path(path).relative_to(copy)))
        check(found, path, most)

    opening._check = watching
    result, _ = _call(command, at, seconds=0), _amiss.clear()  # it may import for long
    _tell("nothing", "disguised", result)
    opening._check = check
    for names, disguises in [
        ([name for name in kinds(run) if name not in opened], ["a pipe"]),
        *(([name], _disguises(command, name, number)) for number, name in enumerate(sorted(opened & {*kinds(run)}))),
    ]:
        for disguise in disguises:
            shutil.rmtree(copy)
            shutil.copytree(run, copy, symlinks=True)
            for name in names:
                if disguise != BOMB:
                    (copy / name).unlink()
                DISGUISES[disguise](copy / name)
            _amiss.clear()
            before = snapshot(copy)
            result = _call(command, at)
            changed = {path for path, _ in set(before.items()) ^ set(snapshot(copy).items())}
            _tell(names[0] if len(names) == 1 else "what it does not open", disguise, result, changed)
    os._exit(0)  # whatever a thread of a command still waits for


def _disguises(command: str, name: str, number: int) -> list[str]:
    fitting = [one for one in DISGUISES if one != BOMB or name.endswith(".parquet")]
    return [fitting[number % len(fitting)]] if command in SLOW else fitting


def _tell(name: str, disguise: str, result: dict[str, Any], changed: Collection[str] = ()) -> None:
    told = {"file": name, "as": disguise, **result, "changed": sorted(changed), "amiss": list(_amiss)}
    print(json.dumps(told), flush=True)


_amiss: list[str] = []
"""What a command has opened that is no regular file, or to write it."""
_TO_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def _note(copy: Path, event: str, arguments: tuple[Any, ...]) -> None:
    """Python is about to open a file."""
    if event == "open" and isinstance(arguments[0], str) and arguments[0].startswith(f"{copy}/"):
        path, _, flags = arguments
        if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
            _amiss.append(f"{path} is opened")
        if flags & _TO_WRITE:
            _amiss.append(f"{path} is opened to write it")


def write_bomb(path: Path) -> None:
    """Let one text of a Parquet file be 3 MB long and stand in so many rows that they are 3 GB."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path).slice(0, 1)
    rows = table.take(pa.array([0] * 1024))
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 1024, pa.int32()), pa.array(["x" * 3_200_000]))
    for name in ("messages", "answer", "task_id", "task"):
        rows = rows.set_column(rows.schema.get_field_index(name), name, text)
    pq.write_table(rows, path, compression="zstd", dictionary_pagesize_limit=2**30)


def snapshot(folder: Path) -> dict[str, tuple[Any, ...]]:
    """What tells that a file, or a folder, was written."""
    found = {}
    for path in sorted(folder.rglob("*")):
        about = os.lstat(path)
        found[str(path.relative_to(folder))] = (about.st_mode, about.st_ino, about.st_size, about.st_mtime_ns)
    return found


def _places(run: Path) -> Names:
    home = Path(tempfile.mkdtemp(dir=run.parents[1]))
    shutil.copytree(run, home / "runs" / "x", symlinks=True)
    (home / "script.txt").write_text("<answer>7</answer>\n")
    return {
        "home": str(home / "runs"), "run": str(home / "runs" / "x"), "script": str(home / "script.txt"),
        "page": str(home / "page.html"),
    }  # fmt: skip


def _call(command: str, at: Names, seconds: float = SECONDS) -> dict[str, Any]:
    begin = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, seconds)
    waited = False
    try:
        result = CliRunner().invoke(build_app(), COMMANDS[command](at))
        code, said, raised = result.exit_code, result.stderr, repr(result.exception)
    except Waited:
        waited, code, said, raised = True, 1, "", ""
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return {
        "code": code, "said": said, "raised": raised, "waited": waited, "seconds": round(time.monotonic() - begin, 2)
    }  # fmt: skip


def _wait_no_longer(number: int, frame: Any) -> None:
    raise Waited


def _size() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 10 * 2**30)


def _ask_everything(found: Any, opened: Any, token: str, ready: Any) -> None:
    """In place of a server: every question that the page asks."""
    from agent_r1_viewer.answers import Answers

    from agent_r1_core.errors import AgentR1Error

    opened.close()
    answers = Answers(found)
    run = ["runs", "x"]
    questions: Iterator[tuple[list[str], dict[str, str]]] = iter(
        [
            (["runs"], {}), (run, {}), ([*run, "metrics"], {}), ([*run, "steps", "2"], {}),
            ([*run, "steps", "2", "groups", "1"], {}), ([*run, "steps", "2", "episodes", "1"], {}),
            ([*run, "evaluations"], {}), ([*run, "evaluations", "step_000002", "episodes", "0"], {}),
            ([*run, "search"], {"text": "a"}),
        ]
    )  # fmt: skip
    for parts, query in questions:
        try:
            answer = answers.answer(parts, query)
            for _ in answer if isinstance(answer, Iterator) else ():
                continue
        except AgentR1Error as error:
            print(error)


if __name__ == "__main__":
    import agent_r1_viewer.serving as serving

    serving.serve = _ask_everything  # type: ignore[assignment]
    main(Path(sys.argv[1]), sys.argv[2])
