"""The cells of a matrix run once each, in a folder that belongs to one scale and to its recipes."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from agent_r1_paper.cost import trained_episodes
from agent_r1_paper.matrix import Matrix
from agent_r1_paper.report import make_report
from agent_r1_paper.runner import CellProcess
from agent_r1_paper.shaping import ALL_TABLES
from agent_r1_paper.store import Store
from agent_r1_paper.tables import SCALES, Table

from agent_r1_core.errors import ConfigError, RunError

from .conftest import matrix

RunMatrix = Callable[..., dict[str, str]]


@pytest.mark.parametrize("table", ALL_TABLES.values(), ids=ALL_TABLES.keys())
def test_every_row_of_a_table_says_and_sets_something_of_its_own(table: Table) -> None:
    titles = [row.title for row in table.rows]
    assert all(isinstance(title, str) and title for title in titles)
    for told in (titles, [row.name for row in table.rows]):
        assert len(set(told)) == len(told), told
    set_up = [(row.method, frozenset(row.overrides), row.baseline) for row in table.rows]
    assert len(set(set_up)) == len(set_up), set_up


@pytest.fixture
def small() -> Matrix:
    return matrix("table3", seeds=2, rows=("naive_rag", "ppo", "grpo"))


@pytest.fixture
def pair() -> Matrix:
    return matrix("table4", rows=("ppo", "grpo"))


def test_cells_run_seed_by_seed_after_those_that_train_nothing(small: Matrix, run: RunMatrix, commands: Any) -> None:
    assert run(small) == {}
    trained = [f"{command} {name}" for name in ("ppo-0", "grpo-0", "ppo-1", "grpo-1") for command in ("train", "eval")]
    assert commands.ran == ["eval naive_rag.check", "eval naive_rag", *trained]
    begun = [line.partition(",")[2] for line in commands.told.getvalue().splitlines() if " begins, " in line]
    assert [text.partition(",")[0].strip() for text in begun] == [f"{number} of 6" for number in range(1, 7)]
    assert run(small, resume=True) == {}
    assert len(commands.ran) == 10, "finished cells do not run again"


@pytest.mark.parametrize("where", ["train ppo-0", "eval ppo-0", "eval naive_rag"])
def test_an_interrupted_matrix_goes_on_where_it_stopped(
    small: Matrix, tmp_path: Path, run: RunMatrix, commands: Any, where: str
) -> None:
    whole, broken = Store(tmp_path / "whole"), Store(tmp_path / "broken")
    run(small, store=whole)
    everything, commands.ran = commands.ran, []
    commands.failing[where] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt, match=rf"stopped in {where.split()[1]}, with \d of 6 cells finished"):
        run(small, store=broken)
    assert run(small, resume=True, store=broken) == {}
    assert sorted(commands.ran) == sorted([*everything, where]), "only the interrupted command ran twice"
    for record in map(broken.record, small.cells()):
        assert record is not None
        assert record.commands
        assert (broken.path / record.evaluation).is_file()
    tables = [make_report(small, folder, {}).to_json() for folder in (whole, broken)]
    assert tables[0] == tables[1]


def test_a_failing_cell_stops_no_other_and_is_tried_again(
    pair: Matrix, store: Store, run: RunMatrix, commands: Any
) -> None:
    commands.failing["train ppo-0"] = RunError("the GPU is full (see ppo-0.log)")
    failures = run(pair)
    assert failures == {"ppo-0": "the GPU is full (see ppo-0.log)"}
    lines = {line.row.name: line for line in make_report(pair, store, failures).lines}
    assert (lines["ppo"].status, lines["ppo"].note) == ("not run", "ppo-0: the GPU is full (see ppo-0.log)")
    assert lines["grpo"].status == "done"
    assert run(pair, resume=True) == {}
    assert commands.ran[-2:] == ["train ppo-0", "eval ppo-0"]


def test_two_processes_share_a_folder(pair: Matrix, store: Store, run: RunMatrix, commands: Any) -> None:
    store.open(pair, resume=False)
    with store.claimed(pair.cells()[0]) as ours:
        assert ours
        assert run(pair, resume=True, store=Store(store.path)) == {"ppo-0": "another process runs it"}
    assert commands.ran == ["train grpo-0", "eval grpo-0"]


def test_tables_share_the_cells_of_a_row_that_both_have(run: RunMatrix, commands: Any) -> None:
    run(matrix("table3", rows=("ppo", "grpo")))
    commands.ran.clear()
    run(matrix("table4", rows=("ppo", "grpo-no_loss_mask")), resume=True)
    assert commands.ran == ["train grpo-no_loss_mask-0", "eval grpo-no_loss_mask-0"]


def test_a_folder_that_exists_needs_resume_and_holds_one_matrix(store: Store) -> None:
    of_ppo = partial(matrix, "table3", rows=("ppo",))
    small = of_ppo()
    with pytest.raises(RunError, match=r"holds no matrix yet; leave out --resume"):
        store.open(small, resume=True)
    assert not store.path.exists()
    store.open(small, resume=False)
    assert small.sets == {"HotpotQA": "films", "2Wiki": "people", "MuSiQue": "companies_and_cities"}
    with pytest.raises(RunError, match=r"exists already; continue it with --resume, or name another folder with --dir"):
        store.open(small, resume=False)
    store.open(of_ppo(seeds=5), resume=True)
    with pytest.raises(
        RunError, match=r"holds a matrix with overrides \[\], not \['training\.steps=9'\]; give what it has, or name"
    ):
        store.open(of_ppo(overrides=("training.steps=9",)), resume=True)
    marker = store.path / "matrix.json"
    marker.write_text(json.dumps(json.loads(marker.read_text()) | {"overrides": 5}))
    with pytest.raises(RunError, match=r"holds a matrix with overrides 5, not \[\]; give what it has"):
        store.open(small, resume=True)


def test_the_order_of_overrides_makes_no_other_matrix(store: Store) -> None:
    of_ppo = partial(matrix, "table3", rows=("ppo",))
    store.open(of_ppo(overrides=("training.steps=9", "training.lr=1e-5")), resume=False)
    store.open(of_ppo(overrides=("training.lr=1e-5", "training.steps=9")), resume=True)


def test_recipes_must_fit_the_table_row_by_row(store: Store) -> None:
    one = matrix("table3", overrides=("tasks.eval={name: miniwiki, size: 4}", "evaluation.choose_on=null"))
    with pytest.raises(ConfigError, match=r"reports 1 evaluation sets, but table3 has a column for each of HotpotQA"):
        _ = one.configs
    too_few = "training.steps=2"
    store.open(matrix("table3", overrides=(too_few,), rows=("grpo",)), resume=False)
    with pytest.raises(ConfigError, match=r"training\.critic_warmup .*miniwiki-ppo.* is 2 and must be below"):
        store.open(matrix("table3", overrides=(too_few,)), resume=True)


def test_a_shape_is_scored_by_the_last_evaluation_of_its_training(store: Store, run: RunMatrix, commands: Any) -> None:
    shapes, commands.evaluates = matrix("shaping", rows=("lake-16x4", "lake-5_turns_of_2")), True
    commands.scores = {"lake-16x4-0": (0.75,), "lake-5_turns_of_2-0": (0.25,)}
    assert run(shapes) == {}
    assert commands.ran == ["train lake-16x4-0", "train lake-5_turns_of_2-0"]
    scores: dict[str, float] = {}
    for cell in shapes.cells():
        record = store.record(cell)
        assert record is not None
        assert record.seconds >= 0
        scores[cell.row.name] = store.result(record).recorded.metrics["exact_match"].mean
    assert scores == {"lake-16x4": 0.75, "lake-5_turns_of_2": 0.25}


def test_shapes_of_rollouts_differ_in_what_their_titles_say_and_in_no_budget() -> None:
    shapes = matrix("shaping")
    found: dict[str, tuple[int, int, int]] = {}
    for name, resolved in shapes.configs.items():
        training, episodes = resolved.config.training, trained_episodes(resolved)
        updates = training.steps * training.epochs * training.minibatches
        found[name] = episodes, updates, episodes * training.epochs // updates
    apart = {"lake-reused": (128, 6, 64), "lake-epochs": (384, 18, 64)}
    apart |= {"search-reused": (128, 8, 64), "search-epochs": (512, 32, 64)}
    budgets = {"lake": (384, 6, 64), "search": (512, 8, 64)}
    assert found == {row.name: apart.get(row.name, budgets[row.method]) for row in shapes.table.rows}
    envs = {name: config.make("env", config.config.env).config for name, config in shapes.configs.items()}
    turns = {name: (env.max_turns, env.actions_per_turn) for name, env in envs.items() if "turns" in name}
    assert turns == {f"lake-{turns}_turns_of_{n}": (turns, n) for turns, n in ((10, 2), (10, 3), (10, 6), (5, 2))}
    names = set(shapes.configs)
    assert all({*pair} <= names for pair in shapes.table.pairs)


def test_commands_have_the_sizes_that_were_asked_for_and_the_folder(tmp_path: Path) -> None:
    asked = ("evaluation.size=3", "env.system_prompt=a=b")
    for more, keys, whole in (
        ((), set(), ["evaluation.size=null"]),
        (asked, {"evaluation.size", "env.system_prompt"}, []),
    ):
        cells = matrix("table3", rows=("ppo", "naive_rag"), overrides=more)
        assert cells.keys == keys
        for cell in cells.cells()[1:]:
            *training, scoring = cells.commands(cell, tmp_path)
            assert [word for word in scoring if word == "evaluation.size=null"] == whole
            assert all(f"run.dir={tmp_path}" in command for command in training)
            assert len(training) == cell.row.trained


def test_a_damaged_record_and_a_changed_recipe_are_refused_with_the_key(pair: Matrix, store: Store) -> None:
    store.open(pair, resume=False)
    (store.path / "cells" / "ppo-0.json").write_text('{"schema": 1}')
    with pytest.raises(RunError, match=r"cells/ppo-0\.json is damaged: it has no 'cell'; delete it to run the cell"):
        store.record(pair.cells()[0])
    marker = store.path / "matrix.json"
    content = json.loads(marker.read_text())
    content["rows"]["ppo"]["training"]["lr"] = 0.5
    marker.write_text(json.dumps(content))
    sentence = r"the recipe paper/miniwiki-ppo has changed since .* began \(ppo: training\.lr was 0\.5 and is 0\.0003\)"
    with pytest.raises(RunError, match=sentence):
        store.open(pair, resume=True)


def test_a_folder_of_something_else_is_left_alone(pair: Matrix, store: Store) -> None:
    store.path.mkdir()
    (store.path / "thesis.txt").write_text("mine")
    for resume in (False, True):
        with pytest.raises(RunError, match=r"exists and is no folder of agent-r1 reproduce; name another folder"):
            store.open(pair, resume=resume)
    assert [path.name for path in store.path.iterdir()] == ["thesis.txt"]


def test_a_table_may_have_changes_of_its_own_that_give_way_to_those_of_the_user() -> None:
    tiny, paper = SCALES["tiny"], SCALES["paper"]
    assert tiny.overrides("table4", []) == ("training.steps=6", "evaluation.greedy=false")
    given = ["training.steps=25", "training.lr=1e-4"]
    assert tiny.overrides("table4", given) == ("evaluation.greedy=false", *given)
    assert tiny.overrides("table3", given) == paper.overrides("table4", given) == tuple(given)
    assert tiny.folder("table3") != tiny.folder("table4"), "they would refuse each other's configuration"
    assert paper.folder("table3") == paper.folder("table4"), "so that what both have is trained once"


def test_a_command_runs_in_a_process_whose_log_says_what_it_does_and_why_it_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_r1_paper.runner._LOOK_SECONDS", 0.02)
    seen: list[str] = []
    log = tmp_path / "cell.log"
    execute = CellProcess(seen.append)
    assert execute(["--version"], log).startswith("agent-r1 ")
    with pytest.raises(RunError, match=rf"nothing-there.*\(see {log}\)$"):
        execute(["compare", str(tmp_path / "nothing-there")], log)
    assert log.read_text().splitlines()[0] == seen[0] == "$ agent-r1 --version"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a cell ends by itself")
def test_a_command_ends_when_the_matrix_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel has been told to kill it then; number 2 asks it by which signal."""
    asks = "import ctypes; told = ctypes.c_int(); ctypes.CDLL(None).prctl(2, ctypes.byref(told)); print(told.value)"
    monkeypatch.setattr("agent_r1_paper.runner._CALL", asks)
    assert CellProcess(print)(["--version"], tmp_path / "cell.log") == f"{signal.SIGKILL}\n"
