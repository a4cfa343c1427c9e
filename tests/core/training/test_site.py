"""A plugin may bring a site of its own: a run with workers opens it, and what is no site is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_run import Notes, overrides

from agent_r1_core import ComponentLoadError, ConfigError, train
from agent_r1_core.config import load_config
from agent_r1_core.plugins import Registry
from agent_r1_core.plugins.checks import check_plugin
from agent_r1_core.plugins.records import Findings
from agent_r1_core.testing import SiteContract, tiny_model_folder

PLUGIN = """
from contextlib import contextmanager

from agent_r1_core import SiteSpec, hookimpl
from agent_r1_core.assembly.site import HERE

AGENT_R1_PLUGIN_API = 1


@contextmanager
def cellar(settings, note, lost, learning=True):
    '''All workers are this process.'''
    note(f"opened for {settings.rollout_workers} workers")
    yield HERE
    note("closed")


@hookimpl
def register_sites():
    return [SiteSpec("cellar", ":cellar", "all workers are this process")]
"""


async def test_a_run_with_workers_opens_the_site_of_a_plugin_also_in_a_notebook(tmp_path: Path) -> None:
    """There a loop runs already."""
    (tmp_path / "sites.py").write_text(PLUGIN)
    tiny_model_folder(tmp_path / "model")
    workers = {"distributed": "{site: cellar, rollout_workers: 3}", "deterministic": "false"}
    keys = overrides(tmp_path, 1, rewards="[exact_match]", checkpoint__best="null", **workers)
    listener = Notes()
    run = train("default", keys, plugins=[tmp_path / "sites.py"], listener=listener)
    assert len(run.metrics()) == 1
    assert [one for one in listener.said if "opened" in one or one == "closed"] == ["opened for 3 workers", "closed"]


def test_what_is_no_site_is_refused() -> None:
    """One that no plugin offers, and a function that takes other arguments."""
    with pytest.raises(ConfigError, match=r"distributed\.site .* no site is called 'rays'; did you mean"):
        load_config("default", ["distributed={site: rays, rollout_workers: 1}"])
    contract = type("Test", (SiteContract,), {"component": staticmethod(lambda settings: settings)})()
    with pytest.raises(AssertionError, match=r"no docstring; it cannot be called as site\(settings"):
        contract.test_it_is_what_its_kind_asks_for()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ("needs=('json', 'no_such'), install='get it'", "no_such, which is not installed; run: get it"),
        ("needs=('no_such', 'nor_such')", "no_such and nor_such, which are not installed; install what is missing"),
    ],
)
def test_a_site_whose_packages_are_missing_is_refused(tmp_path: Path, fields: str, reason: str) -> None:
    file = tmp_path / "sites.py"
    file.write_text(PLUGIN.replace('this process")', f'this process", {fields})'))
    resolved = load_config("default", ["distributed={site: cellar, rollout_workers: 1}"], plugins=[file])
    with pytest.raises(ComponentLoadError) as caught:
        resolved.check_available()
    assert str(caught.value) == f"distributed.rollout_workers needs {reason}"
    resolved.check_available(unused=["distributed"])
    registry = Registry.discover([file])
    (plugin,) = (plugin for plugin in registry.plugins if plugin.name == "sites")
    assert check_plugin(registry, plugin) == Findings([], [f"site 'cellar' cannot be used here: needs {reason}"])
