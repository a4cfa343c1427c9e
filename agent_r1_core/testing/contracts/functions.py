"""Contract tests of components that are functions: commands and sites."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

from agent_r1_core.plugins.checks import check_command, check_site


class _FunctionContract:
    component: ClassVar[Callable[..., Any]]
    _check: ClassVar[Any]
    """What is wrong with a function."""

    def test_it_is_what_its_kind_asks_for(self) -> None:
        problems = self._check(self._function())
        assert not problems, "; ".join(problems)

    def _function(self) -> Callable[..., Any]:
        function: Any = inspect.getattr_static(type(self), "component")
        return getattr(function, "__func__", function)


class SiteContract(_FunctionContract):
    """Set `component` to the function that opens the site. What it opens is tested by a run on it."""

    _check = staticmethod(check_site)


class CommandContract(_FunctionContract):
    """Set `component` to the function; `call` runs it as `agent-r1` does."""

    _check = staticmethod(check_command)

    def call(self, *arguments: object) -> Any:
        """Typer's result of the command with these arguments: `exit_code`, `output`."""
        import typer
        from typer.testing import CliRunner

        app = typer.Typer(add_completion=False)
        app.command()(self._function())
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    def test_it_explains_itself(self) -> None:
        result = self.call("--help")
        assert result.exit_code == 0, result.output
        assert "Usage" in result.output
