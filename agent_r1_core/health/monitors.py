"""The monitors of every run, with their default thresholds. docs/health.md has them as a table.

The severe ones are the early stops of RAGEN (arXiv 2504.20073): spread within groups below a tenth of its first mean
for ten steps, five steps without a group to learn from, five evaluations below 1 %.
"""

from __future__ import annotations

from agent_r1_core.health.rule import AtLeast, AtMost, Fall, Growth, Loss, MeanFall, MeasuredFall, Monitor, Spike
from agent_r1_core.metrics import declared as metric
from agent_r1_core.metrics.scorers import EXACT_MATCH, SUCCESS

_LOWER_RATE = "a lower learning rate"
_AGAINST_TEMPLATES = f"algorithm.filter=top_p, a reward that only an answer to this task earns, or {_LOWER_RATE}"
_FOR_SPREAD = (
    "tasks that the policy solves sometimes, more samples per task, a finer reward, or algorithm.filter=resample"
)

MONITORS: tuple[Monitor, ...] = (
    # Does a step teach anything?
    Monitor(
        "group_std",
        metric.GROUP_STD,
        Fall(threshold=0.1, steps=10),
        "the spread of returns within groups has fallen to {value} (alarm at {limit})",
        f"{_LOWER_RATE}, more samples per task, algorithm.filter=top_p, or, if the tasks are solved, harder ones",
        needs="groups",
        severe=True,
    ),
    Monitor(
        "spread_without_gain",
        metric.GROUP_STD,
        MeanFall(threshold=0.75, steps=1),
        "the spread of returns within groups has fallen to {value} (alarm at {limit}), and the reward has not risen",
        f"a filter (algorithm.filter=top_share), more samples per task, or {_LOWER_RATE}",
        needs="groups",
        gain=metric.REWARD_MEAN,
    ),
    Monitor(
        "no_spread",
        metric.GROUPS_WITHOUT_SPREAD,
        AtLeast(threshold=1, steps=1),
        "no group has any spread of rewards, so that to compare its episodes teaches nothing",
        _FOR_SPREAD,
        needs="compared groups",
    ),
    Monitor(
        "groups_without_spread",
        metric.GROUPS_WITHOUT_SPREAD,
        AtLeast(threshold=0.9, steps=10),
        "the share of groups whose returns are all equal is {value} (alarm at {limit})",
        _FOR_SPREAD,
        needs="compared groups",
    ),
    Monitor(
        "return_std",
        metric.RETURN_STD,
        AtMost(threshold=1e-9, steps=1),
        "all episodes have the same return, so that good actions cannot be told from bad ones",
        "tasks that the policy solves sometimes, more tasks per step, or a finer reward",
        needs="no compared groups",
        of_policy=True,
    ),
    Monitor(
        "empty_update",
        metric.UPDATE_TRAJECTORIES,
        AtMost(threshold=0, steps=1),
        "there is nothing to train on: every group was filtered out or failed",
        "more tasks per step, algorithm.filter=resample, or a look at why episodes fail",
    ),
    Monitor(
        "filtered_out",
        metric.UPDATE_TRAJECTORIES,
        AtMost(threshold=0, steps=5),
        "step after step had no trajectory to train on",
        "more tasks per step, algorithm.filter=resample, or a look at why episodes fail",
        severe=True,
    ),
    Monitor(
        "bootstrapped_without_critic",
        metric.UPDATE_BOOTSTRAPPED_WITHOUT_CRITIC,
        AtLeast(threshold=1, steps=1),
        "an outer limit cut episodes, and without a critic the algorithm treats them as complete",
        "an algorithm with a critic, or a later limit",
        needs="no critic",
    ),
    # Does the policy still explore, and does it stay a policy?
    Monitor(
        "entropy_collapse",
        metric.UPDATE_ENTROPY,
        Fall(threshold=0.05, steps=10),
        "the entropy of the policy has fallen to {value} nats (alarm at {limit})",
        f"algorithm.entropy_coef, a larger algorithm.clip_high, {_LOWER_RATE}",
        of_policy=True,
    ),
    Monitor(
        "entropy_explosion",
        metric.UPDATE_ENTROPY,
        Growth(threshold=3, steps=5),
        "the entropy of the policy has grown to {value} nats (alarm at {limit})",
        f"{_LOWER_RATE}, no entropy bonus, or a KL to the reference",
    ),
    Monitor(
        "grad_norm",
        metric.UPDATE_GRAD_NORM,
        Spike(threshold=5, steps=3),
        "the norm of the gradient has jumped to {value} (alarm at {limit})",
        f"{_LOWER_RATE}, a smaller training.max_grad_norm, or an earlier checkpoint",
    ),
    Monitor(
        "nonfinite",
        metric.UPDATE_SKIPPED_NONFINITE,
        AtLeast(threshold=1, steps=1),
        "a gradient, advantage or reward was not finite, and that update was skipped",
        f"{_LOWER_RATE}, model.dtype=float32, or a look at the rewards and the algorithm's loss",
    ),
    Monitor(
        "zero_update",
        metric.UPDATE_SKIPPED_ZERO,
        AtLeast(threshold=1, steps=3),
        "step after step an update was left out because its gradient was zero",
        "rewards that differ within a group, or a look at the algorithm's advantages and loss",
    ),
    Monitor(
        "kl_reference",
        metric.UPDATE_KL_REFERENCE,
        AtLeast(threshold=0.5, steps=5),
        "the policy is {value} nats a token away from the reference (alarm at {limit})",
        f"a larger algorithm.kl_coef, or {_LOWER_RATE}",
        needs="reference",
    ),
    Monitor(
        "clip_fraction",
        metric.UPDATE_CLIP_FRACTION,
        AtLeast(threshold=0.3, steps=5),
        "the clip bounds the ratio of {value} of the loss tokens (alarm at {limit})",
        f"fewer epochs or mini-batches, or {_LOWER_RATE}",
        needs="several passes",
    ),
    Monitor(
        "information",
        metric.INFORMATION,
        MeasuredFall(threshold=0.5, steps=3),
        "what the policy says first depends on the task by {value} nats of mutual information (alarm at {limit})",
        _AGAINST_TEMPLATES,
        needs="measurements",
    ),
    Monitor(
        "retrieval",
        metric.RETRIEVAL,
        AtMost(threshold=0.25, steps=3),
        "only {value} of the first actions are likeliest after their own prompt (alarm at {limit})",
        _AGAINST_TEMPLATES,
        needs="measurements",
    ),
    Monitor(
        "thought_effect",
        metric.THOUGHT_EFFECT,
        MeasuredFall(threshold=0.25, steps=3),
        "actions are only {value} nats a token likelier for the thought before them (alarm at {limit})",
        f"a task that needs a thought, the reward grounded, or {_LOWER_RATE}",
        needs="measured thoughts",
    ),
    # Do engine and learner mean the same policy?
    Monitor(
        "prob_gap",
        metric.PROB_GAP,
        AtLeast(threshold=0.01, steps=1),
        "engine and learner disagree by {value} in mean probability (healthy: below .005, alarm at {limit})",
        "the same precision in both, training.importance_clip=2, or a report of the fault",
    ),
    Monitor(
        "logprob_gap",
        metric.LOGPROB_GAP,
        AtLeast(threshold=0.1, steps=3),
        "engine and learner disagree by {value} nats in mean log-prob (alarm at {limit})",
        "the same precision in both, training.importance_clip=2, or a report of the fault",
    ),
    Monitor(
        "importance_clip",
        metric.UPDATE_IMPORTANCE_CLIPPED,
        AtLeast(threshold=0.05, steps=3),
        "training.importance_clip bounds the weights of {value} of the action tokens (alarm at {limit})",
        "the same precision in engine and learner, a smaller training.max_staleness or lr, or a report of the fault",
        needs="importance weights",
    ),
    Monitor(
        "mismatch_mask",
        metric.UPDATE_MISMATCH_MASKED,
        AtLeast(threshold=0.3, steps=3),
        "training.mismatch_mask leaves {value} of the action tokens out (alarm at {limit})",
        "the same precision in engine and learner, wider bounds (training.mismatch_low and mismatch_high), or icepop",
        needs="a mismatch mask",
    ),
    Monitor(
        "mixed_groups",
        metric.ROLLOUT_MIXED_GROUPS,
        AtLeast(threshold=1, steps=1),
        "{value} groups mix episodes of several versions of the policy, which a group baseline must not compare",
        "an engine that takes new weights between rollouts alone",
        needs="one version",
    ),
    # What do the episodes look like?
    Monitor(
        "length",
        metric.EPISODE_ACTION_TOKENS,
        Growth(threshold=3, steps=5),
        "an episode's actions have grown to {value} tokens (alarm at {limit})",
        "aggregation=token_mean or constant, a penalty for length, or a smaller engine.max_new_tokens",
        of_policy=True,
    ),
    Monitor(
        "cut_actions",
        metric.EPISODE_CUT_ACTIONS,
        AtLeast(threshold=0.3, steps=5),
        "a token budget cuts {value} of the actions (alarm at {limit})",
        "a larger engine.max_new_tokens or env.max_tokens, or a penalty for length",
    ),
    Monitor(
        "truncated",
        metric.EPISODE_TERMINATED,
        AtMost(threshold=0.5, steps=10),
        "only {value} of the episodes come to their own end (alarm at {limit})",
        "a larger env.max_turns or env.max_tokens, or a prompt that says when to answer",
    ),
    Monitor(
        "repetition",
        metric.EPISODE_REPETITION,
        AtLeast(threshold=0.3, steps=5),
        "{value} of what an action says, it says again (alarm at {limit})",
        f"{_LOWER_RATE}, a KL to the reference, or a penalty for repetition",
    ),
    Monitor(
        "malformed",
        metric.EPISODE_MALFORMED,
        AtLeast(threshold=0.5, steps=5),
        "the environment cannot read a part of {value} of the actions (alarm at {limit})",
        "a system prompt that shows the format, a reward for the format, or a few demonstrations first",
    ),
    Monitor(
        "tool_calls",
        metric.TOOL_CALLS,
        Fall(threshold=0.1, steps=5),
        "the policy has all but stopped calling tools: {value} calls an episode (alarm at {limit})",
        f"a reward that guessing does not earn, tasks that need the tools, or {_LOWER_RATE}",
        per=(metric.ROLLOUT_EPISODES,),
        needs="tools",
        of_policy=True,
    ),
    Monitor(
        "repeated_calls",
        metric.EPISODE_REPEATED_CALLS,
        AtLeast(threshold=0.3, steps=5),
        "{value} of the tool calls repeat one of the same episode (alarm at {limit})",
        "a reward that repeated calls do not earn, or a smaller env.max_turns",
        needs="tools",
    ),
    Monitor(
        "tool_errors",
        metric.TOOL_ERRORS,
        AtLeast(threshold=0.5, steps=5),
        "{value} of the tool calls are answered with an error (alarm at {limit})",
        "a look at the errors in the trajectories, a longer time-out, or a clearer description of the tool",
        per=(metric.TOOL_CALLS,),
        needs="tools",
    ),
    Monitor(
        "tools_away",
        metric.TOOL_AWAY,
        AtLeast(threshold=0.1, steps=2),
        "{value} of the calls of a tool found the service behind it away (alarm at {limit})",
        "a look at the service, and a resume from a checkpoint of before it went",
        needs="tools",
    ),
    Monitor(
        "failed_episodes",
        metric.ROLLOUT_FAILED,
        AtLeast(threshold=0.1, steps=3),
        "{value} of the episodes failed at every attempt (alarm at {limit})",
        "the reasons in the notes of the run: repair what raises, and let fewer of what is too slow run at once",
        per=(metric.ROLLOUT_EPISODES, metric.ROLLOUT_FAILED),
    ),
    Monitor(
        "retried_episodes",
        metric.ROLLOUT_RETRIES,
        AtLeast(threshold=0.1, steps=3),
        "{value} of the attempts at an episode failed and were played again (alarm at {limit}): what is learnt from is "
        "what did not fail",
        "the reasons that the run told: repair what raises, and let fewer of what is too slow run at once",
        per=(metric.ROLLOUT_EPISODES, metric.ROLLOUT_FAILED, metric.ROLLOUT_RETRIES),
    ),
    # Does it still get better?
    Monitor(
        "reward",
        metric.REWARD_MEAN,
        Loss(threshold=0.25, steps=5),
        "the mean reward has fallen to {value} from its best (alarm at {limit})",
        f"the best checkpoint and from there {_LOWER_RATE}",
        of_policy=True,
    ),
    Monitor(
        "exact_match",
        EXACT_MATCH.under(metric.EVALUATION),
        AtMost(threshold=0.01, steps=5),
        "evaluation after evaluation the exact match is {value} (alarm at {limit})",
        "easier tasks, a model that solves some of them, or a look at the episodes with agent-r1 rollout",
        needs="evaluations",
        severe=True,
    ),
    Monitor(
        "success",
        SUCCESS.under(metric.EVALUATION),
        AtMost(threshold=0.01, steps=5),
        "evaluation after evaluation the success is {value} (alarm at {limit})",
        "easier tasks, a model that solves some of them, or a look at the episodes with agent-r1 rollout",
        needs="evaluations",
        severe=True,
    ),
)
