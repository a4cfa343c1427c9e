"""The metrics of the core: what training steps and evaluations report, each declared once.

A step's metrics are in `metrics.jsonl`; those of its evaluation, if it had one, are under `eval/`, or under
`eval/<set>/` if there are several sets.
"""

from __future__ import annotations

from agent_r1_core.contracts.metric import Metric
from agent_r1_core.metrics.scorers import REPORTED, REWARD, REWARD_MEAN

# Rewards, means over the step's episodes.
RETURN_OF_SET = Metric(
    "train/<set>/return", "return of an episode on a task of this one of several training sets", better="higher"
)

# Episodes, means over those that did not fail.
EPISODE_TURNS = Metric("episode/turns", "turns of an episode, without summaries of its context")
EPISODE_ACTION_TOKENS = Metric("episode/action_tokens", "tokens of an episode's actions", unit="tokens")
EPISODE_TOKENS = Metric("episode/tokens", "all tokens of an episode", unit="tokens")
EPISODE_SEGMENTS = Metric("episode/segments", "segments of an episode: 1 unless its context was rewritten")
EPISODE_SUMMARIES = Metric("episode/summaries", "summaries of its context that the policy wrote in an episode")
EPISODE_CUT_SUMMARIES = Metric(
    "episode/cut_summaries",
    "summaries that a token budget cut; they are used as they are",
    unit="share",
    better="lower",
)
EPISODE_EMPTY_SUMMARIES = Metric(
    "episode/empty_summaries", "summaries without a word besides thinking", unit="share", better="lower"
)
EPISODE_TERMINATED = Metric("episode/terminated", "episodes that came to their own end", unit="share", better="higher")
EPISODE_ANSWERED = Metric("episode/answered", "episodes with a final answer", unit="share", better="higher")
EPISODE_CUT_ACTIONS = Metric("episode/cut_actions", "actions that a token budget cut", unit="share", better="lower")
EPISODE_MALFORMED = Metric(
    "episode/malformed",
    "turns in which the environment could not read a part of the action",
    unit="share",
    better="lower",
)
EPISODE_REPETITION = Metric(
    "episode/repetition",
    "runs of 8 tokens that occurred earlier in the same action",
    unit="share",
    better="lower",
)
EPISODE_REPEATED_CALLS = Metric(
    "episode/repeated_calls",
    "tool calls that repeat an earlier one of their episode, name and arguments",
    unit="share",
    better="lower",
)
EPISODE_SUCCESS = Metric(
    "episode/success",
    "episodes that the environment called a success, of those that it judged or a budget cut",
    unit="share",
    better="higher",
)

# The rollout as a whole.
ROLLOUT_EPISODES = Metric(
    "rollout/episodes", "episodes that did not fail, greedy baselines not counted", better="higher"
)
ROLLOUT_FAILED = Metric("rollout/failed", "episodes that failed at every attempt and are left out", better="lower")
ROLLOUT_RETRIES = Metric("rollout/retries", "attempts beyond each episode's first", better="lower")
ROLLOUT_BRANCHED = Metric(
    "rollout/branched", "episodes that branched off from another one of their group", unit="share"
)
ROLLOUT_REPEATED = Metric(
    "rollout/repeated_tokens",
    "action tokens that branches repeat, and no engine sampled for them",
    unit="share",
)
ROLLOUT_HUNG = Metric(
    "rollout/hung", "calls of tools, environments and rewards that did not return in time", better="lower"
)
ROLLOUT_TOKENS_PER_SECOND = Metric(
    "rollout/tokens_per_second", "sampled tokens a second, waiting for tools included", unit="tokens/s", better="higher"
)
ROLLOUT_MIXED_GROUPS = Metric(
    "rollout/mixed_groups", "groups whose episodes were sampled by several versions of the weights", better="lower"
)
ROLLOUT_STALENESS = Metric(
    "rollout/staleness", "versions that a sampled token is older than the weights that learn from it", better="lower"
)
ROLLOUT_STALENESS_MAX = Metric("rollout/staleness_max", "the same of the oldest token", better="lower")
ROLLOUT_GROUPS_KEPT = Metric("rollout/groups_kept", "groups that `algorithm.filter` kept", unit="share")
CURRICULUM_PASSED = Metric("curriculum/passed", "tasks that the step passed over, since their groups had no spread")
CURRICULUM_RESTING = Metric("curriculum/resting", "tasks to be passed over, before the step", unit="share")
CURRICULUM_SHARE = Metric("curriculum/<part>/share", "tasks to be drawn from this part, before the step", unit="share")
CURRICULUM_SPREAD = Metric(
    "curriculum/<part>/spread", "recent groups of this part whose returns differed, before the step", unit="share"
)
BASELINE_RETURN = Metric(
    "baseline/greedy_return", "return of a task's greedy baseline, mean over tasks", better="higher"
)
BASELINE_FAILED = Metric(
    "baseline/failed", "greedy baselines that failed at every attempt: their groups are left out", better="lower"
)

