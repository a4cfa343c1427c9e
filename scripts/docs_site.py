"""What `make docs` adds to the guides: the documents outside docs/, and a reference of every public name.

mkdocs calls these functions (`hooks` in mkdocs.yml). Links between documents are written as GitHub reads them; here
they become those of the site, and a link to a file that the site lacks becomes its text.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from posixpath import join, normpath, relpath
from typing import Any

ROOT = Path(__file__).parents[1]
ADDED = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "benchmarks/README.md": "benchmarks.md",
}
"""Documents outside docs/, and their pages."""
REFERENCE = "reference.md"
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^):#\s]+)(#[^)\s]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that docs/ lacks."""
    from mkdocs.structure.files import File

    for source, page in ADDED.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    files.append(File.generated(config, REFERENCE, content=reference()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Turn links between files of the checkout into links between pages."""
    uri = page.file.src_uri
    source = next((source for source, made in ADDED.items() if made == uri), f"docs/{uri}")

    def link(found: re.Match[str]) -> str:
        target = normpath(join(source, "..", found[3]))
        there = ADDED.get(target, target.removeprefix("docs/"))
        if files.get_file_from_path(there) is None:
            return found[2]
        return f"{found[1]}[{found[2]}]({relpath(there, join(uri, '..'))}{found[4] or ''})"

    return markdown if uri == REFERENCE else _LINK.sub(link, markdown)


def reference() -> str:
    """The page of the names that `agent_r1_core` exports, by the module that has them, and of what notebooks show."""
    import agent_r1_core

    names = defaultdict(list)
    for name, home in agent_r1_core._HOMES.items():
        names[home].append(name)
    parts = ["# Reference\n\nEvery name that `from agent_r1_core import ...` gives.\n"]
    for home, members in sorted(names.items()):
        parts.append(f"## {home}\n")
        parts += [f"::: agent_r1_core.{home}.{name}\n" for name in sorted(members)]
    parts.append("## In a notebook\n\nFrom `agent_r1_viewer`.\n")
    parts += [f"::: agent_r1_viewer.{name}\n" for name in ("plot", "show")]
    return "\n".join(parts)
