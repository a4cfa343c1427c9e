"""A run directory is begun, written by one, resumed, and never overwritten by accident."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from dying_writers import written

from agent_r1_core.errors import ConfigError, RunError
from agent_r1_core.evaluation.result_file import ResultFile
from agent_r1_core.runs.evaluation_file import EvaluationTasks
from agent_r1_core.runs.model_files import ModelFiles
from agent_r1_core.runs.reading.found_runs import FoundRuns
from agent_r1_core.runs.reading.summary import RunSummary
from agent_r1_core.runs.run import Run
from agent_r1_core.runs.run_reader import RunReader
from agent_r1_core.runs.trajectory_file import write_trajectories
from agent_r1_core.testing.trajectories import make_trajectory
from agent_r1_core.training.api import resolve

CONFIG = {"seed": 0, "training": {"lr": 1e-6, "steps": 30}, "model": {"name": "tiny", "lora": None}} | {
    "env": {"system_prompt": "7e2", "hint": "<<", "note": "012"}
}
"""Some of its texts are numbers or syntax to other readers of YAML."""
PLUGINS = [{"name": "wiki_search", "version": "0.1.0"}]


def begin(home: Path, name: str | None = "first", **more: object) -> Run:
    return Run.create(home, name, CONFIG, PLUGINS, **more)  # type: ignore[arg-type]


def train_some(run: Run, first: int, last: int) -> None:
    """Steps as a trainer writes them, with an evaluation and a checkpoint at every second one."""
    for step in range(first, last + 1):
        write_trajectories(run.trajectory_file(step), step, [make_trajectory(reward=float(step))])
        run.append_metrics(step, {"reward/mean": step})
        if step % 2 == 0:
            run.write_evaluation(f"step_{step:06d}", {"n": 1}, step=step, episodes=[{"task": "a"}])
            run.checkpoints.save(step, written("some"), keep=9)


def test_a_new_run_holds_its_configuration_and_plugins_and_has_a_name(tmp_path: Path) -> None:
    with begin(tmp_path / "runs") as run:
        assert run.path == tmp_path / "runs" / "first"
    again = Run.open(run.path)
    assert (again.config(), again.plugins(), again.name, again.metrics()) == (CONFIG, PLUGINS, "first", [])
    names = [begin(tmp_path, None, stem="default").name for _ in range(3)]
    assert names == ["default-1", "default-2", "default-3"], "after its recipe"
    for name in ("a/b", "..", "", ".hidden", "white space"):
        with pytest.raises(ConfigError, match="cannot name a run"):
            begin(tmp_path, name)
    (tmp_path / "first").write_text("")
    with pytest.raises(RunError, match="is a file, and a run needs a directory"):
        begin(tmp_path)
    with pytest.raises(RunError, match=r"cannot be created .*; set another run.dir"):
        begin(tmp_path / "first", None)


def test_a_damaged_record_of_evaluation_tasks_is_named_and_a_run_that_is_read_is_not_written(tmp_path: Path) -> None:
    with begin(tmp_path) as run:
        run.write_evaluation_tasks(EvaluationTasks({"dev": ("a", "b")}, ("a", "b")))
    run = Run.open(run.path)
    recorded = run.evaluation_tasks()
    assert recorded.behind("eval/dev/f1") == recorded.behind("eval/f1") == recorded.behind("score") == {"a", "b"}
    ids = '{"held_out": null, "sets": {"dev": [["id"]]}}'
    for text in (ids, '{"held_out": "ids", "sets": {}}', '{"sets": {}}', "[]"):
        (run.path / "evaluation_tasks.json").write_text(text)
        with pytest.raises(RunError, match=r"evaluation_tasks\.json is damaged"):
            run.evaluation_tasks()
    for write, given in (
        (run.append_metrics, (1, {})),
        (run.truncate_after, (0,)),
        (run.write_model, (written("some"),)),
        (run.write_config, ({},)),
    ):
        with pytest.raises(RunError, match="open for reading only"):
            write(*given)


def test_a_replaced_run_stands_aside_until_its_successor_has_a_step(tmp_path: Path) -> None:
    with begin(tmp_path) as old:
        train_some(old, 1, 2)
    with begin(tmp_path, force=True) as new:
        assert new.metrics() == []
        assert new.discard(), "it failed before its first step"
    assert [line["step"] for line in Run.open(old.path).metrics()] == [1, 2]
    with begin(tmp_path, force=True) as new:
        with pytest.raises(RunError, match="open for writing in this process"):
            begin(tmp_path, force=True)
        new.append_metrics(1, {})
        assert not new.discard()
    assert [line["step"] for line in Run.open(new.path).metrics()] == [1]
    assert [path.name for path in tmp_path.iterdir()] == ["first"]


def test_resuming_cuts_off_what_came_after_the_checkpoint(tmp_path: Path) -> None:
    with begin(tmp_path) as run:
        train_some(run, 1, 5)
        run.write_evaluation("final-check", {"n": 1})
    (run.path / "metrics.jsonl").open("ab").write(b'{"step": 6')
    (run.path / "trajectories" / ".tmp-step_000006.parquet-1").write_text("half")
    (run.path / "checkpoints" / ".tmp-step_000006-1").mkdir()

    with begin(tmp_path, resume=True) as run:
        latest = run.checkpoints.latest()
        assert latest.step == 4
        run.truncate_after(latest.step)
        assert [line["step"] for line in run.metrics()] == run.trajectory_steps() == [1, 2, 3, 4]
        run.truncate_after(3)
        assert list(run.evaluations()) == ["step_000002", "final-check"]
        assert [path.name for path in run.path.glob("evaluations/*.jsonl")] == ["step_000002.jsonl"]
        train_some(run, 4, 6)
    assert [line["step"] for line in run.metrics()] == run.trajectory_steps() == [1, 2, 3, 4, 5, 6]
    assert [trajectory.reward for trajectory in run.read_trajectories(5)] == [5.0]
    assert not list(run.path.rglob(".tmp-*"))


def test_resuming_needs_a_run_and_its_name(tmp_path: Path) -> None:
    for name, error, said in (("first", RunError, "is no run directory"), (None, ConfigError, r"set run.name=NAME")):
        with pytest.raises(error, match=said):
            begin(tmp_path, name, resume=True)
    begin(tmp_path).close()
    (tmp_path / "first" / "config.yaml").unlink()
    with pytest.raises(RunError, match=r"stopped before its configuration was written; .* --force"):
        begin(tmp_path, resume=True)
    begin(tmp_path, force=True).close()


@pytest.mark.parametrize("left", [None, "", "{"])
def test_a_run_that_has_lost_its_marker_is_named_by_whoever_opens_it(tmp_path: Path, left: str | None) -> None:
    begin(tmp_path).close()
    marker = tmp_path / "first" / "run.json"
    marker.unlink() if left is None else marker.write_text(left)
    said = r"^the run.json of run .*first is missing or damaged; restore it from a copy$"
    (listed,) = FoundRuns([tmp_path]).all().values()
    assert re.match(said, str(RunSummary.of(RunReader(listed)).problem))
    for read in (
        Run.open,
        lambda run: resolve(str(run), ()),
        ResultFile.open,
        lambda run: begin(run.parent, resume=True),
    ):
        with pytest.raises(RunError, match=said):
            read(tmp_path / "first")


def test_the_policy_of_a_run_is_its_best_then_its_final_then_its_latest(tmp_path: Path) -> None:
    with begin(tmp_path) as run:
        with pytest.raises(RunError, match="holds no policy yet"):
            run.policy()
        run.checkpoints.save(1, written("some"))
        assert run.policy().folder == run.path / "checkpoints" / "step_000001" / "policy"
        run.write_model(lambda folder: (folder / "config.json").write_text("{}") and None)
        assert run.policy().folder == run.path / "model"
        run.remove_model()
        run.remove_model()
        assert run.policy().step == 1, "a run that goes on has no final policy"
        run.write_model(lambda folder: None)
        run.checkpoints.save(2, written("some"), metric="eval/exact_match", value=0.5)
        run.checkpoints.save(3, written("some"), metric="eval/exact_match", value=0.4)
        assert run.policy().folder == run.path / "checkpoints" / "step_000002" / "policy"


KEPT = ("LICENSE", "additional_chat_templates/tools.jinja", "chat_template.jinja", "generation_config.json", "vocab")
LEFT = (
    *("config.json", "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "modeling_own.py"),
    *(".gitattributes", "checkpoint-3/tokenizer.json", "checksums.json"),
)


def test_what_is_neither_weights_nor_code_is_kept_once_and_completes_every_policy(tmp_path: Path) -> None:
    """A lost copy is said and not passed over."""
    with pytest.raises(RunError, match=r"model_files is gone, .*; --resume copies it again"):
        ModelFiles(tmp_path / "model_files").complete(tmp_path)
    for name in (*KEPT, *LEFT):
        file = tmp_path / "model" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    files = ModelFiles(tmp_path / "model_files")
    files.keep(tmp_path / "model")
    (tmp_path / "model" / "LICENSE").write_text("another")
    files.keep(tmp_path / "model")
    policy = tmp_path / "policy"
    policy.mkdir()
    (policy / "config.json").write_text("its own")
    files.complete(policy)
    found = {path.relative_to(policy).as_posix(): path.read_text() for path in policy.rglob("*") if path.is_file()}
    assert found == {name: name for name in KEPT} | {"config.json": "its own"}
