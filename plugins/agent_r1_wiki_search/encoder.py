"""Turns passages and queries into vectors, with a model of sentence-transformers.

Long texts are cut at the model's own limit of tokens. On a GPU it computes in half precision.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_r1_core import working
from agent_r1_core.errors import ModelError, first_line
from agent_r1_wiki_search.packages import require

if TYPE_CHECKING:
    import numpy

_WHAT_TO_GIVE = "give the folder of a sentence-transformers model, or its name on the hub"


class Encoder:
    """Gives texts of like meaning vectors with a large inner product; safe to use from several threads."""

    def __init__(
        self,
        model: str,
        query_prefix: str | None = None,
        passage_prefix: str | None = None,
        device: str | None = None,
        batch_size: int = 32,
    ) -> None:
        """Load a model.

        Args:
            model: a folder, or a name on the Hugging Face hub.
            query_prefix: stands before every query (`query: ` for e5); None: the model's own prompt, if it has one.
            passage_prefix: stands before every passage, likewise.
            device: as torch names it; None: a GPU if there is one.
            batch_size: texts at once.

        Raises:
            ConfigError: the package sentence-transformers is missing.
            ModelError: the model cannot be loaded.
        """
        require("sentence_transformers")
        folder = Path(os.path.expanduser(model))
        if not folder.is_dir() and (model.startswith((".", "/", "~")) or model.count("/") > 1):  # no name on the hub
            raise ModelError(f"there is no encoder at {model}; {_WHAT_TO_GIVE}")
        from sentence_transformers import SentenceTransformer

        self.name = str(folder.absolute()) if folder.is_dir() else model
        try:
            with _no_progress_bar(), working(f"loading the encoder {model}"):
                self._model: Any = SentenceTransformer(self.name, device=device)
        except Exception as error:  # whatever the layers below raise for a folder or name that is no model
            raise ModelError(f"the encoder {model} cannot be loaded ({first_line(error)}); {_WHAT_TO_GIVE}") from error
        self.hash = _hash(self._model)
        if self._model.device.type == "cuda":
            self._model.half()
        self.query_prefix = self._prompt("query", query_prefix)
        self.passage_prefix = self._prompt("document", passage_prefix)
        self._batch_size = batch_size
        self._lock = threading.Lock()  # tokenizers change their settings while they encode

    @property
    def dimension(self) -> int:
        """Numbers in a vector."""
        return int(self._model.get_embedding_dimension())

    def parameters(self) -> dict[str, Any]:
        """What vectors depend on."""
        return {
            "model": self.name,
            "weights": self.hash,
            "dimension": self.dimension,
            "most_tokens": self._model.max_seq_length,
            "query_prefix": self.query_prefix,
            "passage_prefix": self.passage_prefix,
        }

    def passages(self, texts: Sequence[str]) -> numpy.ndarray:
        """Vectors of length 1, `[texts, dimension]`, float32."""
        return self._encode(self._model.encode_document, texts, self.passage_prefix)

    def queries(self, texts: Sequence[str]) -> numpy.ndarray:
        """Vectors of length 1, `[texts, dimension]`, float32."""
        return self._encode(self._model.encode_query, texts, self.query_prefix)

    def _encode(self, encode: Any, texts: Sequence[str], prefix: str) -> numpy.ndarray:
        import numpy

        with self._lock:
            vectors = encode(
                list(texts),
                prompt=prefix,
                batch_size=self._batch_size,
                normalize_embeddings=True,
                show_progress_bar=False,
            )
        found = numpy.asarray(vectors, numpy.float32)
        if not numpy.isfinite(found).all():
            raise ModelError(f"the encoder {self.name} gives vectors that are not finite; use another one")
        return found

    def _prompt(self, kind: str, given: str | None) -> str:
        return str(self._model.prompts.get(kind) or "") if given is None else given


def _hash(model: Any) -> str:
    """Of the weights, by name, as they are stored."""
    import torch

    digest = blake2b(digest_size=16)
    for name, weights in sorted(model.state_dict().items()):
        digest.update(f"{name} {weights.dtype} {tuple(weights.shape)}".encode())
        digest.update(weights.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


@contextmanager
def _no_progress_bar() -> Iterator[None]:
    """transformers shows a bar for the weights of each model."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
