"""The table of mutated files and of the tests that run against their mutants."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

DRAWN = 800
"""Mutants to draw from all rooms that are not exhaustive."""
SEED = 0
"""The seed of the draw."""
_ALONE = ("isolated_keeper.py", "isolated_worker.py", "*_command.py")
"""Files that run in processes of their own, where mutmut is not and sees no test reach them."""


@dataclass(frozen=True)
class Room:
    """Files whose mutants face the same tests."""

    name: str
    sources: tuple[str, ...]
    """Patterns of files, relative to the checkout; a file belongs to the first room that names it."""
    tests: tuple[str, ...]
    """Fast tests; mutmut runs those that reach the mutated function."""
    without: str = ""
    """An expression for pytest's -k: tests that fail under mutmut, whose wrappers stand in tracebacks and look for its
    settings in the working directory, or without docs/."""
    exhaustive: bool = False
    """Whether every mutant is tried; otherwise the room takes part in the draw."""

    def files(self, root: Path) -> list[Path]:
        """Its files, relative to the checkout, sorted."""
        earlier = itertools.takewhile(lambda room: room is not self, ROOMS)
        taken = {path for room in earlier for path in room.files(root)}
        found = {path.relative_to(root) for pattern in self.sources for path in root.glob(pattern)} - taken
        return sorted(path for path in found if not any(map(path.match, _ALONE)))


_CREDIT = ("aggregation", "credit", "groups", "kl", "loss", "process", "surrogate", "turns")
_ALGORITHMS = ("distillation", "gigpo", "grpo", "ppo", "reinforce_pp", "remax", "rft", "sft")
_RECORDED = ("events_file", "trajectory_file", "trajectory_row")


def _laws(*names: str) -> tuple[str, ...]:
    return tuple(f"tests/laws/test_law_{name}.py" for name in names)


_WRITTEN, _SAMPLED = "01_written_conversations", "01_what_was_sampled_is_trained"
ROOMS = (
    Room(
        "losses",
        (
            *(f"agent_r1_core/learning/{name}.py" for name in _CREDIT),
            *("agent_r1_core/learning/likelihood.py", "agent_r1_core/contracts/success.py"),
            *(f"plugins/agent_r1_{name}/{name}.py" for name in _ALGORITHMS),
        ),
        (
            *("tests/core/learning/test_credit.py", "tests/core/learning/test_loss.py"),
            *("tests/core/test_option_bounds.py", "tests/plugins/test_algorithms.py"),
            *(f"tests/plugins/{name}" for name in _ALGORITHMS),
            "tests/yardstick",
        ),
        exhaustive=True,
    ),
    Room(
        "learning",
        ("agent_r1_core/learning/*.py",),
        (
            *_laws("06_the_gradient_is_one"),
            *("tests/core/learning", "tests/yardstick", "tests/plugins/replay/test_repeating.py"),
        ),
        without="pretended",
    ),
    Room(
        "rollout",
        ("agent_r1_core/rollout/*.py", "agent_r1_core/tools/*.py"),
        (
            *("tests/core/rollout", "tests/core/tools"),
            *_laws(_SAMPLED, "04_process_rewards", "05_terminated_truncated_failed", "07_players", "01_contexts"),
            *_laws("01_demonstrations", _WRITTEN, "03_only_decisions_are_credited", "09_a_bad_environment_is_data"),
            *_laws("09_values_become_plain"),
            "tests/plugins/contexts",
        ),
        without="broken_world or broken_reward or names_the_innermost_line or name_no_line or imports_nothing",
    ),
    Room(
        "chat",
        ("agent_r1_core/chat/*.py",),
        (
            "tests/core/chat",
            *_laws("01_chat_templates", _SAMPLED, "01_data_is_no_markup", "01_programs"),
            "tests/plugins/rewards/test_reasoning.py",
        ),
    ),
    Room("health", ("agent_r1_core/health/*.py",), ("tests/core/health",), without="the_table_has"),
    Room(
        "evaluation",
        ("agent_r1_core/evaluation/*.py", "agent_r1_core/metrics/scorers.py"),
        (
            *("tests/core/evaluation", "tests/core/metrics/test_scorers.py", *_laws("12_scores")),
            *("tests/core/training/test_recording.py", "tests/core/training/test_examples.py", *_laws(_WRITTEN)),
            *("tests/cli/test_scores.py", "tests/bundled/test_tiny.py"),
        ),
        without="table_of_the_docs",
    ),
    Room("replay", ("plugins/agent_r1_replay/*.py",), ("tests/plugins/replay",), without="command"),
    Room("paper", ("plugins/agent_r1_paper/*.py",), ("tests/plugins/paper",), without="end_to_end"),
    Room(
        "viewer",
        (
            *("plugins/agent_r1_viewer/**/*.py", "agent_r1_core/runs/reading/*.py"),
            *(f"agent_r1_core/runs/{name}.py" for name in _RECORDED),
            "agent_r1_core/training/attempts.py",
        ),
        (
            *("tests/plugins/viewer", "tests/core/runs/reading"),
            *("tests/core/runs/test_state.py", "tests/core/runs/test_trajectory_file.py"),
            *(f"tests/core/training/test_{name}.py" for name in ("lost_learner", "recorder", "recording", "resume")),
        ),
        without="browser or bundled_model_together or planted_faults or hears_what or ctrl_c_ends",
    ),
)
