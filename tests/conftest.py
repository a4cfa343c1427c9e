"""Fixtures that every test may use."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PLUGIN_HEAD = (
    "from __future__ import annotations\n"
    "from agent_r1_core import ComponentConfig, Preset, RewardFn, RewardSpec, Tool, ToolArguments, ToolSpec\n"
    "from agent_r1_core import hookimpl, tool\n"
)
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
if "PYTEST_XDIST_WORKER" in os.environ:  # the workers share the cores
    os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# No test cuts the power, and waiting for the disk costs runs a tenth of their time.
os.fsync = lambda descriptor: None
# A shell starts background jobs with SIGINT ignored, and tests that interrupt runs would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where tests marked `gpu` run: a CPU shows that they are sound, and proves nothing of a GPU."""
    parser.addoption("--device", default="cuda", choices=["cpu", "cuda"], help="device of the tests marked gpu")


def mark_by_need(item: pytest.Item) -> None:
    """Three of the markers that keep a test out of `make test` follow from what it needs; `slow` and `installed` stand
    at the tests."""
    needs = {
        "browser": "browser" in getattr(item, "fixturenames", ()),
        "vllm": item.path.parent.name == "vllm_engine",
        "faults": item.path.name == "test_planted_faults.py",
    }
    for marker, needed in needs.items():
        if needed:
            item.add_marker(marker)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without a GPU leave out the tests that need one; where they were asked for (`-m gpu`) skip them and say why.

    Several workers begin with the longest files, so that none of them has one when the others end.
    """
    for item in items:
        mark_by_need(item)
    if hasattr(config, "workerinput"):
        slow = {item.path for item in items if item.get_closest_marker("slow")}
        early = ("yardstick", "recipes", "laws", "scripts")
        long = slow, {item.path for item in items if item.path.parent.name in early}
        items.sort(key=lambda item: tuple(item.path not in paths for paths in long))
    marked = [item for item in items if item.get_closest_marker("gpu") is not None]
    if not marked or config.getoption("--device") == "cpu":
        return
    import torch

    if torch.cuda.is_available():
        return
    if "gpu" in config.getoption("markexpr"):
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="torch sees no CUDA device; --device cpu runs it on the CPU"))
    else:
        items[:] = [item for item in items if item not in marked]
        config.hook.pytest_deselected(items=marked)


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that is a coroutine has an event loop of its own, and two minutes."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**given), 120))
    return True


@pytest.fixture
def gpu(request: pytest.FixtureRequest) -> Iterator[str]:
    """The device of a test marked `gpu`. All tests together compile for more shapes than a run does."""
    import torch._dynamo

    with torch._dynamo.config.patch(recompile_limit=64):
        yield str(request.config.getoption("--device"))


@pytest.fixture(scope="session", autouse=True)
def _folders(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests share a cache folder of their own. Kernels stay where they are, so that no session compiles them anew."""
    from agent_r1_core.folders import cache_dir

    kernels, cache = cache_dir() / "kernels", tmp_path_factory.getbasetemp() / "cache"
    kernels.mkdir(parents=True, exist_ok=True)
    cache.mkdir()
    (cache / "kernels").symlink_to(kernels)
    os.environ["AGENT_R1_CACHE"] = str(cache)
    os.environ["AGENT_R1_STATE"] = str(tmp_path_factory.getbasetemp() / "state")


@pytest.fixture(autouse=True)
def _nothing_trusted_yet(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test runs a plugin file because an earlier one did."""
    monkeypatch.setenv("AGENT_R1_STATE", str(tmp_path_factory.mktemp("state")))


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture
def agent_r1(monkeypatch: pytest.MonkeyPatch) -> Callable[..., object]:
    """`agent_r1("plugins", "list")` runs a command here; the result has `exit_code`, `stdout` and `stderr`."""
    from typer.testing import CliRunner

    from agent_r1_cli.main import build_app

    monkeypatch.delenv("AGENT_R1_DEBUG", raising=False)
    monkeypatch.delenv("AGENT_R1_DISABLE_PLUGINS", raising=False)
    monkeypatch.setenv("COLUMNS", "120")

    def invoke(*arguments: object, **options: object) -> object:
        return CliRunner().invoke(build_app(), [str(argument) for argument in arguments], **options)

    return invoke


@pytest.fixture
def local_plugin(tmp_path: Path) -> Callable[..., Path]:
    """Writes a plugin file: `local_plugin(body, name="mine")`; the imports and the API number come with it."""

    def write(body: str, name: str = "mine", api: str = "AGENT_R1_PLUGIN_API = 1") -> Path:
        path = tmp_path / f"{name}.py"
        path.write_text(PLUGIN_HEAD + api + "\n" + textwrap.dedent(body))
        return path

    return write


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Installs a distribution with a plugin per keyword: `install("some-tools", words="@hookimpl ...")`.

    Returns the folder of its modules, which are named `some_tools_words`.
    """
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))

    def install(distribution: str, **plugins: str) -> Path:
        stem = distribution.replace("-", "_")
        info = site / f"{stem}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        points = "".join(f"{name} = {stem}_{name}\n" for name in plugins)
        (info / "entry_points.txt").write_text(f"[agent_r1]\n{points}")
        for name, body in plugins.items():
            (site / f"{stem}_{name}.py").write_text(PLUGIN_HEAD + "AGENT_R1_PLUGIN_API = 1\n" + textwrap.dedent(body))
        return site

    return install


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A command that takes what `python` takes and, on Linux, has imported the large libraries already."""
    from warm_python import warm_python

    if sys.platform != "linux":
        yield Path(sys.executable)
        return
    with warm_python(tmp_path_factory.mktemp("warm")) as command:
        yield command


@pytest.fixture(scope="session")
def noise(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a random model of a few thousand parameters."""
    from agent_r1_core.testing import tiny_model_folder

    return tiny_model_folder(tmp_path_factory.mktemp("models") / "noise")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the small runs of a file, with their model in `model`."""
    from agent_r1_core.testing import tiny_model_folder

    path = tmp_path_factory.mktemp("runs")
    tiny_model_folder(path / "model")
    return path


@pytest.fixture
def kernels_here() -> None:
    """The compiled kernels; a machine without a C++ compiler skips the test, and CI fails it."""
    from agent_r1_core import kernels

    if kernels.kernels() is None:
        reason = f"{kernels.describe()}; install a C++ compiler, or name one in CXX"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture
def plain_formulas(monkeypatch: pytest.MonkeyPatch, kernels_here: None) -> Iterator[None]:
    """What torch compiles for a GPU stays uncompiled, so that a CPU computes it, and its own kernel takes the place of
    Triton's."""
    from agent_r1_core.kernels import compiled, kernels

    made = (compiled._norm, compiled._add_norm, compiled._silu_mul, compiled._rotary)
    for formula in made:
        formula.cache_clear()
    monkeypatch.setattr(compiled, "_compile", lambda formula: formula)
    monkeypatch.setattr(compiled.Compiled, "attend", lambda self, *given: kernels().attend(*given))
    yield
    for formula in made:
        formula.cache_clear()


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of small real data sets; its absence skips a test, and fails it in CI."""
    folder = Path(os.environ.get("AGENT_R1_REAL_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        reason = f"no real data at {folder}; set AGENT_R1_REAL_DATA to the folder that holds it"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return folder
