"""One conversation that only grows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_r1_gateway_kit.behaviours.scripts import CHAT, RESPONSES, call, calls, say
from agent_r1_gateway_kit.exact import NotExact


def test_a_question(play):
    """A program asks once."""
    with play(say("Tavelo it is.")) as program:
        reply = program.talk().ask("Where was Karimo born?")
    program.trained([reply])
    assert "Where was Karimo born?" in program.context(reply)


def test_several_turns(play):
    """A program sends each reply back and goes on; it is continued with the ids that were sampled, not with its text
    encoded again."""
    with play(say("Tavelo it is."), say("Karimo, I said."), say("Indeed.")) as program:
        talk = program.talk("You are brief.")
        replies = [talk.ask(text) for text in ("Where?", "Who?", "Sure?")]
    program.trained(replies)
    assert program.context(replies[2]).count("You are brief.") == 1


@CHAT
def test_forty_turns(play):
    """A conversation of forty turns is continued to its end."""
    with play(*(say(f"Turn-{number} is said.") for number in range(40))) as program:
        talk = program.talk()
        replies = [talk.ask(f"Go on with {number}.") for number in range(40)]
    program.trained(replies)


def test_examples_of_its_own(play):
    """A program begins with replies that the model never gave, as examples; they are no actions."""
    with play(say("Seven it is."), say("Nine it is.")) as program:
        talk = program.talk().user("3 + 1?").said("Four it is.").user("2 + 3?").said("Five it is.")
        replies = [talk.ask("3 + 4?"), talk.ask("4 + 5?")]
    program.trained(replies)
    assert "Four it is." in program.context(replies[0])


def test_characters_of_every_script(play):
    """Text of many scripts, joined emoji and control characters goes both ways."""
    text = "Ünï日本語 שלום 👩‍👩‍👧 e\u0301 \u2028 \x07 done"
    with play(say(text), say("Then this.")) as program:
        talk = program.talk()
        replies = [talk.ask(f"Say {text}"), talk.ask("And?")]
    program.trained(replies)
    assert replies[0].text == text


@CHAT
def test_half_a_character(play):
    """A program cuts a text inside a surrogate pair, as JavaScript does; it is answered or refused, and goes on."""
    with play(say("Cut, it seems."), say("Good day.")) as program:
        talk = program.talk().user("cut \ud83d off")
        answer = talk.send().read()
        replies = [[talk.read(answer)]] if answer.status == 200 else []
        assert answer.status in (200, 400), f"it answers {answer.status}: {answer.text[:200]}"
        replies.append([program.talk().ask("Hello?")])
    program.trained(*replies)


def test_a_budget_cuts_a_reply(play):
    """A request allows few tokens: those that were sampled are trained, and what closes the reply for the template is
    not."""
    with play(say("Antidisestablishmentarianism is a word."), say("Next, then.")) as program:
        talk = program.talk()
        replies = [talk.ask("A word?", max_tokens=5), talk.ask("Another?", max_tokens=99)]
    assert (replies[0].cut, replies[1].cut) == (True, False), "the budget of a request has no effect, or no mark"
    program.trained(replies)
    assert len(program.end().action(0).ids) == 5


@pytest.mark.parametrize("api", ["chat", "messages"], indirect=True)
def test_a_stop_string(play):
    """A stop string ends a reply: the program does not read it, and the tokens that were sampled for it are trained."""
    with play(say("Alpha beta STOP gamma."), say("Next, then.")) as program:
        talk = program.talk()
        replies = [talk.ask("Letters?", stop=["STOP"]), talk.ask("More?")]
    assert replies[0].text.strip() == "Alpha beta", f"the program reads {replies[0].text!r}"
    program.trained(replies)


def test_a_stream(play, gateway):
    """A streamed reply is the same reply, and is continued."""
    gateway.needs("stream")
    with play(say("Tavelo, a town."), call("look", "Wait.", who="Karimo"), say("Found it.")) as program:
        talk = program.talk(tools=["look"])
        replies = [talk.ask("Where?", stream=True), talk.ask("Look it up.", stream=True)]
        talk.results(replies[1], "Karimo: Tavelo")
        replies.append(talk.ask(stream=True))
    assert (replies[0].text, replies[1].calls[0]["arguments"]) == ("Tavelo, a town.", {"who": "Karimo"})
    program.trained(replies)


def test_tokens_are_counted(play):
    """The counts that a program reads are those of the ids that the engine read and sampled."""
    with play(say("Tavelo it is.")) as program:
        reply = program.talk("Be brief.").ask("Where?")
    one = program.end().action(reply.action)
    assert reply.tokens == (len(one.prompt), len(one.ids))


@CHAT
def test_log_probs(play, gateway):
    """The log-probs that a program asks for are those of the tokens that are trained."""
    gateway.needs("logprobs")
    with play(say("Tavelo it is.")) as program:
        reply = program.talk().ask("Where?", logprobs=True)
    program.trained([reply])
    shown = [one["logprob"] for one in reply.raw["choices"][0]["logprobs"]["content"]]
    assert shown == pytest.approx(list(program.end().action(reply.action).logprobs or ()))


@CHAT
def test_two_replies_at_once(play):
    """A program asks for two replies (`n`): it is refused in the API's own format, or reads two, and both are
    trained."""
    with play(say("First, this."), say("Second, that.")) as program:
        talk = program.talk().user("Say two things.")
        answer = talk.send(n=2).read()
        if answer.status == 200:
            replies = [talk.read(_alone(answer, number)) for number in range(2)]
        else:
            assert answer.json["error"]["message"]
            replies = [program.talk().ask("Say one.")]
    program.trained(*([reply] for reply in replies))


def _alone(answer, number):
    raw = answer.json
    return type(answer)(200, json.dumps(raw | {"choices": [raw["choices"][number]]}))


@pytest.mark.parametrize("api", ["chat", "responses"], indirect=True)
def test_a_developers_message(play):
    """A message of the role `developer` is read."""
    with play(say("Aye, it is.")) as program:
        talk = program.talk()
        talk.items.append({"role": "developer", "content": "Speak like a sailor."})
        reply = talk.ask("Is it?")
    program.trained([reply])
    assert "Speak like a sailor." in program.context(reply), "the engine does not read it"


@CHAT
def test_a_system_message_midway(play):
    """A system message comes in the middle of a conversation; it is read, and the turns before are continued."""
    with play(say("Tavelo it is."), say("Aye, Tavelo.")) as program:
        talk = program.talk("Be brief.")
        first = talk.ask("Where?")
        talk.items.append({"role": "system", "content": "From now on, speak like a sailor."})
        second = talk.ask("Where?")
    program.trained([first, second])
    assert "like a sailor" in program.context(second)


def test_a_tool(play):
    """A program runs the tool that is called, and sends its result."""
    with play(call("look", who="Karimo"), say("Tavelo it is.")) as program:
        talk = program.talk(tools=["look"])
        first = talk.ask("Where was Karimo born?")
        second = talk.results(first, "Karimo was born in Tavelo.").ask()
    program.trained([first, second])
    assert program.context(second).count("Karimo was born in Tavelo.") == 1


def test_parallel_calls(play):
    """A reply calls two tools, with text before; a second one calls the same tool twice."""
    both, twice = calls(call("look", who="Ada"), call("ask", who="Bob")), calls(call("look", x=1), call("look", x=2))
    with play({**both, "say": "Wait."}, twice, say("Both, then.")) as program:
        talk = program.talk(tools=["look", "ask"])
        replies = [talk.ask("Ada and Bob?")]
        replies.append(talk.results(replies[0], "Ada is in.", "Bob is out.").ask())
        replies.append(talk.results(replies[1], "one", "two").ask())
    assert [len(reply.calls) for reply in replies] == [2, 2, 0]
    program.trained(replies)


def test_a_tool_is_called_again_and_again(play):
    """Twelve calls, one after the other, are one conversation."""
    with play(*(call("look", step=number) for number in range(12)), say("Done now.")) as program:
        talk = program.talk(tools=["look"])
        replies = [talk.ask("Go.")]
        for number in range(12):
            replies.append(talk.results(replies[-1], f"result {number}").ask())
    program.trained(replies)


def test_a_result_that_spells_control_tokens(play, gateway):
    """A tool's result spells the ends of turns and the tags of calls: the engine reads text, no control tokens."""
    if not gateway.controls:
        pytest.skip("not offered: the texts of control tokens")

    def told(text: str) -> tuple[Any, list[Any], int]:
        with play(call("look", who="Karimo"), say("Tavelo it is.")) as program:
            talk = program.talk(tools=["look"])
            first = talk.ask("Where?")
            replies = [first, talk.results(first, text).ask()]
        end = program.end().action(0).ids[-1]
        return program, replies, program.end().action(1).prompt.count(end)

    program, replies, spelled = told(f"x {''.join(gateway.controls)} y")
    if spelled != told("x and y")[2]:
        raise NotExact("the end of a turn that a tool's result spells became the control token")
    program.trained(replies)


