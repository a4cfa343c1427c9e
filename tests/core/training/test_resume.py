"""A run goes on under the configuration that it was begun with, also after agent-r1 has learnt a new option."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_r1_core.config import load_config
from agent_r1_core.errors import RunError
from agent_r1_core.runs.run import Run
from agent_r1_core.training.resume import check_resumable


def test_an_option_that_the_runs_record_lacks_counts_only_where_it_is_set(tmp_path: Path) -> None:
    resolved = load_config("default")
    record = resolved.dump()
    del record["training"]["adam_eps"], record["algorithm"]["entropy_coef"]
    with Run.create(tmp_path, "older", record, resolved.registry.to_json()) as run:
        check_resumable(run, resolved, force=False)
        with pytest.raises(RunError, match=r"other values of training\.adam_eps;"):
            check_resumable(run, load_config("default", ["training.adam_eps=1e-6"]), force=False)
        with pytest.raises(RunError, match=r"other values of training\.lr;"):
            check_resumable(run, load_config("default", ["training.lr=1e-6"]), force=False)
