"""The options of `wiki_search`."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from agent_r1_core import ComponentConfig, DataPath
from agent_r1_core.contracts.component import located
from agent_r1_wiki_search.hybrid import WEIGHTS, K
from agent_r1_wiki_search.searcher import MOST_PASSAGES

_DENSE = ("dense", "hybrid")
_REMOTE = ("url", "serves", "retries", "cache")
_OWN = ("corpus", "source", "stemmer", "index", "model", "query_prefix", "passage_prefix", "device", "effort")
_FUSION = ("rrf_k", "rrf_weights")


def _absolute(name: str, info: ValidationInfo) -> str:
    """A folder's absolute path; anything else is a hub name."""
    folder = located(name, info)
    return str(folder) if folder.is_dir() else name


def _service_url(url: str) -> str:
    """Refuse what does not name a service alone."""
    if not re.fullmatch(r"https?://[^/?#\s]+/?", url):
        raise ValueError("is not the URL of a service; write it as http://HOST:PORT")
    return url


class WikiSearchConfig(ComponentConfig):
    """How `wiki_search` searches, what, and what it shows."""

    movable: ClassVar[frozenset[str]] = frozenset({"url"})

    backend: Literal["bm25", "tantivy", "dense", "hybrid", "remote"] = "bm25"
    """How it searches: `bm25` in memory; `tantivy`, BM25 on disk; `dense`, by the vectors of an encoder; `hybrid`,
    both, fused; `remote` through the service at `url`."""
    index: DataPath | None = None
    """A folder that `agent-r1 wiki build` made; null: the index of the corpus, made when the tool
    first opens and kept in the cache, for small corpora."""
    corpus: DataPath | None = None
    """A .json, .jsonl, .jsonl.gz, .parquet or .csv file of passages with `title` and `text`, or a folder of such; null:
    the task source's corpus.
    With `index`: the file that it must have been built from, read again to compare."""
    source: str = "auto"
    """The task source whose corpus is searched: `train`, `eval`, the name of one of several evaluation sets, or
    `auto` for that of the current tasks."""
    stemmer: bool = False
    """Match English words by their stems; this conflates some names too."""
    model: Annotated[str, AfterValidator(_absolute)] | None = None
    """The encoder of `dense` and `hybrid`: a folder of sentence-transformers or a hub name. With `index`: where it is
    now; null: where it was."""
    query_prefix: str | None = None
    """Stands before every query that is encoded, `query: ` for e5; null: the encoder's own prompt, if it has one."""
    passage_prefix: str | None = None
    """Stands before every passage that is encoded, likewise."""
    device: str | None = None
    """Of the encoder, as torch names it; null: a GPU if there is one."""
    effort: int | None = Field(None, ge=1)
    """Of an index with IVF-PQ: lists to look into, 64 if null; with HNSW: vectors to keep in view, 128 if null."""
    rrf_k: float = Field(K, gt=0)
    """Of `hybrid`: a passage scores the sum of weight / (rrf_k + rank); smaller values favour the first ranks."""
    rrf_weights: tuple[Annotated[float, Field(ge=0)], Annotated[float, Field(ge=0)]] = WEIGHTS
    """Of `hybrid`: of the words and of the vectors."""
    top_k: int = Field(1, ge=1, le=MOST_PASSAGES)
    """Passages per query."""
    show: Literal["both", "titles", "texts"] = "both"
    """Of each passage: its title, a newline and its text, or one of them."""
    max_characters: int = Field(1000, ge=1)
    """Most characters of a passage's text; a longer one is cut."""
    max_tokens: int | None = Field(None, ge=1)
    """Instead: most tokens of a passage's text, as the policy's tokenizer counts them; null: no such limit."""
    url: Annotated[str, AfterValidator(_service_url)] | None = None
    """The service that `agent-r1 wiki serve` runs, as http://HOST:PORT."""
    serves: str | None = None
    """The index that the service must serve, by what its /health calls `index`; null: whichever it serves when the
    tool opens. What it answers for another one is withheld."""
    retries: int = Field(4, ge=0, le=10)
    """Most repetitions of a request to the service, within the call's time-out."""
    cache: int = Field(50_000, ge=0)
    """Passages of the service's answers to keep in memory; 0: none."""

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if self.backend == "remote" and self.url is None:
            raise ValueError("backend: remote needs url: http://HOST:PORT of a service; add it")
        if self.backend in _DENSE and self.index is None and self.model is None:
            raise ValueError(f"backend: {self.backend} needs an index, or model: a folder or hub name; add one")
        if self.backend == "hybrid" and not any(self.rrf_weights):
            raise ValueError("rrf_weights are both 0; set one above it")
        return self

    @property
    def modules(self) -> tuple[str, ...]:
        """Modules of the extra `search` that the backend needs."""
        encoder = ("sentence_transformers",) if self.backend in _DENSE else ()
        words = self.backend == "tantivy" or (self.backend == "hybrid" and self.index is not None)
        return (*encoder, "tantivy") if words else encoder

    def idle(self) -> dict[str, str]:
        """Options without effect: name -> why."""
        backend = f"backend is {self.backend}"
        idle = {} if self.backend == "hybrid" else dict.fromkeys(_FUSION, backend)
        if self.show == "titles":
            idle |= dict.fromkeys(("max_characters", "max_tokens"), "show is titles")
        elif self.max_tokens is not None:
            idle["max_characters"] = "max_tokens is set"
        if self.backend == "remote":
            return idle | dict.fromkeys(_OWN, backend)
        idle |= dict.fromkeys(_REMOTE, backend)
        if self.corpus is not None:
            idle["source"] = "corpus names a file"
        if self.backend not in _DENSE:
            idle |= dict.fromkeys(("model", "query_prefix", "passage_prefix", "device", "effort"), backend)
        elif self.index is None:
            idle["effort"] = "a small corpus is searched exactly"
        if self.backend == "dense":
            idle["stemmer"] = backend
        if self.backend == "bm25":
            idle["index"] = backend
        elif self.index is not None:
            idle |= dict.fromkeys(("source", "stemmer", "query_prefix", "passage_prefix"), "index says so")
        return idle
