"""Turns a recipe and overrides into a resolved configuration: finds, merges, validates, checks, completes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as copy_with
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from agent_r1_core.config.checks import Setup, check_setup
from agent_r1_core.config.components import ResolvedBlock, check_names, resolve_blocks, run_config
from agent_r1_core.config.draft import DEFAULT, Draft, Source, leaves
from agent_r1_core.config.models import RunConfig
from agent_r1_core.config.overrides import Override, apply_overrides, parse_key
from agent_r1_core.config.problems import MOST_PROBLEMS, Problems
from agent_r1_core.config.recipe import plugin_path, read_layers
from agent_r1_core.config.reward_checks import check_rewards
from agent_r1_core.config.training_checks import check_training
from agent_r1_core.config.yaml_text import dump
from agent_r1_core.errors import ComponentLoadError, TaskError, UntrustedPlugin
from agent_r1_core.nearest import nearest_key
from agent_r1_core.plugins.sources import Candidate
from agent_r1_core.plugins.trust import Trust, remember, shown
from agent_r1_core.plugins.validation import Key, key_text

if TYPE_CHECKING:
    from agent_r1_core.contracts.blocks import ComponentBlock
    from agent_r1_core.plugins import Registry

DEFAULT_RECIPE = "default"


@dataclass(frozen=True)
class ResolvedConfig:
    """A valid run configuration with every default written out."""

    config: RunConfig
    registry: Registry
    """The registry of its components; it includes the recipe's local plugins."""
    sources: Mapping[str, str]
    """The keys that somebody set, with their sources: `training.lr` -> `override 'training.lr=1e-6'`."""
    recipe: str
    """The recipe's name: the stem of its file."""
    warnings: tuple[str, ...] = ()
    """Sentences to read before a long run."""
    notes: tuple[str, ...] = ()
    """Further ones, for a dry run."""
    unavailable: Mapping[str, str] = field(default_factory=dict)
    """Keys of blocks whose components this machine cannot run, with a sentence each."""
    missing: tuple[str, ...] = ()
    """Sentences about files and folders that are to be read and are not there."""
    run: Path | None = None
    """The run whose configuration this is, if a run was given instead of a recipe."""

    def dump(self) -> dict[str, Any]:
        """Plain values for a run's `config.yaml`; `load_config` reads them back as the same configuration."""
        return {**self.config.model_dump(mode="json"), "sources": dict(self.sources)}

    def yaml(self) -> str:
        return dump(self.dump())

    def make(self, kind: str, block: ComponentBlock, **arguments: Any) -> Any:
        """The component that a block of this configuration names.

        Args:
            arguments: further arguments of its constructor.

        Raises:
            ComponentLoadError: its constructor raises.
        """
        return self.registry.make(kind, block.name, block.config, **arguments)

    def check_available(self, unused: Collection[str] = ()) -> None:
        """Check that this machine can run the components.

        Args:
            unused: keys of blocks and lists of blocks that will not be used.

        Raises:
            ComponentLoadError: it cannot run some of them; one line each.
        """
        used = [text for key, text in self.unavailable.items() if key.partition("[")[0] not in unused]
        if used:
            raise ComponentLoadError("\n".join(used))

    def check_data(self) -> None:
        """Raise what task sources and tools would raise about their data, as far as that shows within seconds.

        Raises:
            TaskError: files or folders are not there that the components will read, one line each; or what one
                holds is not what a task source or a tool reads.
            ComponentLoadError: the constructor of one raises.
        """
        if self.missing:
            raise TaskError("\n".join(self.missing))
        tasks = self.config.tasks
        for block in (*filter(None, tasks.eval_sets.values()), *tasks.train_sets.values()):  # as they load
            self.make("tasks", block).check_data()
        for tool in self.config.tools:
            self.make("tool", tool).check_data()

    def replace(self, values: Mapping[str, Any], source: str = "chosen at the start of the run") -> ResolvedConfig:
        """A copy with some keys set, such as the value that replaces `threads: auto`.

        Raises:
            ConfigError: a key is unknown, or its value does not fit.
        """
        draft = Draft()
        draft.merge(self.config.model_dump(mode="json"), DEFAULT)
        problems = Problems(draft)
        for key, value in values.items():
            override = Override(key, parse_key(key) or (key,), value)
            for text in draft.merge(override.layer, Source(source)):
                problems.add_text(text)
        config, _ = _validated(draft, self.registry, problems)
        return copy_with(self, config=config, sources={**self.sources, **dict.fromkeys(values, source)})


