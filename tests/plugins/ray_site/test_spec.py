"""What another process needs to make its part of a run; other plugins are refused by name; the shares of workers."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agent_r1_ray.cluster import cpus_per_worker
from agent_r1_ray.site import ray_site
from agent_r1_ray.spec import WorkerSpec
from small_run import REWARD, overrides

from agent_r1_core.assembly.assembly import assemble
from agent_r1_core.assembly.blueprint import Blueprint
from agent_r1_core.assembly.local_roles import local_roles
from agent_r1_core.assembly.site import LocalSite
from agent_r1_core.config import load_config
from agent_r1_core.errors import ConfigError, PluginError
from agent_r1_core.testing import SiteContract, tiny_model_folder


class Watched(LocalSite):
    """This process, which keeps the blueprint."""

    blueprint: Blueprint

    def make_roles(self, blueprint: Blueprint) -> Any:
        self.blueprint = blueprint
        return local_roles(blueprint)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    tiny_model_folder(tmp_path / "model")
    (tmp_path / "there").mkdir()
    path = tmp_path / "there" / "vowels.py"
    path.write_text(REWARD)
    return path


@pytest.fixture
def spec(tmp_path: Path, file: Path) -> WorkerSpec:
    site = Watched()
    (file.parent / "shown.jsonl").write_text('{"messages": [{"role": "user", "content": "0?"}, {"role": "assistant"}]}')
    changed = {"env__examples": file.parent / "shown.jsonl"}
    assemble(load_config("default", overrides(tmp_path, 1, **changed), plugins=[file]), site=site)
    sent: WorkerSpec = pickle.loads(pickle.dumps(WorkerSpec.of(site.blueprint)))
    return sent


def test_a_worker_makes_the_same_run_from_what_it_is_sent(spec: WorkerSpec, file: Path) -> None:
    file.unlink()  # the other machine has no such files
    (file.parent / "shown.jsonl").unlink()
    blueprint = spec.build()
    changed = {**spec.config, "plugins": blueprint.resolved.dump()["plugins"]}
    assert blueprint.resolved.dump() | {"sources": {}} == changed | {"sources": {}}
    placed = Path(changed["plugins"][0])
    assert placed != file
    assert placed.read_text() == REWARD
    assert blueprint.stages == ("train", "eval")
    assert [task.prompt for task in blueprint.examples.tasks] == ["0?"]
    assert blueprint.resolved.make("reward", blueprint.resolved.config.rewards[0]).name == "vowels"


def test_a_plugin_file_travels_by_its_content(spec: WorkerSpec, file: Path) -> None:
    file.write_text("raise SystemExit('another file of this name')")
    assert Path(spec.build().resolved.config.plugins[0]).read_text() == REWARD


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"version": "0.0.7"},
            r"plugin 'calculator' has changed .* version 0.0.7 became .*; install the same pack",
        ),
        ({"tools": [{"name": "abacus"}]}, r"abacus"),
    ],
)
def test_a_worker_with_other_plugins_is_refused_by_name(spec: WorkerSpec, change: dict[str, Any], said: str) -> None:
    if "version" in change:
        plugins = [one | change if one["name"] == "calculator" else one for one in spec.plugins]
        changed = replace(spec, plugins=plugins)
    else:
        changed = replace(spec, config={**spec.config, **change})
    with pytest.raises((PluginError, ConfigError), match=said):
        changed.build()


class TestRay(SiteContract):
    component = ray_site


@pytest.mark.parametrize(
    ("machines", "workers", "share"),
    [
        ([16], 4, 1),
        ([2], 3, 0.666),
        ([2, 2], 4, 0.5),
        ([1, 1, 1], 3, 0.5),  # two on each, though two CPUs would give three workers more
        ([0, 4], 8, 0.5),  # a head that runs no workers
        ([64, 8, 8], 20, 0.8),
        ([16] * 33, 512, 1),
        ([2], 3000, 0),  # Ray counts no less than a thousandth
    ],
)
def test_all_workers_fit_without_the_largest_machine(machines: list[float], workers: int, share: float) -> None:
    assert cpus_per_worker(machines, workers) == share
