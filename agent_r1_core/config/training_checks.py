"""Checks of what is trained: options against each other and the algorithm (LAW 8)."""

from __future__ import annotations

from itertools import product
from math import inf
from typing import TYPE_CHECKING, Any

from agent_r1_core.config.monitor_checks import UNWEIGHED, idle_monitors
from agent_r1_core.config.reward_checks import check_asked_policy, check_process_rewards
from agent_r1_core.errors import ConfigError
from agent_r1_core.plugins.validation import Key, key_text

if TYPE_CHECKING:
    from agent_r1_core.config.checks import Setup
    from agent_r1_core.config.components import ResolvedBlock
    from agent_r1_core.contracts.algorithm import Algorithm

_CORRECTION: Key = ("training", "staleness_correction")
_CLIPS = ("clip_low", "clip_high", "dual_clip", "value_clip")
"""Options of algorithms that limit how far an update moves from the policy that sampled."""
_TAUGHT = 10
"""Steps of `training.critic_warmup` after which a policy learnt by a lambda of .7 (docs/algorithms.md)."""


def check_training(setup: Setup) -> None:
    """Check the options of training, and those of the algorithm."""
    _offload(setup)
    _sampling(setup)
    _mismatch(setup)
    _algorithm(setup)
    _amounts(setup)
    _warn(setup)
    if setup.config.evaluation.happens:
        _warn_of_other_tasks(setup)
        _warn_of_shared_tasks(setup)


def _algorithm(setup: Setup) -> None:
    """Report training options that this algorithm does not use, and those that contradict it."""
    block, training = setup.block("algorithm"), setup.config.training
    algorithm = block.cls(block.config)
    try:
        algorithm.reference_model()
    except ConfigError as error:
        setup.problems.add_text(str(error))
    if "critic" not in algorithm.roles():
        for option in ("critic_lr", "critic_warmup"):
            setup.idle(("training", option), f"the algorithm {block.name} has no critic")
    if not algorithm.uses_old_logprobs(training.epochs, training.minibatches):
        text = (
            "with training.epochs=1 and training.minibatches=1 each rollout gets a single optimiser step, and the "
            f"algorithm {block.name} needs no log-probs from before it"
        )
        setup.idle(("training", "old_logprobs"), text)
    elif algorithm.importance_level() is None:
        setup.idle(("training", "old_logprobs"), UNWEIGHED.format(block.name))
    elif training.old_logprobs == "engine":
        text = "training.old_logprobs=engine takes the sampler's own log-probs, so that every importance ratio is 1"
        setup.idle(("training", "importance_clip"), text)
        if training.mismatch_mask != "off_policy":
            setup.idle(("training", "mismatch_mask"), text)
    if algorithm.importance_level() is None:
        setup.idle(("training", "importance_clip"), UNWEIGHED.format(block.name))
    if not algorithm.asks_for_more() and algorithm.config.filter != "resample":
        text = f"the algorithm {block.name} never asks for more episodes, and algorithm.filter is not resample"
        setup.idle(("training", "extra_rollouts"), text)
    if algorithm.config.filter != "none" and training.samples_per_task == 1:
        text = f"is {algorithm.config.filter}, which keeps no group of one; set training.samples_per_task to 2 or more"
        setup.problems.add(("algorithm", "filter"), text)
    if training.samples_per_task == 1 and algorithm.compares_samples():
        setup.warnings.append(
            f"training.samples_per_task=1: the algorithm {block.name} compares the episodes of a group and learns "
            "nothing from groups of one"
        )
    if algorithm.trees() >= training.samples_per_task > 1:
        text = f"is not below training.samples_per_task={training.samples_per_task}, so that nothing branches off"
        setup.problems.add(("algorithm", "trees"), f"{text}; lower it, or play more samples")
    if algorithm.needs_every_trajectory():
        text = f"the algorithm {block.name} with these options has a gradient on every episode"
        setup.idle(("training", "skip_without_gradient"), text)
    idle = idle_monitors(setup.config, block.name, algorithm)
    for key in list(setup.problems.draft.sources):
        if len(key) > 1 and key[0] == "health" and key[1] in idle and key[2:] != ("every",):
            setup.idle(key, idle[str(key[1])])
    check_process_rewards(setup, algorithm, block.name)
    check_asked_policy(setup, algorithm)
    clips = [name for name in _CLIPS if setup.user_set(("algorithm", name))]
    why = None
    if training.epochs * training.minibatches == 1:
        why = (
            "with training.epochs=1 and training.minibatches=1 each rollout is learnt from once, by the policy that "
            "sampled it"
        )
    elif training.max_staleness and training.staleness_correction == "truncated":
        clips = [name for name in clips if name != "value_clip"]
        why = "with training.staleness_correction=truncated each pass is compared with its own policy"
    if clips and why and algorithm.importance_level() is not None:
        setup.warnings.append(f"algorithm.{clips[0]} never acts: {why}")
    _critic(setup, algorithm)
    _curriculum(setup)
    _staleness(setup, algorithm, block.name)
    _demonstrations(setup, algorithm, block.name)


