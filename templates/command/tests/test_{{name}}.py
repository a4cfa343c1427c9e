"""Tests of the command `{{name}}`."""

from pathlib import Path

import pytest

from agent_r1_core import ConfigError, Run
from agent_r1_core.testing import CommandContract, PluginContract
from {{package}} import plugin
from {{package}}.command import {{name}}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    with Run.create(tmp_path, "short", {}, []) as run:
        for step in (1, 2):
            run.append_metrics(step, {"reward/mean": step / 2})
        return run.path


class TestCommand(CommandContract):
    component = {{name}}

    def test_it_prints_the_metric_of_each_step(self, run: Path) -> None:
        assert self.call(run).output.split() == ["1", "0.5000", "2", "1.0000"]

    def test_an_unknown_metric_is_refused(self, run: Path) -> None:
        with pytest.raises(ConfigError, match="no metric 'reward/man'; it has reward/mean"):
            {{name}}(run, "reward/man")


class TestPlugin(PluginContract):
    plugin = plugin
