"""Replies that a client writes otherwise when it sends them back: the same reply is continued, another one is not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_r1_gateway_kit.behaviours.scripts import CHAT, MESSAGES, call, say

MADE: dict[str, Any] = {"who": "Karimo", "exact": False, "most": 1, "where": {"a": [1, 2], "b": None}}


def written(play, write):
    """A call whose arguments the client writes anew, and what follows."""
    with play(call("look", **MADE), say("Found it.")) as program:
        talk = program.talk(tools=["look"])
        first = talk.ask("Where?")
        function = talk.items[-1]["tool_calls"][0]["function"]
        function["arguments"] = write(json.loads(function["arguments"]))
        second = talk.results(first, "Tavelo").ask()
    return program, first, second


@CHAT
def test_keys_in_another_order(play):
    """A client sorts the keys of a call's arguments; the call is continued."""
    program, *replies = written(play, lambda made: json.dumps(made, sort_keys=True))
    program.trained(replies)


@CHAT
def test_arguments_without_white_space(play):
    """A client writes the arguments of a call as compact JSON; the call is continued."""
    program, *replies = written(play, lambda made: json.dumps(made, separators=(",", ":")))
    program.trained(replies)


@CHAT
def test_a_whole_number_as_a_float(play):
    """A client in a language with one kind of number sends 1 back as 1.0; the call is continued."""
    program, *replies = written(play, lambda made: json.dumps(made | {"most": 1.0}))
    program.trained(replies)


@CHAT
def test_arguments_as_python_prints_them(play):
    """A client prints its dictionary, so that `false` comes back as `False`; the call is continued."""
    program, *replies = written(play, str)
    program.trained(replies)


@CHAT
def test_a_value_that_changed(play):
    """A client sends `true` back where the model said `false`: the later turn reads what was sent, and both turns are
    trained where they were sampled."""
    program, first, second = written(play, lambda made: json.dumps(made | {"exact": True}))
    program.trained([first], [second])
    assert "true" in program.context(second)
    assert "false" not in program.context(second)


@CHAT
def test_empty_content_in_place_of_null(play):
    """A client writes empty text where a call had none, or leaves the field out; the call is continued."""
    for write in ({"content": ""}, {"content": None}, {}):
        with play(call("look", who="Karimo"), say("Found it.")) as program:
            talk = program.talk(tools=["look"])
            first = talk.ask("Where?")
            said = {name: value for name, value in talk.items[-1].items() if name != "content"}
            talk.items[-1] = said | write
            second = talk.results(first, "Tavelo").ask()
        program.trained([first, second])


@CHAT
def test_fields_that_an_sdk_adds(play):
    """A client sends a reply with the empty fields of its SDK; it is continued."""
    with play(say("Tavelo it is."), say("Indeed.")) as program:
        talk = program.talk()
        first = talk.ask("Where?")
        talk.items[-1] |= {"refusal": None, "annotations": [], "audio": None, "function_call": None, "tool_calls": None}
        second = talk.ask("Sure?")
    program.trained([first, second])


@pytest.mark.parametrize("api", ["chat", "messages"], indirect=True)
def test_a_list_of_one_block(play):
    """A client writes texts as lists of one block, and as strings again; the conversation is continued."""
    with play(say("Tavelo it is."), say("Indeed."), say("Done now.")) as program:
        talk = program.talk()
        replies = [talk.ask("Where?")]
        for text in ("Sure?", "Fine?"):
            for item in talk.items:
                given = item["content"]
                item["content"] = [{"type": "text", "text": given}] if isinstance(given, str) else given[0]["text"]
            replies.append(talk.ask(text))
    program.trained(replies)


@MESSAGES
def test_cache_marks_that_move(play):
    """A client moves `cache_control` to the newest message of every request; the conversation is continued."""
    with play(call("look", who="Ada"), say("Found it."), say("Indeed.")) as program:
        talk = program.talk(tools=["look"])
        mark = {"cache_control": {"type": "ephemeral"}}
        talk.fields["system"] = [{"type": "text", "text": "Be brief.", **mark}]
        talk.items.append({"role": "user", "content": [{"type": "text", "text": "Where?", **mark}]})
        replies = [talk.ask()]
        del talk.items[0]["content"][0]["cache_control"]
        talk.results(replies[0], "Tavelo").items[-1]["content"][-1] |= mark
        replies.append(talk.ask())
        del talk.items[2]["content"][-1]["cache_control"]
        talk.items.append({"role": "user", "content": [{"type": "text", "text": "Sure?", **mark}]})
        replies.append(talk.ask())
    program.trained(replies)


@CHAT
def test_ids_of_calls_that_are_renamed(play):
    """A client gives calls ids of its own; the call is continued."""
    with play(call("look", who="Karimo"), say("Found it.")) as program:
        talk = program.talk(tools=["look"])
        first = talk.ask("Where?")
        talk.items[-1]["tool_calls"][0]["id"] = "mine"
        talk.items.append({"role": "tool", "tool_call_id": "mine", "content": "Tavelo"})
        second = talk.ask()
    program.trained([first, second])


def test_a_reply_that_a_program_corrected(play):
    """A program changes what the model said: the later turn reads the correction, which is no action."""
    with play(say("Tavelo it is."), say("Indeed.")) as program:
        first = program.talk().ask("Where?")
        second = program.talk().user("Where?").said("Karimo lives in Sorell.").ask("Sure?")
    program.trained([first], [second])
    assert "Sorell" in program.context(second)
    assert "Tavelo it is." not in program.context(second)


def test_a_reply_without_its_white_space(play):
    """A program strips the replies that it sends back: the later turn reads what was sent."""
    with play(say("Tavelo it is.\n\n"), say("Indeed.")) as program:
        first = program.talk().ask("Where?")
        second = program.talk().user("Where?").said(first.text.strip()).ask("Sure?")
    program.end()
    together = program.end().action(1).prompt[: len(program.end().action(0).through)] == program.end().action(0).through
    program.trained(*([[first, second]] if together else [[first], [second]]))