def _critic(setup: Setup, algorithm: Algorithm) -> None:
    """Warn where a policy is likely to fall by the word of a critic that has learnt too little."""
    warmup = setup.config.training.critic_warmup
    if algorithm.trusts_critic() and warmup < _TAUGHT:
        setup.warnings.append(
            f"a lambda below 1 credits actions by the critic's values, and training.critic_warmup={warmup} hardly "
            "teaches it: while they lie below the returns, whatever ends an episode is praised, and the policy may "
            f"fall; set algorithm.lam=1, or training.critic_warmup={_TAUGHT} or more"
        )


def _curriculum(setup: Setup) -> None:
    """Check training.curriculum against what it needs to know, and what it has to choose from."""
    training, key = setup.config.training, ("training", "curriculum")
    curriculum, several = training.curriculum, len(setup.config.tasks.train_sets) > 1
    if curriculum is None:
        return
    if training.samples_per_task == 1:
        setup.problems.add(key, "compares the episodes of a group; set training.samples_per_task to 2 or more")
    if training.max_staleness:
        text = "chooses tasks by the groups of the step before, so that no step can begin ahead of it; set "
        setup.problems.add(key, text + "training.max_staleness=0")
    if several and curriculum.by is not None:
        text = "has no effect here: several training sets are the parts; leave it out"
        setup.problems.add((*key, "by"), text)
    if not several and curriculum.by is None:
        for option in ("least", "rate"):
            setup.idle((*key, option), "all tasks are one part; training.curriculum.by names a key of their metadata")
        if not curriculum.rest:
            text = "has nothing to choose: all tasks are one part and training.curriculum.rest is 0; set one of them"
            setup.problems.add(key, text)


def _staleness(setup: Setup, algorithm: Algorithm, name: str) -> None:
    """Check training.max_staleness and what depends on it."""
    training = setup.config.training
    if not training.max_staleness:
        setup.idle(_CORRECTION, "training.max_staleness is 0")
        return
    if algorithm.importance_level() is None:
        setup.idle(_CORRECTION, UNWEIGHED.format(name))
    elif training.epochs * training.minibatches == 1:
        text = (
            "with training.epochs=1 and training.minibatches=1 each rollout gets a single optimiser step, whose policy "
            "is the one before the update, so that decoupled and truncated are the same"
        )
        setup.idle(_CORRECTION, text)
    key = ("training", "max_staleness")
    if setup.config.deterministic:
        setup.problems.add(("deterministic",), "repeats no run whose rollouts overlap; set training.max_staleness=0")
    if setup.config.distributed.placement == "colocated":
        setup.problems.add(key, "needs rollouts and updates on different devices; set distributed.placement=separate")
    if algorithm.asks_for_more() or algorithm.config.filter == "resample":
        asks = f"the algorithm {name}" if algorithm.asks_for_more() else "algorithm.filter=resample"
        text = f"draws the tasks of later steps ahead, and {asks} may ask for more within a step; set it to 0"
        setup.problems.add(key, text)
    if training.staleness_correction == "truncated":
        setup.idle(("training", "old_logprobs"), "training.staleness_correction=truncated needs none")
    elif training.old_logprobs == "engine":
        text = "takes the stale policy for the one before the update; set training.old_logprobs=learner"
        setup.problems.add(("training", "old_logprobs"), text)


def _mismatch(setup: Setup) -> None:
    """Check the bounds of training.mismatch_mask."""
    training = setup.config.training
    if training.mismatch_mask is None:
        for option in ("mismatch_low", "mismatch_high"):
            setup.idle(("training", option), "training.mismatch_mask is null")
        return
    if training.mismatch_mask == "off_policy":
        setup.idle(("training", "mismatch_high"), "off_policy leaves out what the learner finds less likely alone")
        return
    low, high = training.mismatch_bounds
    if low >= high:
        key = ("training", "mismatch_high" if training.mismatch_low is None else "mismatch_low")
        setup.problems.add(key, f"leaves nothing to keep: the lower bound is {low} and the upper one {high}")


def _demonstrations(setup: Setup, algorithm: Algorithm, name: str) -> None:
    """Refuse what needs log-probs or returns of the policy's own episodes; say where observations come from."""
    observations, training = algorithm.demonstrations(), setup.config.training
    if observations is None:
        return
    problems = setup.problems
    if training.samples_per_task != 1:
        text = f"must be 1, not {training.samples_per_task}: the algorithm {name} plays the one demonstration of a task"
        problems.add(("training", "samples_per_task"), text)
    if training.max_staleness:
        text = f"must be 0: the algorithm {name} learns from demonstrations, which no version of the policy sampled"
        problems.add(("training", "max_staleness"), text)
    for option in ("importance_clip", "mismatch_mask"):
        if getattr(training, option) is not None:
            text = "asks what the engine said of tokens, and it sampled none of a demonstration; set it to null"
            problems.add(("training", option), text)
    if training.old_logprobs == "engine":
        text = "names log-probs that demonstrations have not; set training.old_logprobs=learner"
        problems.add(("training", "old_logprobs"), text)
    whence = "the run's own tools" if observations == "tools" else "the demonstrations"
    setup.notes.append(f"{name} learns from demonstrations; what tools answer in them comes from {whence}")