# Tools.
TOOL_CALLS = Metric("tools/calls", "tool calls of the step")
TOOL_ERRORS = Metric("tools/errors", "tool calls that were answered with an error", better="lower")
TOOL_TIMEOUTS = Metric("tools/timeouts", "tool calls that exceeded their time-out", better="lower")
TOOL_AWAY = Metric(
    "tools/away",
    "calls that found the service behind their tool away, of the tool with the largest share; of tools that record "
    "`away` (0 or 1 a call)",
    unit="share",
    better="lower",
)
CALLS_OF_TOOL = Metric("tools/<tool>/calls", "calls of this tool")
ERRORS_OF_TOOL = Metric("tools/<tool>/errors", "calls of this tool that were answered with an error", better="lower")
SECONDS_OF_TOOL = Metric("tools/<tool>/seconds", "mean time of a call of this tool", unit="s", better="lower")

# The environment's own numbers.
ENV = Metric("env/<key>", "mean over turns of a number in the environment's `info`")

# Health.
RETURN_STD = Metric("health/return_std", "standard deviation (n - 1) of the returns of all episodes")
GROUP_STD = Metric(
    "health/group_std", "mean over groups of the standard deviation (n - 1) of their returns; falls before a collapse"
)
GROUPS_WITHOUT_SPREAD = Metric(
    "health/groups_without_spread",
    "groups whose returns are all equal: they teach nothing",
    unit="share",
    better="lower",
)
INFORMATION = Metric(
    "health/information",
    "mutual information of tasks and first actions: 0 if what is said first does not depend on what was asked",
    unit="nats",
    better="higher",
)
RETRIEVAL = Metric(
    "health/retrieval",
    "first actions that are likelier after their own prompt than after any other of the measurement",
    unit="share",
    better="higher",
)
THOUGHT_EFFECT = Metric(
    "health/thought_effect",
    "how much likelier a token of an action is after its own thought than after an empty or another one, whichever "
    "suits it better; 0 if actions do not depend on thoughts",
    unit="nats",
    better="higher",
)
LOGPROB_GAP = Metric(
    "logprob_gap",
    "mean |difference| of the log-probs of engine and learner, at tokens of the newest weights",
    unit="nats",
    better="lower",
)
PROB_GAP = Metric(
    "prob_gap",
    "mean |difference| of the probabilities of engine and learner; healthy below .005, a fault above .01",
    better="lower",
)

