"""Downloads a model from the Hugging Face hub, or finds it in the hub's cache; its bytes are counted as long work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent_r1_core.work import Work, working

_UNUSED = ["*.gguf", "*.onnx", "*.pth", "original/*"]
"""Files that no learner and no engine reads."""


def download(name: str) -> Path:
    """The folder of a model of the hub; an OSError, ValueError or HfHubHTTPError where it is neither there nor here."""
    from huggingface_hub import snapshot_download

    with working(f"downloading {name}", unit="bytes") as work:
        return Path(snapshot_download(name, ignore_patterns=_UNUSED, tqdm_class=_counting(work)))


def _counting(work: Work) -> type[Any]:
    """A class in place of the hub's bars, which would tear the run's own: it shows nothing, and advances the work.

    The hub counts bytes as they arrive and as they are written, and files; the one of the two that is ahead counts.
    """
    from tqdm.auto import tqdm

    counted: list[Any] = []

    class Bytes(tqdm):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **{**options, "disable": True})
            if options.get("unit") == "B":
                counted.append(self)

        def update(self, n: float | None = 1) -> bool | None:
            self.n += n or 0
            if any(bar is self for bar in counted):
                work.total = max(bar.total or 0 for bar in counted)
                work.advance(max(bar.n for bar in counted) - work.done)
            return None

    return Bytes
