"""Who may know whom: the map of the house in CONTRIBUTING.md, held against the imports in the code."""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

CONTRACTS = {"contracts", "trajectory", "errors", "opening"}
ALLOWED: dict[str, set[str]] = {
    "attribute_texts": set(),
    "errors": set(),
    "folders": set(),
    "devices": set(),
    "helper": set(),
    "kernels": {"folders", "opening"},
    "nearest": set(),
    "opening": {"errors"},
    "seeds": set(),
    "terminal": set(),
    "work": {"terminal"},
    "parquet": {"errors", "opening"},
    "models": {"errors", "opening", "work"},
    "trajectory": {"errors"},
    "contracts": {"trajectory", "errors", "opening"},
    "specs": set(),
    "hookspecs": {"specs"},
    "plugins": {"specs", "hookspecs", "folders", "nearest", *CONTRACTS},
    "config": {"health", "metrics", "nearest", "plugins", "specs", *CONTRACTS},
    "metrics": {"nearest", *CONTRACTS},
    "health": {"chat", "metrics", *CONTRACTS},
    "sandbox": {"errors"},
    "records": {"parquet", "work", *CONTRACTS},
    "engines": {"devices", "models", *CONTRACTS},
    "chat": CONTRACTS,
    "tools": {"chat", "metrics", "seeds", "plugins", *CONTRACTS},
    "rollout": {"chat", "metrics", "seeds", "tools", *CONTRACTS},
    "learning": {"attribute_texts", "devices", "kernels", "metrics", "models", "seeds", *CONTRACTS},
    "runs": {"config", "health", "parquet", "terminal", "work", "metrics", *CONTRACTS},
    "assembly": {
        "chat",
        "config",
        "folders",
        "kernels",
        "learning",
        "models",
        "plugins",
        "rollout",
        "runs",
        "seeds",
        "tools",
        "work",
        *CONTRACTS,
    },
    "evaluation": {"assembly", "metrics", "rollout", "runs", "work", *CONTRACTS},
    "training": {
        "assembly",
        "config",
        "evaluation",
        "health",
        "learning",
        "metrics",
        "plugins",
        "rollout",
        "runs",
        "seeds",
        "terminal",
        "work",
        *CONTRACTS,
    },
}
"""Rooms of the core, and what each may import at run time beside itself."""

OWN_FILES = {
    "plugins/agent_r1_ray/left_behind.py": "the list of processes in /proc",
    "agent_r1_core/kernels/functions.py": "/proc",
    "agent_r1_core/tools/isolated_keeper.py": "/proc",
    "agent_r1_core/tools/threads.py": "/proc",
    "agent_r1_cli/main.py": "/proc, /dev/null",
    "agent_r1_cli/new_command.py": "the templates of this package",
    "plugins/agent_r1_mcp/toolset.py": "a file without a name that servers print to",
    "plugins/agent_r1_harbor/places.py": "archives in memory",
    "plugins/agent_r1_python/python_guest.py": "/dev/null",
    "plugins/agent_r1_python/python_tool.py": "the guest of this package",
    "agent_r1_core/sandbox/backends.py": "how guests begin, of this package",
    "agent_r1_core/sandbox/shell.py": "the guest of this package",
    "agent_r1_core/sandbox/shell_guest.py": "files within a sandbox",
    "plugins/agent_r1_gateway/process.py": "the task in a folder of its own",
    "plugins/agent_r1_viewer/exported_page.py": "the page of this package",
    "plugins/agent_r1_viewer/front_page.py": "the page of this package",
    "plugins/agent_r1_viewer/app.py": "the page of this package",
    "agent_r1_core/runs/files.py": "the folder that is being written, to flush it",
    "plugins/agent_r1_transformers/cache.py": "/proc",
    "plugins/agent_r1_wiki_search/backends.py": "a lock in the user's cache",
    "plugins/agent_r1_wiki_search/building.py": "the manifest of an index that is being written",
    "plugins/agent_r1_wiki_search/passages.py": "a new file of an index that is being written",
}
"""Files that open something without `opening.py`, and what."""
READ_BY_LIBRARIES = {
    "BM25.load", "ParquetFile", "copyfile", "from_file", "from_pretrained", "load_file", "memmap", "memory_map",
    "read_index", "read_table", "safe_open", "tantivy.Index", "torch.load", "HuggingFaceStorageReader",
}  # fmt: skip
"""Calls by which libraries open files themselves."""

