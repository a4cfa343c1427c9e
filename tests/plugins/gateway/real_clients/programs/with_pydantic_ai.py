"""An agent of `pydantic-ai` on Chat Completions, with a function as a tool."""

import born
from pydantic_ai import Agent, ModelSettings, UsageLimits
from pydantic_ai.exceptions import AgentRunError
from pydantic_ai.models.openai import OpenAIChatModel


def main() -> str | None:
    """The last answer."""
    agent = Agent(OpenAIChatModel("gpt-5"), instructions="Look people up.", tools=[born.look_up], retries=3)
    history, answer = None, None
    for question in born.QUESTIONS:
        result = agent.run_sync(
            question,
            message_history=history,
            model_settings=ModelSettings(max_tokens=born.most_tokens()),
            usage_limits=UsageLimits(request_limit=born.MOST_CALLS),
        )
        history, answer = result.all_messages(), result.output
    return answer


try:
    born.say(main())
except AgentRunError:  # too many calls, or a reply that the library cannot read
    born.say(None)
