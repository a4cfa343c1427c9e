"""Declares the task sources of questions."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import TaskSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_tasks() -> Iterable[TaskSpec]:
    return [
        TaskSpec(
            "hotpotqa",
            "agent_r1_questions.hotpotqa:HotpotQA",
            "Multi-hop questions over Wikipedia with their paragraphs, from a local file or the hub",
        ),
        TaskSpec(
            "2wikimultihopqa",
            "agent_r1_questions.two_wiki:TwoWikiMultihopQA",
            "Questions of 2 and 4 hops over Wikipedia and Wikidata with their paragraphs, from a local file or the hub",
        ),
        TaskSpec(
            "musique",
            "agent_r1_questions.musique:MuSiQue",
            "Questions of 2 to 4 hops over Wikipedia with their paragraphs, from a local file or the hub",
        ),
        TaskSpec(
            "bamboogle",
            "agent_r1_questions.bamboogle:Bamboogle",
            "125 two-hop questions without paragraphs, a test set, from a local file or the hub",
        ),
        TaskSpec(
            "qa",
            "agent_r1_questions.qa:QA",
            "Questions and answers of your own: any JSON, JSON Lines, Parquet or CSV file, or a hub data set",
        ),
        TaskSpec(
            "table",
            "agent_r1_questions.table:Table",
            "Tasks from columns that you name, of any JSON, JSON Lines, Parquet or CSV file, or a hub data set",
        ),
    ]
