"""Contract test of a site."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

from agent_r1_core.plugins.checks import check_site


class SiteContract:
    """Set `component` to the function that opens the site. What it opens is tested by a run on it."""

    component: ClassVar[Callable[..., Any]]

    def test_it_is_what_its_kind_asks_for(self) -> None:
        function = inspect.getattr_static(type(self), "component")
        problems = check_site(getattr(function, "__func__", function))
        assert not problems, "; ".join(problems)
