"""The packages of the extra `search`, which not every backend needs."""

from __future__ import annotations

from importlib.util import find_spec

from agent_r1_core import ConfigError

EXTRA = {"tantivy": "tantivy", "sentence_transformers": "sentence-transformers", "faiss": "faiss-cpu"}


def missing(*modules: str) -> str | None:
    """A sentence if one of these modules is not installed."""
    absent = [EXTRA[module] for module in modules if find_spec(module) is None]
    if not absent:
        return None
    return f"the package {' and '.join(absent)} is missing; run `pip install 'agent-r1[search]'` or use backend=bm25"


def require(*modules: str) -> None:
    """Refuse to go on without these modules.

    Raises:
        ConfigError: one is not installed.
    """
    reason = missing(*modules)
    if reason is not None:
        raise ConfigError(reason)
