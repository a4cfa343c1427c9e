"""A `ToolCallingAgent` of smolagents on Chat Completions, which writes its calls into its history as text."""

from typing import Any

from episodes import PLAIN, Episode, play
from episodes import look_up as found
from openai import DefaultHttpxClient
from smolagents import LogLevel, OpenAIModel, ToolCallingAgent, tool


@tool
def look_up(name: str) -> str:
    """Says where somebody was born.

    Args:
        name: The person.
    """
    return found(name)


def run(episode: Episode) -> str | None:
    """The last answer."""
    answer: Any = None
    with DefaultHttpxClient(**PLAIN) as http:
        given = {"api_base": episode.base_url, "api_key": episode.api_key, "client_kwargs": {"http_client": http}}
        model = OpenAIModel("gpt-5", **given, tool_choice="auto")
        agent = ToolCallingAgent([look_up], model, max_steps=2, verbosity_level=LogLevel.OFF)
        agent.prompt_templates["system_prompt"] = "Look people up."
        for question in episode.questions:
            model.kwargs["max_tokens"] = episode.most_tokens()
            answer = agent.run(question, reset=False)
    return None if answer is None else str(answer)


play(run)
