"""Player: one player's part of an episode, a conversation and a trajectory of its own. Most episodes have one."""

from __future__ import annotations

from dataclasses import dataclass, field

from agent_r1_core.chat import Conversation, Sampled
from agent_r1_core.contracts.engine import Generation, Request
from agent_r1_core.contracts.env import Observation, Outcome
from agent_r1_core.errors import EpisodeError
from agent_r1_core.rollout.episode_context import EpisodeContext
from agent_r1_core.rollout.world import recorded
from agent_r1_core.trajectory import EndStatus, Trajectory, Turn


@dataclass
class Player:
    """Records what a player reads and does."""

    key: str
    """The id of its requests."""
    trajectory: Trajectory
    conversation: Conversation
    context: EpisodeContext
    frozen: bool = False
    """A frozen model acts, of which nothing is kept."""
    sampled: list[Sampled] = field(default_factory=list)

    def record(self, request: Request, generation: Generation) -> Turn:
        """The turn of an action."""
        trajectory, shown = self.trajectory, self.context.shown
        if not generation.ids:
            raise EpisodeError(f"the engine gave no token in episode {self.key}; check its model")
        versions = () if trajectory.demonstrated is not None else _versions(generation, self.key)
        if versions and not trajectory.turns:
            trajectory.policy_version = versions[0][0]
        segment, start, stop, text = self.conversation.act(generation.ids, generation.logprobs)
        self.sampled.append(Sampled(request.ids, generation.ids, generation.context))
        turn = Turn(
            index=len(trajectory.turns),
            observation=recorded(shown.messages),
            text=text,
            segment=segment,
            start=start,
            stop=stop,
            finish=generation.finish,
            state_key=shown.state_key,
            new_context=shown.new_context,
            versions=versions,
            purpose="action" if self.context.summary is None else "summary",
        )
        trajectory.turns.append(turn)
        return turn

    def credit(self, outcome: Outcome) -> None:
        """Put what a step means for this player, who did not act in it, on the last turn."""
        for turn in self.trajectory.turns[-1:]:
            turn.reward += outcome.reward
            turn.rewards["env"] = turn.rewards.get("env", 0.0) + outcome.reward
            turn.success = turn.success if outcome.success is None else outcome.success
            turn.info |= outcome.info

    async def end(self, status: EndStatus, reason: str, bootstrap: bool, last: Observation | None) -> None:
        """Record how the episode ended, with what this player read last; None: nothing."""
        trajectory = self.trajectory
        trajectory.status, trajectory.reason, trajectory.bootstrap = status, reason, bootstrap
        trajectory.closing = recorded(last.messages) if last is not None else []
        if status is EndStatus.TRUNCATED:
            trajectory.answer = None
        if trajectory.turns and (bootstrap or trajectory.closing):
            await self.context.close_with(last or Observation(), bootstrap)


def _versions(generation: Generation, episode: str) -> tuple[tuple[int, int], ...]:
    """Which weights sampled an action."""
    versions = generation.versions or ((generation.version, len(generation.ids)),)
    versioned = sum(count for _, count in versions)
    if versioned != len(generation.ids):
        raise EpisodeError(
            f"the engine gave versions for {versioned} ids to an action of {len(generation.ids)} in episode {episode}; "
            "give every id a version"
        )
    return versions
