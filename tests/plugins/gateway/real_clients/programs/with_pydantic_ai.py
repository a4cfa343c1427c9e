"""An agent of `pydantic-ai` on Chat Completions, with a function as a tool."""

import asyncio

from episodes import MOST_CALLS, PLAIN, Episode, look_up, play
from openai import AsyncOpenAI, DefaultAsyncHttpxClient
from pydantic_ai import Agent, ModelSettings, UsageLimits
from pydantic_ai.exceptions import AgentRunError
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


async def ask(episode: Episode) -> str | None:
    """The last answer."""
    http = DefaultAsyncHttpxClient(**PLAIN)
    async with AsyncOpenAI(base_url=episode.base_url, api_key=episode.api_key, http_client=http) as client:
        model = OpenAIChatModel("gpt-5", provider=OpenAIProvider(openai_client=client))
        agent = Agent(model, instructions="Look people up.", tools=[look_up], retries=3)
        history, answer = None, None
        for question in episode.questions:
            settings, limits = ModelSettings(max_tokens=episode.most_tokens()), UsageLimits(request_limit=MOST_CALLS)
            try:
                result = await agent.run(
                    question, message_history=history, model_settings=settings, usage_limits=limits
                )
            except AgentRunError:  # too many calls, or a reply that the library cannot read
                return None
            history, answer = result.all_messages(), result.output
        return answer


play(lambda episode: asyncio.run(ask(episode)))
