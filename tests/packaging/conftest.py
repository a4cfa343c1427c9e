"""Fresh virtual environments that borrow the libraries of this one, and packages built from the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Environment:
    """A virtual environment."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def site_packages(self) -> Path:
        return Path(sysconfig.get_path("purelib", vars={"base": str(self.folder)}))

    def install(self, *arguments: object) -> None:
        """pip install, without network: what is needed is borrowed."""
        options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check"]
        run(sys.executable, "-m", "pip", "--python", self.python, "install", *options, *arguments)

    def agent_r1(self, *arguments: object, cwd: Path | None = None) -> str:
        """Run the command line of this environment, from outside the checkout; returns stdout."""
        code = "from agent_r1_cli.main import main; main()"
        return run(self.python, "-P", "-c", code, *arguments, cwd=cwd or self.folder)


def run(*call: object, cwd: Path | None = None) -> str:
    """Run a command to its success; returns stdout."""
    kept = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "AGENT_R1_DISABLE_PLUGINS")}
    done = subprocess.run([str(part) for part in call], capture_output=True, text=True, cwd=cwd, env=kept)
    assert done.returncode == 0, f"{call} exited with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def make_environment(folder: Path, with_agent_r1: bool) -> Environment:
    """An environment that sees the libraries of this one; agent-r1 itself only where asked for.

    Lines of a .pth file that are paths are added as they are, without the .pth files that lie there, such as that of an
    editable install; `site.addsitedir` reads those, too.
    """
    venv.create(folder, with_pip=False)
    environment = Environment(folder)
    borrowed = sysconfig.get_path("purelib")
    line = f"import site; site.addsitedir({borrowed!r})" if with_agent_r1 else borrowed
    (environment.site_packages / "borrowed.pth").write_text(line + "\n")
    return environment


@pytest.fixture
def with_agent_r1(tmp_path: Path) -> Environment:
    """An environment in which agent-r1 is installed just as it is here."""
    return make_environment(tmp_path / "environment", with_agent_r1=True)


@pytest.fixture
def without_agent_r1(tmp_path: Path) -> Environment:
    """An environment with agent-r1's dependencies alone."""
    return make_environment(tmp_path / "environment", with_agent_r1=False)


@pytest.fixture(scope="session")
def built(root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The sdist, the wheel made from it (`wheel`), and the wheel made from the checkout (`direct`)."""
    folders = {name: tmp_path_factory.mktemp(name) for name in ("through_sdist", "direct")}
    build = [sys.executable, "-m", "build", "--no-isolation"]
    run(*build, "--outdir", folders["through_sdist"], root)
    run(*build, "--wheel", "--outdir", folders["direct"], root)
    return {
        "sdist": next(folders["through_sdist"].glob("*.tar.gz")),
        "wheel": next(folders["through_sdist"].glob("*.whl")),
        "direct": next(folders["direct"].glob("*.whl")),
    }
