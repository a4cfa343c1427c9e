"""LAW 1, whatever chat template a model brings: what it cannot say is said otherwise, once, and nothing is lost."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from agent_r1_tool_formats.hermes import Hermes
from agent_r1_tool_formats.search_tags import SearchTags
from stage import Recorder, Stage
from test_law_01_what_was_sampled_is_trained import assert_as_sampled, assert_trained_as_sampled

from agent_r1_core import Task, ToolCall, ToolFormat, tool
from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.testing import ScriptedPolicy, tiny_tokenizer

AS_TOOL, AS_USER = "<|im_start|>tool\n", "<|im_start|>user\n<tool_response>\n"
FUNCTION = "{%- for call in message.tool_calls or [] -%}{%- set function = call.function -%}"
HERMES_CALLS = FUNCTION + (
    "{{- '<tool_call>' + ({'name': function.name, 'arguments': function.arguments} | tojson) + '</tool_call>' -}}"
    "{%- endfor -%}"
)
OTHER_CALLS = FUNCTION + "{{- function.name + '(' + function.arguments.values() | join + ')' -}}{%- endfor -%}"
TOOLS = "{%- if tools -%}{{- 'Call as in OTHER(text): ' + tools | tojson + '\n' -}}{%- endif -%}"


def chatml(
    head: str = "",
    guard: str = "",
    said: str = "{{- message.content -}}",
    result: str = "{{- '<|im_start|>tool\n' + message.content + '<|im_end|>\n' -}}",
    prompt: str = "",
) -> str:
    """A template: `head` comes first, `guard` before each message, `said` is what a message says, `result` writes a
    tool's, and `prompt` is how an action is begun."""
    said = "{{- '<|im_start|>' + message.role + '\n' -}}" + said + "{{- '<|im_end|>\n' -}}"
    message = guard + "{%- if message.role == 'tool' -%}" + result + "{%- else -%}" + said + "{%- endif -%}"
    end = "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n" + prompt + "' -}}{%- endif -%}"
    return head + "{%- for message in messages -%}" + message + "{%- endfor -%}" + end


@dataclass(frozen=True)
class Shape:
    """A template, how its models write, and what becomes of it."""

    template: str
    results: str = AS_TOOL
    """What stands before the result of a call in `hermes`."""
    thought: str = ""
    """How an action begins."""
    segments: tuple[int, ...] = (0, 0, 0)
    taught: bool = False
    """Whether the template itself describes the tools."""


CHANNELS = chatml(
    guard="{%- if '<|channel|>' in message.content -%}{{- raise_exception('give thoughts apart') -}}{%- endif -%}",
    said="{{- '<|channel|>final<|message|>' if message.role == 'assistant' -}}{{- message.content -}}",
    result="{{- raise_exception('a result without tool_calls before it') -}}",
)
SHAPES = {
    "knows-no-tools": Shape(chatml()),
    "takes-tools": Shape(chatml(TOOLS, said="{{- message.content -}}" + HERMES_CALLS), taught=True),
    "takes-tools-and-writes-no-calls": Shape(chatml(TOOLS), taught=True),
    "teaches-other-calls": Shape(chatml(TOOLS, said="{{- message.content -}}" + OTHER_CALLS)),
    "takes-tools-or-a-system-message": Shape(
        chatml("{%- if tools -%}{{- tools | tojson -}}{%- set messages = messages[1:] -%}{%- endif -%}")
    ),
    "shows-tools-without-a-system-message": Shape(
        chatml("{%- if messages[0].role != 'system' -%}" + TOOLS + "{%- endif -%}")
    ),
    "user-and-assistant-in-turn": Shape(
        chatml(
            guard="{%- if message.role != ['user', 'assistant'][loop.index0 % 2] -%}"
            "{{- raise_exception('user and assistant must alternate') -}}{%- endif -%}"
        ),
        results=AS_USER,
    ),
    "counts-results-by-their-calls": Shape(
        chatml(
            head="{%- set state = namespace(begun=false) -%}",
            result="{%- if not state.begun -%}{{- '<|im_start|>tool\n' -}}{%- set state.begun = true -%}{%- endif -%}"
            "{{- message.content + '<|im_end|>\n' -}}",
        ),
        results=AS_USER,
    ),
    "ends-only-the-last-result": Shape(
        chatml(
            result="{{- '<|im_start|>tool\n' + message.content -}}"
            "{%- if loop.last -%}{{- '<|im_end|>\n' -}}{%- endif -%}"
        ),
        results=AS_USER,
    ),
    "quotes-results": Shape(
        chatml(result="{{- '<|im_start|>tool\n' + message.content | tojson + '<|im_end|>\n' -}}"), results=AS_TOOL + '"'
    ),
    "opens-thoughts": Shape(chatml(prompt="<think>\n"), thought="Hm.\n</think>\n"),
    "drops-thoughts": Shape(
        chatml(
            said="{%- set parts = message.content.split('</think>') -%}"
            "{{- parts[-1] if message.role == 'assistant' else message.content -}}",
            prompt="<think>\n",
        ),
        thought="Hm.\n</think>\n",
        segments=(0, 1, 2),
    ),
    "names-the-channel": Shape(CHANNELS, results=AS_USER, thought="<|channel|>final<|message|>"),
    "drops-a-channel": Shape(
        CHANNELS,
        results=AS_USER,
        thought="<|channel|>analysis<|message|>Hm.<|end|><|channel|>final<|message|>",
        segments=(0, 1, 2),
    ),
    "renames-a-channel": Shape(CHANNELS, AS_USER, "<|channel|>commentary<|message|>", segments=(0, 1, 2)),
}

