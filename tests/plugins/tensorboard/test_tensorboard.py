from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from agent_r1_tensorboard.tracker import TensorBoard

from agent_r1_core import ComponentLoadError, RunInfo
from agent_r1_core.testing import TrackerContract, make_trajectory


class TestTensorBoard(TrackerContract):
    component = TensorBoard


def read(directory: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(directory / "tensorboard"), purge_orphaned_data=True)
    events.Reload()
    return events


def tracker(directory: Path, resumed_at: int | None = None) -> TensorBoard:
    opened = TensorBoard()
    opened.open(RunInfo("run", str(directory), {"seed": 7}, resumed_at))
    return opened


def test_metrics_become_curves_that_a_resume_replaces_and_trajectories_text(tmp_path: Path) -> None:
    board = tracker(tmp_path)
    for step in (1, 2):
        board.log(step, {"reward/mean": step / 2})
    assert [(event.step, event.value) for event in read(tmp_path).Scalars("reward/mean")] == [(1, 0.5), (2, 1.0)]
    board.close()
    board = tracker(tmp_path, resumed_at=1)
    board.log(2, {"reward/mean": 7.0})
    board.close()
    assert [(event.step, event.value) for event in read(tmp_path).Scalars("reward/mean")] == [(1, 0.5), (2, 7.0)]
    board = tracker(tmp_path)
    board.log_trajectories(3, [make_trajectory(texts=["search <Lyon>", "it is *Paris*"], answer="Paris", reward=1.0)])
    board.close()
    events = read(tmp_path)
    text = events.Tensors("trajectories/0/text_summary")[0].tensor_proto.string_val[0].decode()
    assert "task/0: reward 1, terminated, answer 'Paris'" in text
    assert "    [assistant] it is *Paris*" in text
    assert '"seed": 7' in events.Tensors("config/text_summary")[0].tensor_proto.string_val[0].decode()


def test_a_missing_package_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ComponentLoadError, match="pip install tensorboard"):
        tracker(tmp_path)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    assert "pip install tensorboard" in str(TensorBoard.unavailable(TensorBoard.Config()))
    TensorBoard().close()  # though it has not opened
