"""Estimates what cells cost: from their configurations and stated assumptions, and from the cells that have finished.

    learning = episodes x tokens x parameters x FLOPs per parameter and token / FLOPs per second
    sampling = (episodes + evaluated episodes) x sampled tokens / sampled tokens per second

A forward pass takes 2 FLOPs per parameter and token, a backward pass 4, and recomputing whole layers 2 more; the policy
needs a forward and a backward pass per epoch, one forward pass for the log-probs before the update where there are
several optimiser steps, the reference one; a critic needs as much as the policy. Attention is left out: with episodes
of a few thousand tokens it adds less than a tenth.
"""

from __future__ import annotations

from pathlib import Path

from agent_r1_core.config import ResolvedConfig
from agent_r1_paper.matrix import Cell, Matrix
from agent_r1_paper.store import Store
from agent_r1_paper.tables import Costs


def flops_per_token(resolved: ResolvedConfig) -> float:
    """FLOPs per parameter and token of an episode that is trained."""
    config = resolved.config
    roles = resolved.make("algorithm", config.algorithm).roles()
    training = config.training
    update = (8 if config.model.gradient_checkpointing == "full" else 6) * training.epochs
    before = 2 if training.epochs * training.minibatches > 1 else 0
    models = 2 if "critic" in roles else 1
    return float(models * (update + before) + (2 if "reference" in roles else 0))


def trained_episodes(resolved: ResolvedConfig) -> int:
    """Episodes that a run samples to learn from."""
    training = resolved.config.training
    return training.steps * training.tasks_per_step * training.samples_per_task


def evaluated_episodes(resolved: ResolvedConfig, costs: Costs) -> int:
    """Episodes of the evaluations of a run."""
    evaluation, steps = resolved.config.evaluation, resolved.config.training.steps
    between = (steps - 1) // evaluation.every if evaluation.every else 0
    times = between + evaluation.at_start + evaluation.at_end
    return times * _questions(resolved, costs, evaluation.size)


def cell_seconds(matrix: Matrix, cell: Cell) -> float:
    """Estimated seconds of a cell."""
    resolved = matrix.configs[cell.row.name]
    costs = matrix.scale.costs
    episodes, commands, learning = 0, 1, 0.0
    if cell.row.trained:
        trained = trained_episodes(resolved)
        episodes, commands = trained + evaluated_episodes(resolved, costs), len(matrix.commands(cell, Path()))
        learning = trained * costs.tokens * costs.parameters * flops_per_token(resolved) / costs.flops
    size = resolved.config.evaluation.size if "evaluation.size" in matrix.keys else None
    asked = 0 if matrix.table.trainings_score else _questions(resolved, costs, size)
    sampling = (episodes + asked) * costs.sampled / costs.sampling
    return learning + sampling + commands * costs.start


def time_left(matrix: Matrix, store: Store) -> float:
    """Seconds that the cells which have not finished will take, one after the other.

    A cell takes as long as finished cells of its row; else as finished cells that also train, or also do not; else as
    its estimate, scaled by how far the estimates of finished cells were off.
    """
    records = [(cell, store.record(cell)) for cell in matrix.cells()]
    finished = [(cell, record.seconds) for cell, record in records if record is not None]
    expected = sum(cell_seconds(matrix, cell) for cell, _ in finished)
    off = sum(seconds for _, seconds in finished) / expected if expected else 1.0
    left = 0.0
    for cell in (cell for cell, record in records if record is None):
        alike = [seconds for other, seconds in finished if other.row == cell.row and other.check is None]
        alike = alike or [seconds for other, seconds in finished if other.row.trained == cell.row.trained]
        left += sum(alike) / len(alike) if alike else off * cell_seconds(matrix, cell)
    return left


def _questions(resolved: ResolvedConfig, costs: Costs, most: int | None) -> int:
    """Questions of one evaluation over all sets, at most so many from each."""
    total = 0
    for block in resolved.config.tasks.eval_sets.values():
        size = getattr(block.config, "size", None) if block is not None else None
        questions = size or costs.questions
        total += min(questions, most) if most else questions
    return total