SHOWN = {"": "", "Hm.\n</think>\n": "<think>\nHm.\n</think>\n", "<|channel|>final<|message|>": ""}
"""What a file of demonstrations, which knows no family of models, has in place of a policy's beginning."""


@tool
def lookup(name: str) -> str:
    """Looks a name up, by hand."""
    return f"Found {name}."


@pytest.mark.parametrize("tool_format", [Hermes(), SearchTags()], ids=["hermes", "search_tags"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_an_episode_of_two_calls(shape: Shape, tool_format: ToolFormat) -> None:
    raw = tiny_tokenizer(shape.template)
    raw.add_tokens(["<|channel|>", "<|message|>", "<|end|>"], special_tokens=True)
    tokenizer, hermes = ChatTokenizer(raw, name="some/model"), isinstance(tool_format, Hermes)
    tool_format.bind([lookup().schema()])
    calls = [tool_format.render_call(ToolCall("lookup", {"name": name})) for name in ("Ada", "Bo")]
    script = [shape.thought + said for said in (*calls, "<answer>Tavelo</answer>")]
    recorder = Recorder(ScriptedPolicy(script, tokenizer))
    options = {"system_prompt": None, "max_tokens": 20_000}
    result = Stage(recorder, [lookup()], tokenizer=tokenizer, env=options, tool_format=tool_format).play(
        [Task("q", "Where was Ada's child born?", ("Tavelo",))]
    )
    (one,) = result.groups[0].trajectories
    assert_as_sampled(one, recorder)
    assert_trained_as_sampled(result, recorder)
    assert (one.answer, [turn.errors for turn in one.turns]) == ("Tavelo", [[], [], []])
    assert tuple(turn.segment for turn in one.turns) == shape.segments
    assert tokenizer.decode([tokenizer.end_id]) == "<|im_end|>"
    begun = tokenizer.decode(one.segments[0].ids[: one.turns[0].start])
    read = tokenizer.decode(one.segments[-1].ids[: one.turns[-1].start])
    asked = "Solve the task step by step" if hermes else "Answer the question. Think first"
    for text in (begun, read):
        assert [text.count(said) for said in (asked, "Where was Ada's child born?")] == [1, 1]
        assert text.count("Looks a name up, by hand.") == hermes, "described once, where the format needs it"
        assert ("Call as in OTHER" in text) == (hermes and shape.taught), "one syntax is taught, the format's"
    if shape.thought:
        assert read.count(shape.thought) == (0 if any(shape.segments) else 2), "kept or dropped, and never doubled"
    before = shape.results if hermes else "<|im_start|>user\n<information>"
    assert [read.count(text) for text in (*calls, f"{before}Found Ada.", f"{before}Found Bo.")] == [1, 1, 1, 1]
    if shape.thought not in SHOWN:
        return
    said = [SHOWN[shape.thought] + said for said in (*calls, "<answer>Tavelo</answer>")]
    messages = [{"role": "assistant", "content": text} for text in said]
    result = Stage(ScriptedPolicy(["no"]), [lookup()], tokenizer=tokenizer, env=options, tool_format=tool_format).play(
        [Task("q", "Where was Ada's child born?", ("Tavelo",), demonstration=messages)], demonstrations="tools"
    )
    (shown,) = result.groups[0].trajectories
    assert [(one.ids, one.mask) for one in shown.segments] == [(each.ids, each.mask) for each in one.segments]


def test_what_stands_in_a_thought_that_the_prompt_opened_and_nobody_closed_is_not_said() -> None:
    tokenizer = ChatTokenizer(tiny_tokenizer(SHAPES["opens-thoughts"].template))
    call = Hermes().render_call(ToolCall("lookup", {"name": "Ada"}))
    script = [f"So {call}", "Maybe <answer>Vesano</answer>", "Hm.\n</think>\n<answer>Tavelo</answer>"]
    stage = Stage(ScriptedPolicy(script, tokenizer), [lookup()], tokenizer=tokenizer, env={"max_tokens": 20_000})
    (one,) = stage.play([Task("q", "Where was Ada's child born?", ("Tavelo",))]).groups[0].trajectories
    assert (one.answer, [len(turn.calls) for turn in one.turns]) == ("Tavelo", [0, 0, 0])
