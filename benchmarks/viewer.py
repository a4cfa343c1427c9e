"""How fast does `agent-r1 view` answer about a large run, and what does it take?

    python benchmarks/viewer.py
    python benchmarks/viewer.py --run runs/default-1 --steps 1000 --episodes 512

Makes a large run from a small real one, which it records if none is given: its episodes come again in every step, with
other returns and texts. Then it starts `agent-r1 view` and asks as a browser does: the first page from a server that
has just started, steps, groups and episodes at random, searches up to their first hit and their end, and how long after
a line of metrics an open page hears of it. Times are those of the whole answer. Memory is the most that the server ever
had, code and files that it maps included.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import report

from agent_r1_core import train

RARE = "quetzalcoatlus"
"""Stands in one episode alone, of the step in the middle."""
SEARCHES: dict[str, dict[str, object]] = {
    "a common text": {"text": "employer"},
    "a text of one episode": {"text": RARE.upper()},
    "no such text": {"text": "no such text"},
    "an answer with a low return": {"status": "terminated", "high": -0.2},
    "five turns, a tool's error": {"turns_low": 5, "tool_error": "yes"},
}


def recorded(folder: Path, quick: bool) -> Path:
    """A short run of the default recipe."""
    size = ["training.tasks_per_step=4", "training.samples_per_task=4"] if quick else []
    keys = ["training.steps=2", "evaluation.size=20", "evaluation.every=1", f"run.dir={folder}", "run.name=small"]
    return Path(train("default", [*keys, *size]).path)


def enlarge(small: Path, large: Path, steps: int, episodes: int) -> None:
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
            path = large / "trajectories" / f"step_{step:06d}.parquet"
            rows = varied(whole, step, step == steps // 2, draw)
            pq.write_table(rows, path, compression="zstd", write_page_checksum=True)
            again = {name: value * draw.uniform(0.9, 1.1) for name, value in lines[step % len(lines)].items()}
            metrics.write(json.dumps(again | {"step": step}) + "\n")


def varied(rows: Any, step: int, rare: bool, draw: random.Random) -> Any:
    """The rows of a step: groups in another order, with returns and texts of their own."""
    rows = pa.concat_tables([rows.slice(start := 8 * draw.randrange(len(rows) // 8)), rows.slice(0, start)])
    messages = pc.replace_substring(rows["messages"], "the", f"the {step * 7919 % 10007}", max_replacements=3)
    texts = messages.to_pylist()
    if rare:
        texts[0] = texts[0].replace("the", RARE, 1)
    returns = [value + draw.gauss(0, 0.1) for value in rows["return"].to_pylist()]
    for name, values in {"step": [step] * len(rows), "return": returns, "messages": texts}.items():
        field = rows.schema.field(name)
        rows = rows.set_column(rows.schema.get_field_index(name), field, pa.array(values, field.type))
    return rows.combine_chunks()


class Viewer:
    """A viewer that serves a run, in a process of its own that has told its address."""

    def __init__(self, pid: int, said: str) -> None:
        self.pid, parts = pid, urlsplit(said.split()[-1].partition("#")[0])
        self._port = parts.port or 0
        self._cookie = {"cookie": f"agent-r1-{self._port}={parts.query.removeprefix('token=')}"}
        self._kept = http.client.HTTPConnection("127.0.0.1", self._port)  # as a browser keeps it

    def _ask(self, connection: http.client.HTTPConnection, path: str, query: dict[str, object]) -> Any:
        connection.request("GET", f"/api/{path}?{urlencode(query)}", headers=self._cookie)
        return connection.getresponse()

    def get(self, path: str) -> float:
        """Milliseconds of an answer."""
        begun = time.perf_counter()
        json.loads(self._ask(self._kept, path, {}).read())
        return 1000 * (time.perf_counter() - begun)

    @contextmanager
    def opened(self, path: str, **query: object) -> Iterator[Any]:
        """An answer, to be read."""
        with closing(http.client.HTTPConnection("127.0.0.1", self._port)) as connection:
            yield self._ask(connection, path, query)

    def search(self, name: str, query: dict[str, object]) -> dict[str, Any]:
        """Milliseconds until the first hit, and seconds until all is searched."""
        begun, first, hits, start = time.perf_counter(), None, 0, dict[str, object]()
        while True:
            with self.opened(f"runs/{name}/search", **query, **start) as answer:
                for line in answer:
                    if b'{"hit"' in line[:8]:
                        hits, first = hits + 1, first or 1000 * (time.perf_counter() - begun)
                    elif b'{"end"' in line[:8]:
                        start = {"from": json.loads(line)["end"]["next"]}
            if start["from"] is None:
                return {"first hit ms": first, "all s": time.perf_counter() - begun, "hits": hits}

    def most_memory(self) -> float:
        """MB that the server had at most."""
        return int(Path(f"/proc/{self.pid}/status").read_text().partition("VmHWM:")[2].split()[0]) / 1000


@contextmanager
def viewing(run: Path) -> Iterator[Viewer]:
    """A viewer of a run, for as long as the context lasts."""
    with report.serving("view", run, "--no-open", stderr=subprocess.DEVNULL) as told:
        yield Viewer(*told)


def answers(run: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Times of answers; the first page is each time that of a server that has just started."""
    draw, own, times = random.Random(1), f"runs/{run.name}", 1 if options.quick else 5
    found: dict[str, list[float]] = {"server starts": [], "first page": [], "curves of all metrics": []}
    for _ in range(times):
        begun = time.perf_counter()
        with viewing(run) as viewer:
            found["server starts"].append(1000 * (time.perf_counter() - begun))
            found["first page"].append(viewer.get("runs") + viewer.get(own))
            found["curves of all metrics"].append(viewer.get(f"{own}/metrics"))
    with viewing(run) as viewer:
        parts = {"step": "steps/{step}", "group": "steps/{step}/groups/0", "episode": "steps/{step}/episodes/{row}"}
        for part, path in parts.items():
            places = [(draw.randint(1, options.steps), draw.randrange(options.episodes)) for _ in range(options.asked)]
            found[part] = [viewer.get(f"{own}/{path.format(step=step, row=row)}") for step, row in places]
        found["matrix of evaluations"] = [viewer.get(f"{own}/evaluations")]
        memory = {"answer": f"memory after these, MB: {viewer.most_memory():.0f}"}
    rows = [{"answer": name, "median ms": statistics.median(ms), "most ms": max(ms)} for name, ms in found.items()]
    return [*rows, memory]


