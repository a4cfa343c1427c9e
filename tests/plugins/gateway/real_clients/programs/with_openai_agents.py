"""An agent of `openai-agents`, as its documentation begins: Responses, and a function as a tool."""

from typing import Any

import born
from agents import Agent, ModelSettings, Runner, function_tool, set_tracing_disabled
from agents.exceptions import AgentsException

set_tracing_disabled(True)


def main() -> str | None:
    """The last answer."""
    agent = Agent(name="Finder", instructions="Look people up.", tools=[function_tool(born.look_up)], model="gpt-5")
    items: list[Any] = []
    answer = None
    for question in born.QUESTIONS:
        agent.model_settings = ModelSettings(
            max_tokens=born.most_tokens(), store=False, response_include=["reasoning.encrypted_content"]
        )
        items.append({"role": "user", "content": question})
        result = Runner.run_sync(agent, items, max_turns=born.MOST_CALLS)
        items, answer = result.to_input_list(), result.final_output
    return answer


try:
    born.say(main())
except AgentsException:  # too many calls, or one that the library cannot read
    born.say(None)