CLI = {
    "assembly", "metrics", "health", "training", "evaluation", "rollout", "tools", "runs", "config",
    "plugins", "chat", "folders", "nearest", "seeds", "terminal", "work", *CONTRACTS
}  # fmt: skip
PLUGINS = {"chat", "devices", "engines", "helper", "kernels", "learning", "sandbox"}
"""Beside the public names of agent_r1_core, errors and contracts."""
ROOMS_OF = {
    "agent_r1_gateway": {"assembly", "plugins", "rollout", "testing", "training"},
    "agent_r1_ray": {"assembly", "config", "folders", "metrics", "plugins", "rollout", "runs", "tools", "work"},
    "agent_r1_league": {"evaluation", "plugins", "runs", "seeds", "testing", "work"},
    "agent_r1_paper": {"config", "evaluation", "metrics", "runs", "terminal", "training", "work"},
    "agent_r1_replay": {"assembly", "rollout", "runs", "tools", "training", "work"},
    "agent_r1_viewer": {"folders", "health", "metrics", "parquet", "runs", "terminal"},
}
"""Shipped plugins that may import more, by folder: they work with whole runs."""
WITH_COMMANDS = {"agent_r1_gateway", "agent_r1_league", "agent_r1_paper", "agent_r1_replay", "agent_r1_viewer"}
"""Those of them that may import the command line."""


@cache
def tree_of(file: Path) -> ast.Module:
    """A file, parsed."""
    return ast.parse(file.read_text(encoding="utf-8"))


def shipped(root: Path) -> Iterator[Path]:
    """The files of the core, the command line and the plugins."""
    return (file for folder in ("agent_r1_core", "agent_r1_cli", "plugins") for file in (root / folder).rglob("*.py"))


@cache
def run_time_imports(file: Path) -> set[str]:
    """Modules that a file imports at run time, also inside functions; what stands under TYPE_CHECKING is free."""
    tree, found = tree_of(file), set[str]()
    free = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for child in node.body
        for inner in ast.walk(child)
    }
    for node in ast.walk(tree):
        if id(node) in free:
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return found


def rooms(files: Iterator[Path]) -> Iterator[tuple[Path, str]]:
    """The rooms of the core that files import: `agent_r1_core.learning.batch` is `learning`."""
    for file in files:
        for module in run_time_imports(file):
            package, _, rest = module.partition(".")
            if package == "agent_r1_core" and rest:
                yield file, rest.split(".")[0]


def test_every_room_of_the_core_imports_only_what_it_may(root: Path) -> None:
    core = root / "agent_r1_core"
    strangers = []
    for room, allowed in ALLOWED.items():
        home = core / room
        files = home.rglob("*.py") if home.is_dir() else iter([core / f"{room}.py"])
        strangers += [
            f"{file.relative_to(root)} imports {found}" for file, found in rooms(files) if found not in {room, *allowed}
        ]
    assert strangers == []


def test_ray_stays_in_its_room(root: Path) -> None:
    """So that no other command, and no algorithm, tool or reward, knows where it runs."""
    using = {file.parent for file in shipped(root) if "ray" in {one.split(".")[0] for one in run_time_imports(file)}}
    assert using == {root / "plugins" / "agent_r1_ray"}


def test_files_are_opened_in_one_place(root: Path) -> None:
    """So that none is a pipe, a device, or longer than is read (LAW 13)."""
    opening = {
        str(file.relative_to(root))
        for file in shipped(root)
        if file != root / "agent_r1_core" / "opening.py" and any(map(_opens, _calls(tree_of(file))))
    }
    assert opening == OWN_FILES.keys()


