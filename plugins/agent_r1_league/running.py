"""Plays the contests of a league, in processes of their own."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import torch

from agent_r1_core.plugins import Registry
from agent_r1_league.contest import Row, Size, contest
from agent_r1_league.entrants import Entrant
from agent_r1_league.worlds import WORLDS


@dataclass(frozen=True)
class Contest:
    """What one process plays at a time."""

    world: str
    seed: int
    rows: tuple[Entrant, ...]
    size: Size
    plugins: tuple[tuple[Path, ...], tuple[str, ...]]
    """Files that are plugins, and plugins not to load."""


def play(contests: Sequence[Contest], processes: int) -> Iterator[tuple[Contest, dict[str, Row]]]:
    """Play contests, in this process if it is to be one; gives each as it ends, with the numbers of its rows."""
    if processes == 1:
        yield from ((one, _play(one)) for one in contests)
        return
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(processes, len(contests)), spawn, initializer=_end_with_parent)
    try:
        futures = {pool.submit(_play, one): one for one in contests}
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _end_with_parent() -> None:
    """An interruption is the parent's to handle; once it has ended, however it did, so does this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _play(one: Contest) -> dict[str, Row]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the tensors are small
    try:
        return contest(WORLDS[one.world], one.seed, one.rows, one.size, Registry.discover(*one.plugins))
    finally:
        torch.set_num_threads(threads)
