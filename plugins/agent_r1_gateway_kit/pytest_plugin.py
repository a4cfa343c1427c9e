"""The pytest plugin: the option `--agent-gateway`, which adds the behaviours to what is collected."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Without the option the plugin does nothing."""
    group = parser.getgroup("agent gateway", "tests of gateways that record what programs ask models")
    group.addoption(
        "--agent-gateway", metavar="URL", help="test the gateway that reports at this address; alone, nothing else runs"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Collect the behaviours: with what the command line names, or alone."""
    behaviours = str(Path(__file__).parent / "behaviours")
    if config.getoption("--agent-gateway") is None or behaviours in config.args:
        return
    named = config.args_source is type(config.args_source).ARGS
    config.args[:] = [*(config.args if named else ()), behaviours]