def test_what_libraries_open_is_checked_before(root: Path) -> None:
    """In the same function."""
    unchecked = [
        f"{file.relative_to(root)}: {function.name} calls {ast.unparse(call.func)}"
        for file in shipped(root)
        for function in ast.walk(tree_of(file))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for call in _calls(function)
        if any(f".{ast.unparse(call.func)}".endswith(f".{name}") for name in READ_BY_LIBRARIES)
        and not any(ast.unparse(other.func) in ("check_folder", "check_regular") for other in _calls(function))
    ]
    assert unchecked == []


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _opens(call: ast.Call) -> bool:
    """Whether a call opens a file by itself."""
    name = ast.unparse(call.func)
    if name in ("open", "io.open", "os.open") or name.endswith((".read_text", ".read_bytes")):
        return True
    mode = call.args[0] if call.args else None
    named = any(keyword.arg in ("mode", "encoding", "buffering", "newline") for keyword in call.keywords)
    return name.endswith(".open") and (named or (isinstance(mode, ast.Constant) and isinstance(mode.value, str)))


def test_the_map_names_every_room(root: Path) -> None:
    core = root / "agent_r1_core"
    found = {path.stem for path in core.glob("*.py")} | {path.parent.name for path in core.glob("*/*.py")}
    assert found - {"__init__"} == {*ALLOWED, "testing"}


def test_contracts_and_the_loader_know_no_torch(root: Path) -> None:
    heavy = {"torch", "transformers", "numpy", "pyarrow"}
    for room in ("contracts", "plugins", "config"):
        for file in (root / "agent_r1_core" / room).rglob("*.py"):
            assert not heavy & {module.split(".")[0] for module in run_time_imports(file)}, file


def test_the_command_line_knows_no_internals_of_learning(root: Path) -> None:
    assert {found for _, found in rooms((root / "agent_r1_cli").rglob("*.py"))} <= CLI


def test_plugins_know_public_names_and_never_each_other(root: Path) -> None:
    """Those that show runs know what runs hold, too, and where they are a command, how commands speak."""
    folders = {path.name for path in (root / "plugins").iterdir() if path.is_dir()}
    for folder in folders:
        files = list((root / "plugins" / folder).rglob("*.py"))
        for file in files:
            others = {module.split(".")[0] for module in run_time_imports(file)} & {*folders, "agent_r1_cli"} - {folder}
            assert not others or (folder in WITH_COMMANDS and others == {"agent_r1_cli"}), f"{file} imports {others}"
        found = {room for _, room in rooms(iter(files))}
        assert found <= {*CONTRACTS, *PLUGINS, *ROOMS_OF.get(folder, ())}, folder


def test_the_kit_for_gateways_needs_pytest_alone(root: Path) -> None:
    """So that it runs beside any other gateway, and pytest starts no later where it is installed."""
    kit = root / "plugins" / "agent_r1_gateway_kit"
    found = {module.split(".")[0] for file in kit.rglob("*.py") for module in run_time_imports(file)}
    assert found - sys.stdlib_module_names == {"agent_r1_gateway_kit", "pytest"}
    assert {module.split(".")[0] for module in run_time_imports(kit / "pytest_plugin.py")} <= sys.stdlib_module_names


def test_the_core_imports_nothing_above_it_and_the_command_line_no_plugin(root: Path) -> None:
    for package, below in (("agent_r1_core", ()), ("agent_r1_cli", ("agent_r1_core",))):
        for file in (root / package).rglob("*.py"):
            found = {module.split(".")[0] for module in run_time_imports(file)}
            assert {name for name in found if name.startswith("agent_r1_")} <= {package, *below}, file


def test_no_module_imports_itself_by_a_detour(root: Path) -> None:
    """Imports that only annotations need count, too."""
    files = {
        ".".join(file.relative_to(base).with_suffix("").parts).removesuffix(".__init__"): file
        for base in (root, root / "plugins")
        for folder in ((base / name for name in ("agent_r1_core", "agent_r1_cli")) if base == root else base.iterdir())
        for file in folder.rglob("*.py")
    }
    waiting = {name: set(_imported(file, files)) - {name} for name, file in files.items()}
    while free := [name for name, others in waiting.items() if not others & waiting.keys()]:
        for name in free:
            del waiting[name]
    while unused := waiting.keys() - {other for others in waiting.values() for other in others}:
        for name in unused:
            del waiting[name]
    assert waiting == {}


def _imported(file: Path, modules: Collection[str]) -> Iterator[str]:
    """The modules among these that a file names in its imports."""
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules else node.module
