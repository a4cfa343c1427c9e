"""WorkerSpec: all that another process needs to make its part of a run.

A worker finds plugins for itself, as the command did. One that finds others is refused by name. Plugin files that the
recipe names travel with their content.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import TYPE_CHECKING, Any

from agent_r1_core import kernels
from agent_r1_core.assembly.blueprint import Blueprint
from agent_r1_core.assembly.hardware import Hardware, apply
from agent_r1_core.assembly.model_source import ModelSource, find_model
from agent_r1_core.assembly.task_sets import unused_sets
from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.config import load_config
from agent_r1_core.config.yaml_text import dump
from agent_r1_core.errors import ModelError, PluginError
from agent_r1_core.folders import cache_dir
from agent_r1_core.opening import read_bytes
from agent_r1_core.plugins import PluginStatus
from agent_r1_core.plugins.trust import Trust

if TYPE_CHECKING:
    from agent_r1_core.config import ResolvedConfig
    from agent_r1_core.contracts.tool import Tool
    from agent_r1_core.rollout.examples import Examples
    from agent_r1_core.runs.checkpoint import Checkpoint


@dataclass(frozen=True)
class WorkerSpec:
    """A blueprint in a form that travels."""

    config: Mapping[str, Any]
    plugins: Sequence[Mapping[str, Any]]
    """What the command found, as in plugins.json."""
    files: Mapping[str, bytes]
    """Plugin files by their path on the machine of the command."""
    model: Path
    """The model's folder there."""
    hardware: Hardware
    stages: tuple[str, ...]
    learning: bool
    checkpoint: Checkpoint | None
    wrap_tool: Callable[[Tool], Tool] | None
    examples: Examples | None

    @classmethod
    def of(cls, blueprint: Blueprint) -> WorkerSpec:
        """What to send of a blueprint."""
        registry = blueprint.resolved.registry
        local = [plugin for plugin in registry.plugins if plugin.distribution is None]
        return cls(
            config=blueprint.resolved.dump(),
            plugins=registry.to_json(),
            files={plugin.value: read_bytes(plugin.value) for plugin in local},
            model=blueprint.model.folder,
            hardware=blueprint.hardware,
            stages=blueprint.stages,
            learning=blueprint.learning,
            checkpoint=blueprint.checkpoint,
            wrap_tool=blueprint.wrap_tool,
            examples=blueprint.examples,
        )

    def build(self) -> Blueprint:
        """The blueprint, made again in this process.

        Raises:
            PluginError: a plugin is missing here, or differs.
            ModelError: the model's folder is not here.
            ConfigError: the configuration does not fit what is installed here.
        """
        kernels.switch(self.config["kernels"])
        apply(self.hardware, bool(self.config["deterministic"]))
        resolved = self._resolved()
        idle = () if self.learning else ("algorithm", "trackers", *unused_sets(resolved.config, self.stages))
        resolved.check_available(idle)
        differences = resolved.registry.check_same(self.plugins)
        if differences:
            raise PluginError(
                f"this machine has other plugins than that of the command ({'; '.join(differences)}); install the same "
                "packages on both"
            )
        model = self._model(resolved.config.model.name)
        tokenizer = ChatTokenizer.from_folder(model.folder)
        return Blueprint(
            resolved,
            self.hardware,
            model,
            tokenizer,
            self.stages,
            self.learning,
            self.checkpoint,
            wrap_tool=self.wrap_tool,
            examples=self.examples,
        )

    def load_plugin_files(self) -> None:
        """Import the plugin files, for a process that only passes on what may hold values of their classes."""
        if self.files:
            self._resolved()

    def _resolved(self) -> ResolvedConfig:
        paths = {path: _placed(path, content) for path, content in self.files.items()}
        config = {**self.config, "plugins": [paths.get(path, path) for path in self.config["plugins"]]}
        disabled = [plugin["name"] for plugin in self.plugins if plugin["status"] == PluginStatus.DISABLED]
        with TemporaryDirectory(prefix="agent-r1-") as folder:
            file = Path(folder, "config.yaml")
            file.write_text(dump(config), encoding="utf-8")
            return load_config(
                file, disabled=disabled, training=self.learning, trust=Trust(named=True), recorded=self.plugins
            )

    def _model(self, name: str) -> ModelSource:
        """The model: in the folder that the command found, else wherever its name leads here."""
        if (self.model / "config.json").is_file():
            return ModelSource(self.model, "folder")
        try:
            return find_model(name)
        except ModelError as error:
            raise ModelError(f"{self.model} is not on this machine, and {error}") from None


def _placed(path: str, content: bytes) -> str:
    """A file with this content here: at the same path, else in the cache folder."""
    with suppress(OSError):
        if read_bytes(path) == content:
            return path
    place = cache_dir() / "plugin_files" / hashlib.sha256(content).hexdigest()[:32] / Path(path).name
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=place.parent, delete=False) as temporary:
            temporary.write(content)
        os.replace(temporary.name, place)
    return str(place)
