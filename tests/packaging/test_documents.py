"""Every command and every file that README, CONTRIBUTING and the guides show works as it is written."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from warm_python import SITE

from agent_r1_core.config import load_config
from agent_r1_core.plugins import Registry

BLOCK = re.compile(r"(?:<!-- file: (?P<file>\S+) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)```", re.DOTALL)
MAKE_TARGET = re.compile(r"^([\w-]+)[\w -]*:", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block of a document."""

    language: str
    text: str
    file: str | None


def blocks(document: Path) -> Iterator[Block]:
    """The fenced blocks in their order."""
    for found in BLOCK.finditer(document.read_text(encoding="utf-8")):
        yield Block(found["language"], found["text"], found["file"])


def commands(block: Block) -> list[str]:
    """The commands of a console block, comments cut off."""
    lines = (line for line in block.text.splitlines() if line.startswith("$ "))
    return [line[2:].split("  #")[0].strip() for line in lines]


@pytest.fixture
def shell(with_agent_r1, warm: Path, tmp_path: Path):
    """Runs a command line as a reader would, in an activated environment and an empty folder; its Python is warm."""
    folder, warmed = tmp_path / "reader", tmp_path / "warmed"
    folder.mkdir()
    warmed.mkdir()
    python, scripts = with_agent_r1.python, with_agent_r1.folder / "bin"
    program = f"#!{python}\nfrom agent_r1_cli.main import main\nif __name__ == '__main__':\n    main()\n"
    (scripts / "agent-r1").write_text(program)
    offline = "--no-deps --no-build-isolation --no-index --quiet --disable-pip-version-check"
    (scripts / "pip").write_text(f'#!/bin/sh\nexec {sys.executable} -m pip --python {python} "$@" {offline}\n')
    (warmed / "agent-r1").write_text(f'#!/bin/sh\nexec {warm} {scripts / "agent-r1"} "$@"\n')
    (warmed / "python").write_text(f'#!/bin/sh\nexec {warm} "$@"\n')
    for program in (scripts / "agent-r1", scripts / "pip", warmed / "agent-r1", warmed / "python"):
        program.chmod(0o755)
    environment = {**os.environ, "AGENT_R1_CACHE": str(tmp_path), SITE: str(with_agent_r1.site_packages)}
    environment["PATH"] = os.pathsep.join([str(warmed), str(scripts), os.environ["PATH"]])

    def run(line: str) -> None:
        done = subprocess.run(["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"$ {line}\nexited with {done.returncode}:\n{done.stdout}\n{done.stderr}"

    def open_page(line: str) -> None:
        """Run a command that serves a page until Ctrl-C."""
        quiet = {name: value for name, value in environment.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
        served = subprocess.Popen(line.split(), cwd=folder, env=quiet, stdout=subprocess.PIPE, text=True)
        try:
            address = re.search(r"http://\S+", served.stdout.readline())
            assert address is not None, f"$ {line}\nsays no address"
            with urllib.request.urlopen(address[0].partition("#")[0]) as page:
                assert b"<title>agent-r1</title>" in page.read()
            served.send_signal(signal.SIGINT)
            assert served.wait() == 0, f"$ {line}\ndoes not end at Ctrl-C"
        finally:
            served.kill()

    run.folder, run.open_page = folder, open_page  # type: ignore[attr-defined]
    return run


GUIDES = "algorithms components demonstrations evaluation judges league paper questions recipes replay runs search"
DOCUMENTS = ["README.md", *(f"docs/{name}.md" for name in f"{GUIDES} tools viewer worlds".split())]
"""Those whose commands are run."""


@pytest.mark.slow
@pytest.mark.parametrize("document", DOCUMENTS)
def test_everything_that_a_document_shows_runs(shell, root: Path, document: str) -> None:
    for block in blocks(root / document):
        if block.file is not None:
            (shell.folder / block.file).write_text(block.text)
        elif block.language == "python":
            (shell.folder / "snippet.py").write_text(block.text)
            shell("python snippet.py")
        elif block.language == "console":
            for line in commands(block):
                if line.startswith("agent-r1 view") and "--export" not in line:
                    shell.open_page(line)
                elif not line.startswith("make"):
                    shell(line)


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "docs/gpu.md", "docs/models.md"])
def test_every_make_target_that_a_document_names_exists(document: str, root: Path) -> None:
    text = (root / document).read_text(encoding="utf-8")
    named = {target for line in re.findall(r"(?:`|\$ |; )make ([a-z0-9 -]+)", text) for target in line.split()}
    assert named
    assert named <= set(MAKE_TARGET.findall((root / "Makefile").read_text(encoding="utf-8")))


def test_every_page_picture_and_heading_that_a_document_links_to_is_there(root: Path) -> None:
    documents = [*root.glob("*.md"), *root.glob("docs/**/*.md"), root / "benchmarks" / "README.md"]
    assert len(documents) > 20
    assert [f"{document.name}: {link}" for document in documents for link in _dead_links(document)] == []


def _dead_links(document: Path) -> Iterator[str]:
    for link in re.findall(r"\]\(([^):\s]*)\)", document.read_text(encoding="utf-8")):
        file, _, anchor = link.partition("#")
        target = document.parent / file if file else document
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            yield link


def _anchors(document: Path) -> set[str]:
    """The anchors of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_table_of_algorithms_has_a_row_of_each_with_the_options_that_its_name_sets(root: Path) -> None:
    table = (root / "docs" / "algorithms.md").read_text(encoding="utf-8").partition("\n\nA group of one")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:3] == "| `"]
    rows = {row[0].strip("`"): yaml.safe_load(f"{{{row[1].strip('`')}}}") for row in cells}
    registry = Registry.discover()
    own = [one for one in registry.components("algorithm") if one.alias_of is None]
    assert rows == {one.name: registry.load("algorithm", one.name).preset_config for one in own}
    assert all(len(row) == 6 and all(row[2:]) for row in cells)


def test_the_recipe_for_a_real_model_resolves(root: Path, tmp_path: Path) -> None:
    recipe = next(one for one in blocks(root / "docs" / "gpu.md") if one.language == "yaml" and one.file is None)
    (tmp_path / "real.yaml").write_text(recipe.text)
    resolved = load_config(tmp_path / "real.yaml")
    assert resolved.config.env.config.system_prompt is None, "a real model needs the default system prompt"