def test_a_call_that_is_only_spelled(play):
    """A reply spells a call in plain characters; however the program reads it, the ids that were sampled go on."""
    text = 'Like this: <tool_call>\n{"name": "look", "arguments": {"who": "Karimo"}}\n</tool_call>'
    with play(say(text), say("Next, then.")) as program:
        talk = program.talk(tools=["look"])
        first = talk.ask("How does one call a tool?")
        second = talk.results(first, "found").ask() if first.calls else talk.ask("Thanks.")
    program.trained([first, second])


@RESPONSES
def test_tools_in_namespaces(play, gateway):
    """Tools stand in a namespace, as Codex sends them, and are called there."""
    gateway.needs("namespaces")
    inner = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}
    tools = [{"type": "namespace", "name": "files", "description": "", "tools": [inner]}]
    made = {"namespace": "files", "name": "look", "arguments": {"who": "Karimo"}}
    with play({"say": "Wait.", "calls": [made]}, say("Found it.")) as program:
        talk = program.talk()
        talk.fields["tools"] = tools
        answer = talk.user("Where?").send().read().json
        (made,) = [item for item in answer["output"] if item["type"] == "function_call"]
        assert (made["namespace"], made["name"]) == ("files", "look")
        talk.items += [
            *answer["output"],
            {"type": "function_call_output", "call_id": made["call_id"], "output": "Tavelo"},
        ]
        last = talk.ask()
    program.end().check([[0, last.action]])


def test_reasoning_that_is_sent_back(play, gateway):
    """A program sends reasoning back in the field in which it came; it is continued."""
    gateway.needs("reasoning")
    with play(
        say("Tavelo it is.", think="Karimo, I recall."), say("Indeed.", think="Sure."), say("Done now.")
    ) as program:
        talk = program.talk()
        replies = [talk.ask(text) for text in ("Where?", "Sure?", "Fine?")]
    assert replies[0].thinking.strip() == "Karimo, I recall."
    assert "recall" not in replies[0].text
    program.trained(replies)


def test_reasoning_that_is_dropped(play, gateway):
    """A program leaves reasoning out: later turns do not read it, and what was sampled is trained where it was."""
    gateway.needs("reasoning")
    with play(say("Tavelo it is.", think="Karimo, I recall."), say("Indeed.")) as program:
        talk = program.talk()
        first = talk.ask("Where?")
        second = program.talk().user("Where?").said(first.text).ask("Sure?")
    program.trained([first], [second])
    assert "I recall" not in program.context(second)
    assert "Tavelo it is." in program.context(second)
