"""Contract tests of a command."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

from agent_r1_core.plugins.checks import check_command


class CommandContract:
    """Set `component` to the function; `call` runs it as `agent-r1` does."""

    component: ClassVar[Callable[..., Any]]

    def call(self, *arguments: object) -> Any:
        """Typer's result of the command with these arguments: `exit_code`, `output`."""
        import typer
        from typer.testing import CliRunner

        app = typer.Typer(add_completion=False)
        app.command()(self._function())
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    def test_it_is_what_its_kind_asks_for(self) -> None:
        problems = check_command(self._function())
        assert not problems, "; ".join(problems)

    def test_it_explains_itself(self) -> None:
        result = self.call("--help")
        assert result.exit_code == 0, result.output
        assert "Usage" in result.output

    def _function(self) -> Callable[..., Any]:
        function: Callable[..., Any] = inspect.getattr_static(type(self), "component")
        return function
