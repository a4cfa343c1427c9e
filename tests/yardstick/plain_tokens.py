"""A rollout as lists of tokens, for loops that can be read against a formula."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agent_r1_core.trajectory import EndStatus, Group, Trajectory


@dataclass
class Token:
    """One id of a trajectory, and everything that is known of it before the update."""

    segment: int
    place: int
    """Within the segment."""
    action: bool
    response: bool
    """It stands at or after the first action of its segment."""
    turn: int
    """-1 where it is no action."""
    sampler: float
    reward: float = 0.0
    process: float = 0.0
    """The process reward in `reward`."""
    closes_turn: bool = False
    """It is the last token of its turn's action."""
    old: float = 0.0
    reference: float = 0.0
    value: float = 0.0
    advantage: float = 0.0
    target: float = 0.0
    importance: float = 1.0
    """How much likelier the old policy made it than the one that sampled it, bounded."""


@dataclass
class Row:
    """A trajectory that trains."""

    segments: list[list[int]]
    tokens: list[Token]
    group: int
    total: float
    """Its return: everything that it was paid."""
    bootstraps: bool
    states: dict[int, str | None]
    """What each turn's state is called."""
    bootstrap: float = 0.0
    earned: dict[str, float] = field(default_factory=dict)
    """What it got by each reward that has a name, unweighted."""
    root: int = 0
    """The sample that its tree grew from."""
    hinted: list[int] = field(default_factory=list)
    """What a teacher reads up to the first action; empty: what the policy read."""
    greedy: float | None = None
    """The return of the group's greedy baseline."""

    @property
    def actions(self) -> list[Token]:
        return [token for token in self.tokens if token.action]

    @property
    def turns(self) -> list[list[Token]]:
        """The action tokens of each turn, in order."""
        return [
            [token for token in self.actions if token.turn == turn] for turn in sorted({t.turn for t in self.actions})
        ]

    @property
    def responses(self) -> list[Token]:
        return [token for token in self.tokens if token.response]


def rows_of(groups: Sequence[Group]) -> list[Row]:
    """Every trajectory that did not fail, groups and samples in their order."""
    rows = []
    for number, group in enumerate(groups):
        for trajectory in group.trajectories:
            if trajectory.status != EndStatus.FAILED:
                rows.append(_row(trajectory, number))
                if group.baseline is not None:
                    rows[-1].greedy = group.baseline.reward + sum(turn.reward for turn in group.baseline.turns)
    return rows


def _row(trajectory: Trajectory, group: int) -> Row:
    tokens = []
    for number, segment in enumerate(trajectory.segments):
        begun = False
        for place, bit in enumerate(segment.mask):
            begun = begun or bool(bit)
            tokens.append(Token(number, place, bool(bit), begun, -1, segment.logprobs[place]))
    states = {turn.index: turn.state_key for turn in trajectory.turns}
    row = Row([segment.ids for segment in trajectory.segments], tokens, group, 0.0, trajectory.bootstrap, states)
    row.root = trajectory.sample if trajectory.branched_from is None else trajectory.branched_from
    row.hinted = trajectory.hinted
    row.total = trajectory.reward + sum(turn.reward for turn in trajectory.turns)
    for turn in trajectory.turns:
        own = [t for t in tokens if t.segment == turn.segment and turn.start <= t.place < turn.stop]
        for token in own:
            token.turn = turn.index
        own[-1].reward += turn.reward
        own[-1].process, own[-1].closes_turn = turn.reward, True
    row.actions[-1].reward += trajectory.reward
    for part in (trajectory, *trajectory.turns):
        for name, score in part.rewards.items():
            row.earned[name] = row.earned.get(name, 0.0) + score
    return row