def load_config(
    recipe: str | Path | None = None,
    overrides: Sequence[str] = (),
    *,
    plugins: Sequence[str | Path] = (),
    disabled: Collection[str] = (),
    folders: Sequence[Path] | None = None,
    training: bool = True,
    trust: Trust | None = None,
    recorded: Sequence[Mapping[str, Any]] = (),
) -> ResolvedConfig:
    """Load a recipe (a name, a path, a run's `config.yaml`), apply overrides, and resolve everything.

    Args:
        recipe: None is the recipe `default`.
        overrides: `key=value` texts, see overrides.py.
        plugins: plugin files in addition to the recipe's.
        disabled: names of plugins not to load.
        folders: the folders of recipes with names; None: those of the package.
        training: False if nothing is trained; any sampling options are then allowed.
        trust: which plugin files and programs that the recipe names may run; None: those that ran here before.
        recorded: the plugins of the run whose configuration this is (its plugins.json).

    Raises:
        ConfigError: every problem on its own line, with key, source and what is allowed.
        PluginError: the same, when all problems are in components or plugins.
        UntrustedPlugin: the recipe names a plugin file or a program that may not run; neither has been imported.
    """
    layers = read_layers(DEFAULT_RECIPE if recipe is None else recipe, folders)
    draft = Draft()
    draft.merge(RunConfig().model_dump(mode="json"), DEFAULT)
    for layer in layers:
        draft.merge(layer.values, layer.source)
    problems = Problems(draft)
    misapplied = apply_overrides(draft, overrides)
    _add_plugins(draft, plugins)
    registry = _discover(draft, disabled, problems, trust or Trust(), recorded)
    problems.raise_any()
    for text in misapplied:
        problems.add_text(text)
    _check_sections(draft, registry, problems)
    config, blocks = _validated(draft, registry, problems)
    _admit_programs(blocks, draft, problems, trust or Trust())
    setup = Setup(config, blocks, registry, problems, training)
    check_setup(setup)
    check_rewards(setup)
    if training:
        check_training(setup)
    problems.raise_any()
    stem = Path(layers[-1].file).stem
    warnings = (*setup.warnings, *registry.notes())
    said = (warnings, tuple(setup.notes), setup.unavailable, tuple(setup.missing))
    found = ((key, draft.source(key)) for key in leaves(draft.tree, ()))
    sources = {key_text(key): source.origin or source.text for key, source in found if source.user}
    return ResolvedConfig(config, registry, sources, stem, *said)


def _check_sections(draft: Draft, registry: Registry, problems: Problems) -> None:
    """Raise problems of sections and names before importing components, which takes seconds.

    An unknown key that resembles no known key must wait for the components: it may resemble one of their options.
    """
    valid = check_names(draft.tree, registry, problems)
    try:
        run_config(draft, [])
    except ValidationError as error:
        unknown = [item["loc"] for item in error.errors() if item["type"] == "extra_forbidden"]
        if any(nearest_key(key_text(key), valid) is None for key in unknown[:MOST_PROBLEMS]):
            return
        problems.add_validation(error, draft.tree, (), valid)
    problems.raise_any()


def _validated(draft: Draft, registry: Registry, problems: Problems) -> tuple[RunConfig, list[ResolvedBlock]]:
    """Validate sections and components; raise all problems found so far."""
    blocks, valid = resolve_blocks(draft, registry, problems)
    try:
        config = run_config(draft, blocks)
    except ValidationError as error:
        problems.add_validation(error, draft.tree, (), valid)
    problems.raise_any()
    return config, blocks


def _add_plugins(draft: Draft, files: Sequence[str | Path]) -> None:
    """Make plugin files absolute, and append those of the command line. A run's copy of a recipe is elsewhere."""
    named = draft.tree["plugins"]
    if not isinstance(named, list) or not all(isinstance(entry, str) for entry in named):
        return
    folders = [draft.source(("plugins", index)).folder or Path.cwd() for index in range(len(named))]
    absolute = [plugin_path(entry, folder) for entry, folder in zip(named, folders, strict=True)]
    for file in files:
        path = plugin_path(str(file), Path.cwd())
        if path not in absolute:
            absolute.append(path)
        draft.sources.pop(("plugins",), None)
        draft.sources["plugins", absolute.index(path)] = Source(f"-p {file}", override=True)
    draft.tree["plugins"] = absolute


def _admit_programs(blocks: Sequence[ResolvedBlock], draft: Draft, problems: Problems, trust: Trust) -> None:
    """Refuse programs that components would start and that are not trusted."""
    named = {
        Candidate("", "", text, content=text.encode()): (*block.key, option)
        for block in blocks
        for option, text in block.cls.programs(block.config).items()
    }
    _admit(named, "program", draft, problems, trust)


def _admit(named: Mapping[Candidate, Key], what: str, draft: Draft, problems: Problems, trust: Trust) -> None:
    """Refuse what a recipe or run names and is not trusted; what the command line names always is."""
    chosen = [one for one, key in named.items() if draft.source(key).override]
    remember(chosen)
    for one in trust.refused([one for one in named if one not in chosen], what):
        text = f"names a {what} that did not run here before, {shown(one)}; read it, then add --trust"
        problems.add(named[one], text, UntrustedPlugin)
    problems.raise_any()


def _discover(
    draft: Draft, disabled: Collection[str], problems: Problems, trust: Trust, recorded: Sequence[Mapping[str, Any]]
) -> Registry:
    """Find plugins; every file that is named must exist, be trusted and load."""
    from agent_r1_core.plugins import PluginStatus, Registry

    named = draft.tree["plugins"]
    files: list[str] = named if isinstance(named, list) and all(isinstance(file, str) for file in named) else []
    existing = []
    for index, file in enumerate(files):
        if Path(file).is_file():
            existing.append(file)
        else:
            problems.add(("plugins", index), f"names no file: there is nothing at {file}; correct the path")

    def admit(found: Sequence[Candidate]) -> None:
        keys = {file: ("plugins", files.index(file.value)) for file in found}
        _admit(keys, "plugin file", draft, problems, trust)

    registry = Registry.discover(existing, disabled, recorded=recorded, admit=admit)
    broken = (PluginStatus.FAILED, PluginStatus.INCOMPATIBLE, PluginStatus.CONFLICTING)
    for record in registry.plugins:
        if record.value in existing and record.status in broken:
            text = f"names the plugin {record.name}, which is {record.status}: {record.reason}"
            problems.add(("plugins", files.index(record.value)), text, ComponentLoadError)
    return registry
