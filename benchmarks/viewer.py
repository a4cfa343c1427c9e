"""How fast does `agent-r1 view` answer about a large run, and what does it take?

    python benchmarks/viewer.py
    python benchmarks/viewer.py --run runs/default-1 --steps 1000 --episodes 512

Makes a large run from a small real one, which it records if none is given: its episodes come again in every step, with
other returns and texts. Then it starts `agent-r1 view` and asks as a browser does: the first page from a server that
has just started, steps, groups and episodes at random, searches up to their first hit and their end, and how long after
a line of metrics an open page hears of it. Where Playwright and a Chromium are installed, a browser that knows nothing
of it opens the first page, too. Times are those of the whole answer, or until the browser shows the rows. Memory is
the most that the server ever had, code and files that it maps included.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import report
from browser import first_views

from agent_r1_core import train

RARE = "quetzalcoatlus"
"""Stands in one episode alone, of the step in the middle."""


def arguments() -> argparse.Namespace:
    """The command line."""
    options = report.parser(__doc__, "viewer")
    options.add_argument(
        "--run", type=Path, help="a run whose episodes are repeated; a short one is recorded if left out"
    )
    options.add_argument("--steps", type=int, default=1000, help="of the large run")
    options.add_argument("--episodes", type=int, default=512, help="of a step")
    options.add_argument("--asked", type=int, default=40, help="episodes to ask for")
    options.add_argument("--folder", type=Path, help="where the large run is made, and kept")
    chosen = options.parse_args()
    if chosen.quick:
        chosen.steps, chosen.episodes, chosen.asked = 6, 32, 4
    return chosen


def recorded(folder: Path, quick: bool) -> Path:
    """A short run of the default recipe."""
    size = ["training.tasks_per_step=4", "training.samples_per_task=4"] if quick else []
    keys = ["training.steps=2", "evaluation.size=20", "evaluation.every=1", f"run.dir={folder}", "run.name=small"]
    return Path(train("default", [*keys, *size]).path)


def enlarge(small: Path, large: Path, steps: int, episodes: int) -> float:
    """Make a large run from a small one; returns GB on disk."""
    shutil.copytree(small, large, ignore=shutil.ignore_patterns("checkpoints", "trajectories", "model"))
    (large / "trajectories").mkdir()
    (large / "model").mkdir()
    whole = pa.concat_tables([pq.read_table(path) for path in sorted((small / "trajectories").glob("*.parquet"))])
    whole = whole.filter(pc.and_(pc.invert(whole["baseline"]), pc.not_equal(whole["status"], "failed")))
    whole = pa.concat_tables([whole] * (episodes // whole.num_rows + 1)).slice(0, episodes).combine_chunks()
    lines = [json.loads(line) for line in (small / "metrics.jsonl").read_text().splitlines()]
    draw = random.Random(0)
    with (large / "metrics.jsonl").open("w") as metrics:
        for step in range(1, steps + 1):
            rows = varied(whole, step, step == steps // 2, draw)
            path = large / "trajectories" / f"step_{step:06d}.parquet"
            pq.write_table(rows, path, compression="zstd", write_page_checksum=True)
            again = {name: value * draw.uniform(0.9, 1.1) for name, value in lines[step % len(lines)].items()}
            metrics.write(json.dumps(again | {"step": step}) + "\n")
    return sum(file.stat().st_size for file in large.rglob("*") if file.is_file()) / 1e9


def varied(rows: Any, step: int, rare: bool, draw: random.Random) -> Any:
    """The rows of a step: groups in another order, with returns and texts of their own."""
    rows = pa.concat_tables([rows.slice(start := 8 * draw.randrange(len(rows) // 8)), rows.slice(0, start)])
    returns = [value + draw.gauss(0, 0.1) for value in rows["return"].to_pylist()]
    messages = pc.replace_substring(rows["messages"], "the", f"the {step * 7919 % 10007}", max_replacements=3)
    if rare:
        messages = pa.chunked_array([[messages[0].as_py().replace("the", RARE, 1)], *messages.slice(1).chunks])
    changed = {"step": [step] * len(rows), "return": returns, "messages": messages}
    for name, values in changed.items():
        column = values if isinstance(values, pa.ChunkedArray) else pa.array(values, rows.schema.field(name).type)
        rows = rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), column)
    return rows.combine_chunks()


class Asked:
    """A viewer that serves a run, in a process of its own."""

    def __init__(self, run: Path) -> None:
        code = "from agent_r1_cli.main import main; main()"
        begun = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, "view", run, "--no-open"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().split()[-1].partition("#")[0]
        parts = urlsplit(self.address)
        self._port = parts.port or 0
        self._cookie = {"cookie": f"agent-r1-{self._port}={parts.query.removeprefix('token=')}"}
        self._kept = http.client.HTTPConnection("127.0.0.1", self._port)  # as a browser keeps it
        self.seconds = time.perf_counter() - begun
        """Until it served."""

    def get(self, path: str, **query: object) -> tuple[float, Any]:
        """Milliseconds, and the answer."""
        begun = time.perf_counter()
        asked = f"?{urlencode(query)}" if query else ""
        self._kept.request("GET", f"/api/{path}{asked}", headers=self._cookie)
        body = self._kept.getresponse().read()
        return 1000 * (time.perf_counter() - begun), json.loads(body)

    def search(self, name: str, **query: object) -> dict[str, Any]:
        """Milliseconds until the first hit and the end of a search, which goes on until all is searched."""
        begun, first, hits, start = time.perf_counter(), None, 0, None
        while True:
            more: dict[str, object] = {} if start is None else {"from": start}
            with self.opened(f"runs/{name}/search", **query, **more) as answer:
                for line in answer:
                    if b'{"hit"' in line[:8]:
                        hits += 1
                        first = first or time.perf_counter()
                    elif b'{"end"' in line[:8]:
                        start = json.loads(line)["end"]["next"]
            if start is None:
                break
        end = time.perf_counter()
        milliseconds = None if first is None else 1000 * (first - begun)
        return {"first hit ms": milliseconds, "all s": end - begun, "hits": hits}

    @contextmanager
    def opened(self, path: str, **query: object) -> Iterator[http.client.HTTPResponse]:
        """An answer, to be read."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port)
        asked = f"?{urlencode(query)}" if query else ""
        connection.request("GET", f"/api/{path}{asked}", headers=self._cookie)
        try:
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            yield answer
        finally:
            connection.close()

    def most_memory(self) -> float:
        """MB that the server had at most."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1000

    def stop(self) -> float:
        """End the server; returns seconds of the processor that it used."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.process.terminate()
        self.process.wait()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def answers(run: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Times of answers, each from a server that was asked the first page alone before."""
    rows, draw, name = [], random.Random(1), run.name
    first, starts = [], []
    for _ in range(1 if options.quick else 5):
        asked = Asked(run)
        starts.append(1000 * asked.seconds)
        first.append(asked.get("runs")[0] + asked.get(f"runs/{name}")[0])
        curves, _ = asked.get(f"runs/{name}/metrics")
        asked.stop()
    rows += [row("server starts", starts), row("first page", first), row("curves of all metrics", [curves])]
    rows += shown_first(run, 1 if options.quick else 5)
    asked = Asked(run)
    parts = {"step": "steps/{step}", "group": "steps/{step}/groups/0", "episode": "steps/{step}/episodes/{row}"}
    for part, path in parts.items():
        places = [(draw.randint(1, options.steps), draw.randrange(options.episodes)) for _ in range(options.asked)]
        rows.append(row(part, [asked.get(f"runs/{name}/{path.format(step=s, row=r)}")[0] for s, r in places]))
    rows.append(row("matrix of evaluations", [asked.get(f"runs/{name}/evaluations")[0]]))
    rows.append({"answer": "memory after these, MB", "median ms": None, "most ms": None, "MB": asked.most_memory()})
    asked.stop()
    return rows


def shown_first(run: Path, times: int) -> list[dict[str, Any]]:
    """How long a browser takes to show the list of runs, each time from a server that has just started."""
    with first_views() as view:
        if isinstance(view, str):
            print(f"without the first page in a browser: {view}")
            return []
        shown = []
        for _ in range(times):
            asked = Asked(run)
            shown.append(view(asked.address, "tbody tr"))
            asked.stop()
        return [row("first page in a browser", shown)]


def row(answer: str, milliseconds: list[float]) -> dict[str, Any]:
    """A row of the table."""
    return {"answer": answer, "median ms": statistics.median(milliseconds), "most ms": max(milliseconds), "MB": None}


def searches(run: Path) -> list[dict[str, Any]]:
    """Times of searches over all steps, by one server."""
    asked, rows = Asked(run), []
    queries: dict[str, dict[str, object]] = {
        "a common text": {"text": "employer"},
        "a text of one episode": {"text": RARE.upper()},
        "no such text": {"text": "no such text"},
        "an answer with a low return": {"status": "terminated", "high": -0.2},
        "five turns, a tool's error": {"turns_low": 5, "tool_error": "yes"},
    }
    for what, query in queries.items():
        rows.append({"search": what, **asked.search(run.name, **query), "MB": asked.most_memory()})
    asked.stop()
    return rows


def following(run: Path) -> list[dict[str, Any]]:
    """How long a new line of metrics takes to an open page, and what watching costs."""
    asked, seconds = Asked(run), []
    with asked.opened("live", run=run.name) as events:
        assert events.readline() == b"event: watching\n"
        last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
        for _ in range(3):
            last["step"] += 1
            with (run / "metrics.jsonl").open("a") as file:
                file.write(json.dumps(last) + "\n")
            begun = time.perf_counter()
            while b'"metrics"' not in events.readline():
                pass
            seconds.append(time.perf_counter() - begun)
        watched = time.perf_counter()
        spent = processor(asked.process.pid)
        for _ in range(2):
            with (run / "metrics.jsonl").open("a") as file:
                file.write(json.dumps(last | {"step": last["step"] + 1}) + "\n")
            while b'"metrics"' not in events.readline():
                pass
        share = (processor(asked.process.pid) - spent) / (time.perf_counter() - watched)
    asked.stop()
    return [
        {"median s until a page hears": statistics.median(seconds), "most s": max(seconds), "share of a core": share}
    ]


def processor(process: int) -> float:
    """Seconds of the processor that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory() as name:
        home = options.folder or Path(name)
        run = home / "large"
        if not run.is_dir():
            small = options.run or recorded(Path(name), options.quick)
            begun = time.perf_counter()
            size = enlarge(small, run, options.steps, options.episodes)
            seconds = time.perf_counter() - begun
            print(f"{options.steps} steps of {options.episodes} episodes: {size:.2f} GB in {seconds:.0f} s")
        tables = {"answers": answers(run, options), "searches": searches(run), "following": following(run)}
    report.show("Answers", tables["answers"])
    report.show("Searches over all steps", tables["searches"])
    report.show("A run that is training", tables["following"])
    report.save(options.out, options, tables)


if __name__ == "__main__":
    main()
