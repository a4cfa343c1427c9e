"""An agent of `openai-agents` on Responses, with a function as a tool."""

import asyncio
from typing import Any

from agents import Agent, ModelSettings, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from agents.exceptions import AgentsException
from episodes import MOST_CALLS, PLAIN, Episode, look_up, play
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

set_tracing_disabled(True)


async def ask(episode: Episode) -> str | None:
    """The last answer."""
    http = DefaultAsyncHttpxClient(**PLAIN)
    async with AsyncOpenAI(base_url=episode.base_url, api_key=episode.api_key, http_client=http) as client:
        model = OpenAIResponsesModel("gpt-5", client)
        agent = Agent(name="Finder", instructions="Look people up.", tools=[function_tool(look_up)], model=model)
        items, answer = list[Any](), None
        for question in episode.questions:
            agent.model_settings = ModelSettings(
                max_tokens=episode.most_tokens(), store=False, response_include=["reasoning.encrypted_content"]
            )
            items.append({"role": "user", "content": question})
            try:
                result = await Runner.run(agent, items, max_turns=MOST_CALLS)
            except AgentsException:  # too many calls, or one that the library cannot read
                return None
            items, answer = result.to_input_list(), result.final_output
        return answer


play(lambda episode: asyncio.run(ask(episode)))
