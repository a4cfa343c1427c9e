"""Opens what the options of `wiki_search` ask for."""

from __future__ import annotations

import fcntl
import json
import logging
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from agent_r1_core import ConfigError, Passage, TaskError, ToolResources
from agent_r1_wiki_search.bm25 import Words, open_bm25
from agent_r1_wiki_search.building import Part, Source, build_index
from agent_r1_wiki_search.corpus import corpus_hash, read_corpus, source_corpus, stream_corpus
from agent_r1_wiki_search.folder import SearchOptions, open_folder
from agent_r1_wiki_search.hybrid import HybridSearcher
from agent_r1_wiki_search.manifest import FILE, Manifest
from agent_r1_wiki_search.passages import write_passages
from agent_r1_wiki_search.plans import Plan, parts_of
from agent_r1_wiki_search.remote import RemoteSearcher

if TYPE_CHECKING:
    from agent_r1_wiki_search.config import WikiSearchConfig
    from agent_r1_wiki_search.searcher import Searcher

_LOG = logging.getLogger(__name__)


def open_searcher(config: WikiSearchConfig, resources: ToolResources) -> Searcher:
    """The searcher of these options.

    Raises:
        ConfigError: there is no corpus, or the index was built for something else.
        ModelError: the encoder cannot be loaded.
        TaskError: the corpus is missing or malformed, or the index is damaged.
        ToolError: the service does not answer, or serves another index.
    """
    if config.backend == "remote":
        assert config.url is not None
        return RemoteSearcher(config.url, retries=config.retries, cache=config.cache, serves=config.serves)
    options = SearchOptions(config.model, config.device, config.effort, config.rrf_k, config.rrf_weights)
    if config.index is not None:
        if config.corpus is not None:
            _compare(Path(config.index), config.corpus)
        return open_folder(Path(config.index), config.backend, options)
    return _of_corpus(config, options, *_passages(config, resources), resources.cache_dir)


def _passages(config: WikiSearchConfig, resources: ToolResources) -> tuple[list[Passage], str]:
    """The corpus, and where it comes from."""
    if config.corpus:
        return read_corpus(config.corpus), config.corpus
    sources = resources.own_corpora if config.source == "auto" else [config.source]
    return source_corpus(resources, sources), ", ".join(f"tasks.{name}" for name in sources)


def _of_corpus(
    config: WikiSearchConfig, options: SearchOptions, passages: list[Passage], origin: str, cache_dir: str
) -> Searcher:
    """A searcher of a small corpus, whose index is kept in the cache."""
    words = Words(config.stemmer)
    if config.backend == "bm25":
        return open_bm25(passages, words, cache_dir, origin)
    if config.backend == "tantivy":
        parts = parts_of(Plan("tantivy", stemmer=config.stemmer))
        return open_folder(_cached(parts, passages, origin, cache_dir), "tantivy")
    plan = Plan(
        "dense",
        model=config.model,
        query_prefix=config.query_prefix,
        passage_prefix=config.passage_prefix,
        device=config.device,
    )
    dense = open_folder(_cached(parts_of(plan), passages, origin, cache_dir), "dense", options)
    if config.backend == "dense":
        return dense
    return HybridSearcher(open_bm25(passages, words, cache_dir, origin), dense, config.rrf_k, config.rrf_weights)


def _cached(parts: Sequence[Part], passages: list[Passage], origin: str, cache_dir: str) -> Path:
    """The folder of the passages' index, built if the cache holds no intact one. Other processes wait for it."""
    about = json.dumps({part.name: part.parameters() for part in parts}, sort_keys=True)
    digest = blake2b(f"{about} {corpus_hash(passages)}".encode(), digest_size=16).hexdigest()
    folder = Path(cache_dir) / "wiki_search" / digest
    with _alone(folder.with_suffix(".lock")):
        try:
            if folder.exists():
                Manifest.read(folder)
                return folder
        except TaskError as error:
            _LOG.warning("%s", error)
            shutil.rmtree(folder)
        _LOG.warning("indexing %s passages, once; the index is kept in %s", f"{len(passages):,}", folder)
        source = Source(origin, lambda: ((f"passage {number}", one) for number, one in enumerate(passages, 1)))
        build_index(source, parts, folder)
    return folder


@contextmanager
def _alone(file: Path) -> Iterator[None]:
    """Wait until no other process is here.

    Raises:
        TaskError: the cache cannot be written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        opened = file.open("w")
    except OSError as error:
        raise TaskError(
            f"{file.parent} cannot be written ({error.strerror}); set AGENT_R1_CACHE to another folder"
        ) from error
    with opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield


def _compare(index: Path, corpus: str) -> None:
    """Refuse an index of other passages than the corpus's.

    Raises:
        ConfigError: it is one.
    """
    manifest = Manifest.read(index)
    if write_passages(stream_corpus(corpus), None).hash != manifest.hash:
        raise ConfigError(
            f"the index {index} was built from other passages than those of {corpus} (its {FILE} names "
            f"{manifest.corpus}); build one of this corpus, or leave out corpus"
        )