# The update.
UPDATE_TRAJECTORIES = Metric("update/trajectories", "trajectories that the update was given")
UPDATE_FAILED_TRAJECTORIES = Metric(
    "update/failed_trajectories",
    "failed trajectories that the update was given; a rollout leaves out its own before",
    better="lower",
)
UPDATE_ACTION_TOKENS = Metric("update/action_tokens", "action tokens of the update's trajectories", unit="tokens")
UPDATE_SKIPPED_SHARE = Metric(
    "update/skipped_share", "trajectories left out because no loss term has a gradient on them", unit="share"
)
UPDATE_MEASURED_SHARE = Metric(
    "update/measured_share",
    "loss tokens that entropy, ratio, clip_fraction and the KLs cover: those of trajectories that were not skipped",
    unit="share",
)
UPDATE_BOOTSTRAPPED_WITHOUT_CRITIC = Metric(
    "update/bootstrapped_without_critic",
    "episodes that an outer limit cut, taken as complete because there is no critic to value the rest",
    better="lower",
)
UPDATE_SURPRISAL = Metric("update/surprisal", "mean negative log-prob of the sampled tokens", unit="nats")
UPDATE_ENTROPY = Metric("update/entropy", "mean entropy of the policy at the action tokens it learnt from", unit="nats")
UPDATE_ENTROPY_COEF = Metric("update/entropy_coef", "weight of the entropy bonus, where it has a target")
UPDATE_OBSERVATION_LOSS = Metric(
    "update/observation_loss",
    "mean negative log-prob of the environment's tokens, where `algorithm.observation_coef` trains on them",
    unit="nats",
)
UPDATE_ADVANTAGE_MEAN = Metric(
    "update/advantage_mean", "mean advantage of the loss tokens, before importance weights and mismatch masks"
)
UPDATE_ADVANTAGE_STD = Metric("update/advantage_std", "standard deviation of the loss tokens' advantages")
UPDATE_ADVANTAGE_MAX = Metric("update/advantage_max", "largest |advantage| of a loss token")
UPDATE_LOSS = Metric("update/loss", "the policy's loss, mean over mini-batches")
UPDATE_CLIP_FRACTION = Metric("update/clip_fraction", "loss tokens whose ratio the clip bounds", unit="share")
UPDATE_RATIO = Metric(
    "update/ratio",
    "mean ratio of the policy's probability to that before the update; 1 with `staleness_correction: truncated`",
)
UPDATE_KL_STEP = Metric(
    "update/kl_step",
    "KL(policy before the update || policy), estimator k3, with importance weights where there are any; from the "
    "policy that sampled with `staleness_correction: truncated`, and where the loss compares with it",
    unit="nats",
)
UPDATE_KL_REFERENCE = Metric("update/kl_reference", "estimated KL(policy || reference)", unit="nats")
UPDATE_IMPORTANCE_WEIGHT = Metric("update/importance_weight", "mean truncated importance weight of an action token")
UPDATE_IMPORTANCE_CLIPPED = Metric(
    "update/importance_clipped",
    "action tokens whose importance weight `training.importance_clip` bounds",
    unit="share",
    better="lower",
)
UPDATE_MISMATCH_MASKED = Metric(
    "update/mismatch_masked",
    "action tokens that `training.mismatch_mask` leaves out, of those of trajectories that were not skipped",
    unit="share",
    better="lower",
)
UPDATE_MISMATCH_SEGMENTS = Metric(
    "update/mismatch_segments", "segments with such a token, of those with actions", unit="share", better="lower"
)
UPDATE_STEPS = Metric("update/steps", "optimiser steps of the policy")
UPDATE_LR = Metric("update/lr", "learning rate of the policy")
UPDATE_GRAD_NORM = Metric("update/grad_norm", "norm of the policy's gradient before clipping")
UPDATE_SKIPPED_NONFINITE = Metric(
    "update/skipped_nonfinite",
    "updates left out because a gradient, advantage or reward was not finite",
    better="lower",
)
UPDATE_SKIPPED_ZERO = Metric("update/skipped_zero", "optimiser steps left out because the gradient was zero")
VALUE_LOSS = Metric("update/value_loss", "the critic's loss, mean over mini-batches", better="lower")
CRITIC_STEPS = Metric("update/critic_steps", "optimiser steps of the critic")
CRITIC_LR = Metric("update/critic_lr", "learning rate of the critic")
CRITIC_GRAD_NORM = Metric("update/critic_grad_norm", "norm of the critic's gradient before clipping")
CRITIC_SKIPPED_NONFINITE = Metric(
    "update/critic_skipped_nonfinite", "steps of the critic left out because a gradient was not finite", better="lower"
)
CRITIC_SKIPPED_ZERO = Metric("update/critic_skipped_zero", "steps of the critic left out because the gradient was zero")

# Time of a step.
TIME_STEP = Metric("time/step", "the whole step, evaluation included", unit="s", better="lower")
TIME_ROLLOUT = Metric("time/rollout", "collecting the episodes", unit="s", better="lower")
TIME_LEARNER_WAITS = Metric(
    "time/learner_waits", "share of the step in which the learner does not learn", unit="share", better="lower"
)
TIME_ROLLOUTS_WAIT = Metric(
    "time/rollouts_wait", "share of the step in which no training episode is in flight", unit="share", better="lower"
)
TIME_TOOLS = Metric("time/tools", "sum over tool calls, which may overlap", unit="s", better="lower")
TIME_UPDATE = Metric("time/update", "advantages, gradients, optimiser steps", unit="s", better="lower")
TIME_WEIGHTS = Metric("time/weights", "handing new weights to the engine", unit="s", better="lower")
TIME_HEALTH = Metric("time/health", "what monitors ask the learner for in the step", unit="s", better="lower")
TIME_EVALUATION = Metric("time/evaluation", "the step's evaluation", unit="s", better="lower")

# Evaluations, whose scores scorers.py declares.
EVALUATION = "eval/"
"""The prefix of a score in a step's metrics."""


def evaluated(score: str, of: str = "") -> str:
    """The name of a score in a step's metrics: `eval/exact_match`, or `eval/<set>/exact_match` of one set."""
    return f"{EVALUATION}{of}/{score}" if of else f"{EVALUATION}{score}"


DECLARED: tuple[Metric, ...] = (
    *(REWARD_MEAN, REWARD),
    *(value for value in list(globals().values()) if isinstance(value, Metric) and value not in REPORTED),
    *(score.under(EVALUATION) for score in REPORTED),
    *(score.under(f"{EVALUATION}<set>/") for score in REPORTED),
)
"""Every metric of a step."""
