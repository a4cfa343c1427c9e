"""The report's numbers are those of the result files, what did not run is said, and so is how long the rest takes."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agent_r1_paper.cost import cell_seconds, flops_per_token, time_left, trained_episodes
from agent_r1_paper.markdown import markdown
from agent_r1_paper.matrix import Cell, Matrix
from agent_r1_paper.matrix_display import MatrixDisplay
from agent_r1_paper.picture import draw
from agent_r1_paper.report import Line, Report, _above, make_report
from agent_r1_paper.store import Store
from agent_r1_paper.tables import SCALES, TABLES

from agent_r1_core.errors import RunError
from agent_r1_core.evaluation.report import EvaluationResult
from agent_r1_core.metrics.estimate import Estimate

from .conftest import matrix

Made = Callable[[Matrix], Report]
GOOD, POOR = (0.9, 0.85, 0.5), (0.2, 0.1, 0.0)


@pytest.fixture
def made(store: Store, run: Callable[..., dict[str, str]]) -> Callable[[Matrix], Report]:
    """The report of a matrix that runs now."""
    return lambda matrix: make_report(matrix, store, run(matrix))


def test_every_number_is_that_of_a_result_file(made: Made, commands: Any, store: Store) -> None:
    commands.scores = {"naive_rag.check": (0.8,), "ppo-0": GOOD, "ppo-1": (0.7, 0.85, 0.4), "grpo-0": GOOD}
    report = made(matrix("table3", seeds=2)).to_json()
    assert report["columns"] == {"HotpotQA": "films", "2Wiki": "people", "MuSiQue": "companies_and_cities"}
    for row in report["rows"]:
        files = [store.path / cell["file"] for cell in row["cells"]]
        results = [EvaluationResult.from_json(json.loads(file.read_text())) for file in files]
        assert len(results) == (2 if row["row"] not in ("base_tool_call", "naive_rag") else 1)
        for column, name in report["columns"].items():
            means = [result.sets[name].metrics["exact_match"].mean for result in results]
            assert row["by_seed"][column] == means
            assert row["ours"][column]["mean"] == pytest.approx(sum(means) / len(means))
        averages = [result.metrics["exact_match"].mean for result in results]
        assert row["ours"]["average"]["mean"] == pytest.approx(sum(averages) / len(averages))
        assert row["gap"] == pytest.approx(sum(averages) / len(averages) - row["paper"]["average"])
    ppo = next(row for row in report["rows"] if row["row"] == "ppo")
    assert ppo["ours"]["HotpotQA"]["low"] < 0.8 < ppo["ours"]["HotpotQA"]["high"]
    assert ppo["paper"] == {"HotpotQA": 0.4136, "2Wiki": 0.5468, "MuSiQue": 0.1552, "average": 0.3719}


def test_the_verdicts_of_table_3(made: Made, commands: Any) -> None:
    methods = ("reinforce_pp", "reinforce_pp_baseline", "rloo", "ppo", "grpo")
    commands.scores = {f"{name}-0": GOOD for name in methods} | {
        "naive_rag.check": (0.8,),
        "base_tool_call": POOR,
        "naive_rag": (0.5, 0.1, 0.5),
    }
    report = made(matrix("table3"))
    verdicts = [(claim.text.partition(" (")[0], claim.holds) for claim in report.claims]
    assert verdicts == [
        ("every method clearly above Base Tool Call on HotpotQA", True),
        ("every method clearly above Base Tool Call on 2Wiki", True),
        ("every method above Base Tool Call on MuSiQue", True),
        ("every method clearly above Naive RAG on HotpotQA", False),
        ("every method clearly above Naive RAG on 2Wiki", True),
        ("every method above Naive RAG on MuSiQue", False),
        ("the weakest method at least 2.5 times Naive RAG on average", False),
    ]
    assert "- does not show: every method clearly above Naive RAG on HotpotQA" in markdown(report)


def test_intervals_that_touch_are_not_clearly_apart() -> None:
    methods, row = TABLES["table3"].rows, Estimate(0.5, 0.4, 0.6, "wilson", 20)
    lower, higher = row, Estimate(0.7, 0.6, 0.8, "wilson", 20)
    for touching, higher_low in ((True, 0.6), (False, 0.61)):
        base = Line(methods[0], scores={"HotpotQA": lower})
        ours = Line(methods[-1], scores={"HotpotQA": replace(higher, low=higher_low)})
        assert _above(ours, base, "HotpotQA")[0] != touching


def test_finished_seeds_that_were_not_asked_for_and_results_that_are_gone_or_damaged_are_named(
    made: Made, store: Store
) -> None:
    made(matrix("table4", seeds=3, rows=("ppo",)))
    fewer = make_report(matrix("table4", seeds=1), store, {})
    assert "PPO: the folder also has seed 1, seed 2, not shown here" in fewer.facts
    assert len(next(line for line in fewer.lines if line.row.name == "ppo").cells) == 1
    more = make_report(matrix("table4", seeds=4, rows=("ppo",)), store, {})
    assert next(line for line in more.lines if line.row.name == "ppo").note == "not run: ppo-3"
    small = matrix("table4", rows=("ppo",))
    file = store.runs / "ppo-0" / "evaluations" / "eval_1.json"
    about = json.loads(file.read_text())
    file.write_text(json.dumps(about | {"policy": {"run": "/elsewhere/ppo-0"}}))
    assert make_report(small, store, {}).lines, "a folder that was moved"
    file.write_text(json.dumps(about | {"policy": {"run": str(store.runs / "ppo-1")}}))
    with pytest.raises(
        RunError, match=r"eval_1\.json is an evaluation of the run .*/ppo-1, not of ppo-0; to run the cell"
    ):
        make_report(small, store, {})
    file.write_text("{}")
    with pytest.raises(
        RunError, match=r"eval_1\.json is damaged: .*; to run the cell again, delete .*/cells/ppo-0\.json"
    ):
        make_report(small, store, {})
    file.unlink()
    with pytest.raises(RunError, match=r"the result of ppo-0, is gone; restore it; to run the cell again, delete"):
        make_report(small, store, {})


def test_methods_that_all_score_nothing_show_nothing(made: Made, commands: Any) -> None:
    commands.scores = {cell.name: (0.0, 0.0, 0.0) for cell in matrix("table3").cells()} | {"naive_rag.check": (0.9,)}
    report = made(matrix("table3"))
    assert [claim.holds for claim in report.claims] == [False] * 7
    assert "(REINFORCE++ 0.000, Naive RAG scores 0)" in markdown(report)
    assert "- Naive RAG: exact match 0.900 [" in markdown(report), "that it can play it is told, too"


def test_the_verdicts_of_table_4(made: Made, commands: Any) -> None:
    commands.scores = {"ppo-0": GOOD, "ppo-no_advantage_mask-0": GOOD, "ppo-no_masks-0": POOR, "grpo-0": GOOD}
    report = made(matrix("table4", rows=tuple(row.name for row in TABLES["table4"].rows[:4])))
    assert [claim.holds for claim in report.claims] == [False, True, None]
    assert "], p < 0.001, on the same questions)" in markdown(report)
    assert "- open: GRPO clearly above GRPO, loss mask off on average (one of them has not run)" in markdown(report)


def test_a_baseline_that_the_model_cannot_play_is_void(made: Made, commands: Any) -> None:
    commands.scores = {"naive_rag.check": (0.75,), "naive_rag": GOOD, "ppo-0": POOR}
    report = made(matrix("table3", rows=("naive_rag", "ppo")))
    lines = {line.row.name: line for line in report.lines}
    assert (lines["naive_rag"].status, lines["naive_rag"].scores) == ("void", {})
    assert lines["naive_rag"].note.startswith("the model cannot play this baseline: exact match 0.750 [")
    assert lines["naive_rag"].note.endswith("on 20 questions that one passage answers, and it must reach 0.80 there")
    assert {line.status for name, line in lines.items() if name not in ("naive_rag", "ppo")} == {"not run"}
    text = markdown(report)
    assert "| Naive RAG | 0.1916 | void | 0.1792 | void | 0.0277 | void | 0.1328 | void |  | 1 |" in text
    assert "| GRPO | 0.4405 | not run |" in text
    on = "MuSiQue (ours: companies_and_cities)"
    assert f"- open: every method above Naive RAG on {on} (Naive RAG has no scores)" in text


def test_a_report_says_how_it_was_measured(made: Made) -> None:
    text = markdown(made(matrix("table4", overrides=("evaluation.size=20",))))
    assert (
        "Scale tiny: the bundled model on invented worlds, on two CPU cores; 1 seed, with evaluation.size=20." in text
    )
    assert "- exact_match: HotpotQA's official normalisation" in text
    assert "- films: 960 passages" in text
    assert "- ppo-0: the best of 3. Held out: films, people, companies_and_cities: none of these 20" in text
    assert "- sampling: greedy True" in text
    assert "## Rows that are not complete" not in text


PPO, GRPO = (Cell(row, 0) for row in TABLES["table3"].rows[-2:])


def shown(live: bool) -> str:
    stream = io.StringIO()
    with MatrixDisplay(stream, live=live) as display:
        display.begin(PPO, 1, 2, 7300.0)
        display.look("step 3/25  reward 0.400")
        display.end(PPO, 90.4, None)
        display.begin(GRPO, 2, 2, 3700.0)
        display.look("step 4/25  reward 0.500")
        display.end(GRPO, 5.0, "the GPU is full\x1b[2J (see grpo-0.log)")
        display.skip(GRPO, "another process runs it")
    return stream.getvalue()


def test_each_cell_has_two_lines_and_a_terminal_shows_its_last_line_and_the_time_left() -> None:
    assert shown(live=False).splitlines() == [
        "ppo-0 begins, 1 of 2, about 2:01:40 left in all",
        "ppo-0 finished after 1:30",
        "grpo-0 begins, 2 of 2, about 1:01:40 left in all",
        "grpo-0 failed after 5 s: the GPU is full\\x1b[2J (see grpo-0.log)",
        "grpo-0 is left out: another process runs it",
    ]
    text = shown(live=True)
    assert "ppo-0 finished after 1:30" in text
    assert "step 4/25  reward 0.500" in text
    assert "left, grpo-0" in text
    assert "\x1b[2J" not in text.replace("\x1b[2K", "")


def test_estimates_are_corrected_by_the_speed_of_this_machine(store: Store, commands: Any) -> None:
    small = matrix("table3", seeds=2, rows=("naive_rag", "ppo", "grpo"))
    store.open(small, resume=False)
    by_name = {cell.name: cell_seconds(small, cell) for cell in small.cells()}
    assert time_left(small, store) == pytest.approx(sum(by_name.values()))
    check = next(cell for cell in small.cells() if cell.name == "naive_rag.check")
    *_, result = (commands(command, store.log(check)) for command in small.commands(check, store.runs))
    store.finish(check, [], Path(json.loads(result)["file"]), 3 * by_name[check.name])
    trained = sum(by_name[name] for name in ("ppo-0", "grpo-0", "ppo-1", "grpo-1"))
    expected = 3 * (by_name[check.name] + trained)
    assert time_left(small, store) == pytest.approx(expected), "the whole of naive_rag is as long as its check"


def test_the_real_methods_cost_what_the_docs_say() -> None:
    configs = Matrix(TABLES["table3"], SCALES["paper"]).configs
    counted = {name: (flops_per_token(config), trained_episodes(config)) for name, config in configs.items()}
    like_grpo = ("grpo", "rloo", "reinforce_pp", "reinforce_pp_baseline")
    assert [counted[name] for name in like_grpo] == [(12, 256_000)] * 4
    assert counted["ppo"] == (22, 51_200)


def test_a_cell_costs_what_it_learns_from_samples_and_starts() -> None:
    """Two ways of computing again, one optimiser step and several, and evaluations of all sets, cut to their size."""
    more = ("training.steps=2", "training.tasks_per_step=4", "training.samples_per_task=2")
    more += ("evaluation.every=1", "evaluation.size=3", "evaluation.at_start=true", "evaluation.at_end=true")
    once = ("training.epochs=1", "training.minibatches=1")
    costs = SCALES["tiny"].costs
    for row, again, forwards in (("grpo", once, 6), ("ppo", once, 12), ("grpo", ("training.minibatches=2",), 8)):
        for recomputed in ("none", "full"):
            warm = ("training.critic_warmup=0",) if row == "ppo" else ()
            chosen = (*more, *warm, *again, f"model.gradient_checkpointing={recomputed}")
            cells = matrix("table3", rows=(row, "naive_rag"), overrides=chosen)
            flops = forwards + 2 * (recomputed == "full") * (2 if row == "ppo" else 1)
            flops += 2 * (
                "reference" in cells.configs[row].make("algorithm", cells.configs[row].config.algorithm).roles()
            )
            assert flops_per_token(cells.configs[row]) == flops
            by_name = {cell.name: cell_seconds(cells, cell) for cell in cells.cells()}
            sets = len(cells.configs[row].config.tasks.eval_sets)
            scored = 3 * sets * costs.sampled / costs.sampling
            learning = 16 * (costs.tokens * costs.parameters * flops / costs.flops + costs.sampled / costs.sampling)
            assert by_name["naive_rag"] == pytest.approx(scored + costs.start)
            assert by_name[f"{row}-0"] == pytest.approx(learning + 4 * scored + 2 * costs.start)


def test_a_picture_has_a_panel_for_each_column(made: Made, commands: Any, tmp_path: Path) -> None:
    report = made(matrix("table4", rows=("ppo",)))
    draw(report, tmp_path / "table.png")
    content = (tmp_path / "table.png").read_bytes()
    assert content.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", content[16:24])
    assert (width, height) == (110 * 3 * 4, int(110 * (0.5 * 5 + 1.4)))
