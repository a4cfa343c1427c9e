"""Selection: what is asked of an algorithm before an update: which groups to learn from, and whether to play more."""

from __future__ import annotations

from collections.abc import Sequence

from agent_r1_core.contracts.algorithm import Algorithm
from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.learning.checks import CheckedAlgorithm
from agent_r1_core.learning.filters import kept_groups
from agent_r1_core.trajectory import Group, ObservationSource


class Selection:
    """Asks an algorithm and the options of every algorithm; it needs no networks."""

    def __init__(self, algorithm: Algorithm, settings: TrainingConfig) -> None:
        self._algorithm = algorithm
        self._settings = settings
        self._checked = CheckedAlgorithm(algorithm)

    def filter(self, groups: Sequence[Group]) -> list[Group]:
        """The groups to learn from: of those that the option `filter` keeps, those that the algorithm wants.

        Raises:
            AlgorithmError: its filter raised, or returned other groups or trajectories than it was given.
        """
        return self._checked.filter(kept_groups(groups, self._algorithm.config))

    def filter_metrics(self, groups: Sequence[Group], kept: Sequence[Group]) -> dict[str, float]:
        """What the algorithm logs of the groups that were played, and of those that are kept.

        Raises:
            AlgorithmError: it raised, or returned no numbers.
        """
        return self._checked.filter_metrics(groups, kept)

    def needs_greedy_baseline(self) -> bool:
        """Whether each task is also to be played greedily, for the baseline of its group."""
        return self._algorithm.needs_greedy_baseline()

    def demonstrations(self) -> ObservationSource | None:
        """Where the observations of the demonstrations come from that it learns from; None: the policy plays."""
        return self._algorithm.demonstrations()

    def more_tasks(self, groups: Sequence[Group], tasks: int) -> int:
        """How many further tasks to play, given the groups kept of so many tasks: with `filter: resample` as many as
        groups are missing, or more if the algorithm asks for them.

        Raises:
            AlgorithmError: it raised, or returned no count.
        """
        missing = self._settings.tasks_per_step - len(groups) if self._algorithm.config.filter == "resample" else 0
        return max(missing, self._checked.more_tasks(groups, tasks))
