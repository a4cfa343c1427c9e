"""Opens an index folder as a Searcher."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent_r1_core import ConfigError
from agent_r1_wiki_search.building import PASSAGES
from agent_r1_wiki_search.manifest import Manifest
from agent_r1_wiki_search.passages import Passages
from agent_r1_wiki_search.searcher import Searcher
from agent_r1_wiki_search.tantivy_part import TantivySearcher


def open_folder(folder: Path, backend: str) -> Searcher:
    """The index in a folder, searched in one of the ways that it was built for.

    Raises:
        ConfigError: it was not built for that.
        TaskError: there is no index, or it is damaged.
    """
    manifest = Manifest.read(folder)
    check_parts(manifest, folder, backend)
    passages = Passages(folder / PASSAGES)
    return TantivySearcher(folder / "tantivy", passages, manifest.parts["tantivy"], facts_of(manifest))


def check_parts(manifest: Manifest, folder: Path, backend: str) -> None:
    """Refuse a way to search that the index was not built for."""
    needed = {"tantivy": {"tantivy"}}.get(backend, set())
    if not needed or not needed <= set(manifest.parts):
        built = " and ".join(sorted(manifest.parts))
        raise ConfigError(f"the index {folder} was built for {built}, not for {backend}; set backend={built}")


def facts_of(manifest: Manifest) -> dict[str, Any]:
    """What reports say of the index."""
    return {"passages": manifest.passages, "corpus": manifest.corpus, "hash": manifest.hash}
