"""How many CPUs a worker reserves: as many as leave room for all of them, also on one machine less."""

from __future__ import annotations

import math
from collections.abc import Sequence


def cpus_per_worker(machines: Sequence[float], workers: int) -> float:
    """The largest share, at most 1, of which `workers` fit without the largest of several machines.

    A worker is on one machine, so that what is left over on each cannot be added up. Ray counts thousandths.

    Args:
        machines: the CPUs of each.
    """
    left = sorted(cpus for cpus in machines if cpus > 0)
    left = left[:-1] or left
    shares = {math.floor(1000 * min(1.0, cpus / fit)) for cpus in left for fit in range(1, workers + 1)}
    fitting = (share for share in shares if share and sum(int(1000 * cpus / share) for cpus in left) >= workers)
    return max(fitting, default=0) / 1000
