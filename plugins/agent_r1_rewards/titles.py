"""The process reward `supporting_titles`: did a turn's results show a passage that the answer needs?

It reads what followed the turn's action, so it sees results that end an episode, too. A title counts where it stands on
a line of its own, as the headings of `wiki_search` do; each pays once in an episode, so repeating a search earns
nothing. What the policy may itself have written into the results (a call's text with several lines) pays nothing, and
a title that it put there is taken as seen.
"""

from __future__ import annotations

from agent_r1_core import RewardFn, Trajectory, Turn, new_lines, supporting_titles


class SupportingTitles(RewardFn):
    """Share of the task's supporting passages that the turn's results show for the first time in the episode."""

    scope = "turn"
    cap = 1.0

    def score_turn(self, turn: Turn, trajectory: Trajectory) -> float:
        """Between 0 and 1.

        Raises:
            ValueError: the task's metadata names no supporting passages.
        """
        titles = supporting_titles(trajectory.task)
        if not titles:
            raise ValueError(
                f"task {trajectory.task.id} names no supporting passages in metadata['path']; use tasks that do, such "
                f"as those of miniwiki, hotpotqa, 2wikimultihopqa or musique, or another reward"
            )
        return len(new_lines(turn, trajectory).intersection(titles)) / len(titles)