def following(run: Path) -> dict[str, Any]:
    """How long a new line of metrics takes to an open page, and what watching costs."""
    file, last = run / "metrics.jsonl", json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    with viewing(run) as viewer, viewer.opened("live", run=run.name) as events:
        assert events.readline() == b"event: watching\n"
        seconds, watched, spent = list[float](), time.perf_counter(), report.processor_seconds(viewer.pid)
        for number in range(1, 6):
            with file.open("a") as metrics:
                metrics.write(json.dumps(last | {"step": last["step"] + number}) + "\n")
            begun = time.perf_counter()
            while b'"metrics"' not in events.readline():
                pass
            seconds.append(time.perf_counter() - begun)
        share = (report.processor_seconds(viewer.pid) - spent) / (time.perf_counter() - watched)
    return {"median s until a page hears": statistics.median(seconds), "most s": max(seconds), "share of a core": share}


def main() -> None:
    parser = report.parser(__doc__, "viewer")
    parser.add_argument("--run", type=Path, help="its episodes are repeated; a short one is recorded if left out")
    parser.add_argument("--steps", type=int, default=1000, help="of the large run")
    parser.add_argument("--episodes", type=int, default=512, help="of a step")
    parser.add_argument("--asked", type=int, default=40, help="episodes to ask for")
    options = report.chosen(parser, steps=6, episodes=32, asked=4)
    with tempfile.TemporaryDirectory() as home:
        run = Path(home, "large")
        enlarge(options.run or recorded(Path(home), options.quick), run, options.steps, options.episodes)
        tables = {"answers": answers(run, options)}
        with viewing(run) as viewer:
            tables["searches over all steps"] = [
                {"search": what, **viewer.search(run.name, query), "MB": viewer.most_memory()}
                for what, query in SEARCHES.items()
            ]
        tables["a run that is training"] = [following(run)]
    for title, rows in tables.items():
        report.show(title, rows)
    report.save(options.out, options, tables)


if __name__ == "__main__":
    main()
