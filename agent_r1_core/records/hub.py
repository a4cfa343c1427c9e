"""Data sets of the Hugging Face hub, and local folders of the same layout, through the package `datasets`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from agent_r1_core.errors import TaskError, first_line

_HUB_TIMEOUT = 10.0
"""Seconds to wait for the hub's first answer."""


def load_dataset(name: str, subset: str | None, split: str) -> list[Any]:
    """The records of a hub data set, or of a local folder; from the cache alone where the hub does not answer.

    Raises:
        TaskError: the package `datasets` is missing, or it cannot load the data set.
    """
    try:
        import datasets
    except ImportError as error:
        raise TaskError(
            f"reading {name} needs the package datasets; run `pip install 'agent-r1[hub]'` or set `path` to a file"
        ) from error
    reachable = Path(name).is_dir() or _hub_answers(name)
    try:
        with nullcontext() if reachable else _offline():
            return datasets.load_dataset(name, subset, split=split).to_list()
    except Exception as error:  # the hub client raises whatever its layers raise
        which = f"{name} (subset {subset}, split {split})" if subset else f"{name} (split {split})"
        where = "" if reachable else " from the cache, since the hub does not answer"
        raise TaskError(
            f"cannot load the data set {which}{where}: {first_line(error)}; check its name, split and the network, "
            f"or set `path` to a local file"
        ) from error


def _hub_answers(name: str) -> bool:
    """Ask the hub once; `datasets` would retry for most of a minute before it reports that there is no network."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    try:
        HfApi().dataset_info(name, timeout=_HUB_TIMEOUT)
    except HfHubHTTPError:
        return True  # it answered; `datasets` will say what is wrong
    except Exception:  # whatever the HTTP client raises when it cannot connect or must stay offline
        return False
    return True


@contextmanager
def _offline() -> Iterator[None]:
    """Set HF_HUB_OFFLINE=1 for a while."""
    from datasets import config
    from huggingface_hub import constants

    before = config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE
    config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE = before
