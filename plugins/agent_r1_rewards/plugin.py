"""Declares the rewards of answers, of their form and length, of tool calls, of what they found, and of reasoning."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import RewardSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_rewards() -> Iterable[RewardSpec]:
    return [
        RewardSpec(
            "exact_match",
            "agent_r1_rewards.answers:ExactMatch",
            "1 when the answer is an accepted one after HotpotQA's normalisation",
        ),
        RewardSpec(
            "f1",
            "agent_r1_rewards.answers:F1",
            "Token overlap of the answer with the best accepted one, as HotpotQA counts it",
        ),
        RewardSpec(
            "numeric_match",
            "agent_r1_rewards.answers:NumericMatch",
            "1 when the answer is the accepted number, however it is written",
        ),
        RewardSpec(
            "format",
            "agent_r1_rewards.form:Format",
            "Share of well-formed parts: an answer in the agreed form, tool calls without syntax errors",
        ),
        RewardSpec(
            "em_with_format",
            "agent_r1_rewards.form:ExactMatchWithFormat",
            "Agent-R1's reward: exact match when all parts are well-formed, else the format score minus 1",
        ),
        RewardSpec(
            "overlong",
            "agent_r1_rewards.form:Overlong",
            "DAPO's penalty, 0 to -1, for sampling more tokens than planned",
        ),
        RewardSpec(
            "valid_tool_call",
            "agent_r1_rewards.calls:ValidToolCall",
            "Process reward: 1 for a turn whose call runs without error and is new in the episode",
        ),
        RewardSpec(
            "supporting_titles",
            "agent_r1_rewards.calls:SupportingTitles",
            "Process reward: share of the supporting passages that the turn's results show for the first time",
        ),
        RewardSpec(
            "grounded",
            "agent_r1_rewards.reasoning:Grounded",
            "Process reward: takes for names and numbers of thoughts and answers that the policy has not read",
        ),
        RewardSpec(
            "supported_answer",
            "agent_r1_rewards.reasoning:SupportedAnswer",
            "Process reward: 1 for an answer that stands in the prompt or in an observation",
        ),
        RewardSpec(
            "new_query",
            "agent_r1_rewards.reasoning:NewQuery",
            "Process reward: pays for a call that repeats none of the episode, for four at most",
        ),
        RewardSpec(
            "thought_effect",
            "agent_r1_rewards.thoughts:ThoughtEffect",
            "How much less likely the policy finds an episode's actions after no thoughts, and after other ones",
        ),
    ]