def _offload(setup: Setup) -> None:
    """Check training.cpu_offload, which FSDP2 does for ranks with GPUs."""
    config, key = setup.config, ("training", "cpu_offload")
    if not config.training.cpu_offload:
        return
    if not config.distributed.learner_workers:
        text = "needs a learner worker; set distributed.rollout_workers and distributed.learner_workers to 1 or more"
        setup.problems.add(key, text)
    elif config.deterministic or config.model.device == "cpu" or config.distributed.gpus_per_learner_worker == 0:
        setup.problems.add(key, "has no effect here: the learner workers compute on the CPU; set it to false")


def _sampling(setup: Setup) -> None:
    """Require unmodified sampling: training needs log-probs of the distribution that was sampled (LAW 2)."""
    engine = setup.config.engine.config
    for option, neutral in (("top_p", 1.0), ("top_k", 0)):
        value = getattr(engine, option)
        if value != neutral:
            text = f"must be {neutral} in training, not {value}: the learner trains the whole distribution"
            setup.problems.add(("engine", option), text)
    if engine.temperature <= 0:
        text = f"must be above 0 in training, not {engine.temperature}: a greedy policy explores nothing"
        setup.problems.add(("engine", "temperature"), text)
    if setup.config.deterministic and setup.config.model.device == "cuda":
        setup.problems.add(("deterministic",), "needs the CPU, and model.device is cuda; set model.device=cpu")


def _amounts(setup: Setup) -> None:
    training = setup.config.training
    episodes = training.tasks_per_step * training.samples_per_task
    if training.minibatches > episodes:
        text = f"must be at most {episodes}, the episodes of a step, not {training.minibatches}"
        setup.problems.add(("training", "minibatches"), text)
    for option in ("warmup_steps", "critic_warmup"):
        if (steps := getattr(training, option)) >= training.steps:
            text = f"is {steps} and must be below training.steps={training.steps}; change one of them"
            setup.problems.add(("training", option), text)
            return
    if training.warmup_steps + training.critic_warmup >= training.steps:
        text = (
            f"starts after the critic's warm-up, and {training.warmup_steps} + {training.critic_warmup} steps are not "
            f"below training.steps={training.steps}; change one of them"
        )
        setup.problems.add(("training", "warmup_steps"), text)


def _warn(setup: Setup) -> None:
    training = setup.config.training
    longest = setup.config.env.config.max_tokens
    if longest > training.max_tokens_per_microbatch:
        setup.warnings.append(
            f"an episode may have env.max_tokens={longest} tokens; one that is longer than "
            f"training.max_tokens_per_microbatch={training.max_tokens_per_microbatch} gets a micro-batch of its own"
        )
    evaluation, checkpoint = setup.config.evaluation, setup.config.checkpoint
    if checkpoint.best is not None and evaluation.every % checkpoint.every:
        setup.warnings.append(
            f"evaluation.every={evaluation.every} is not a multiple of checkpoint.every={checkpoint.every}: a step "
            f"without a checkpoint cannot become the best one, even if it is evaluated"
        )


def _warn_of_other_tasks(setup: Setup) -> None:
    """Warn where the command line names the tasks that are trained on, and evaluations keep to the recipe's others."""
    tasks = setup.config.tasks
    given = {
        key[1]: one.text for key, one in setup.problems.draft.sources.items() if key[0] == "tasks" and one.override
    }
    trained, scored = (
        {block.name for block in blocks.values() if block is not None} for blocks in (tasks.train_sets, tasks.eval_sets)
    )
    if set(given) == {"train"} and scored and not trained & scored:
        setup.warnings.append(
            f"training takes tasks of {', '.join(sorted(trained))} ({given['train']}), and evaluations still those of "
            f"{', '.join(sorted(scored))}, as the recipe says; set tasks.eval, too"
        )


def _warn_of_shared_tasks(setup: Setup) -> None:
    """Warn where an evaluation set has tasks that are trained on, unless a recipe of the package says so by itself."""
    written = any(key[0] == "tasks" and source.user for key, source in setup.problems.draft.sources.items())
    sets = [(block, *_rows(block)) for block in setup.blocks if block.kind == "tasks"]
    for (one, source, start, end), (other, same, first, last) in product(sets, sets):
        shared = source == same and start < last and first < end
        if written and shared and (one.key[1], other.key[1]) == ("train", "eval"):
            setup.warnings.append(shared_tasks(key_text(other.key), key_text(one.key)))


def shared_tasks(scored: str, trained: str) -> str:
    """The warning for two task sets that share tasks, by their keys."""
    return (
        f"{scored} has tasks of {trained}: the scores are likely too high; give one of them another file or split, or "
        "other records by size and offset"
    )


def _rows(block: ResolvedBlock) -> tuple[Any, float, float]:
    """What a task source reads, and where those of its records begin and end that it takes in their order."""
    options = block.config.model_dump()
    if options.get("sample") != "first":
        return (block.name, options), 0, inf
    start, size = options.pop("offset", 0), options.pop("size", None)
    return (block.name, options), start, inf if size is None else start + size
