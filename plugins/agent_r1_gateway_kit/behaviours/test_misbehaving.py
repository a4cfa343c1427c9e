"""Programs that send what nobody can answer, ask too much, or break; the API says so, and the other turns stay."""

from __future__ import annotations

import pytest

from agent_r1_gateway_kit.behaviours.scripts import CHAT, MESSAGES, say


def refused(program, answer, *statuses):
    """Whether the answer is an error in the format of the program's API."""
    assert answer.status in statuses, f"it answers {answer.status}: {answer.text[:300]}"
    told = answer.json if answer.text.startswith("{") else {}
    error = told.get("error")
    known = isinstance(error, dict) and isinstance(error.get("message"), str)
    if not known or (program.api == "messages" and told.get("type") != "error"):
        raise AssertionError(f"it refuses, but not in the format of the API's errors: {answer.text[:200]}")


@pytest.mark.parametrize("body", [b'{"model": "policy", "messages": [', b'["Hello"]', b"\xff\xfe"])
def test_a_body_that_is_no_object_of_json(play, body):
    """A program sends broken JSON, or none: it is told so in the API's own format, and the episode goes on."""
    with play(say("Tavelo it is.")) as program:
        refused(program, program.send(program.talk().PATH, body).read(), 400, 422)
        reply = program.talk().ask("Where?")
    program.trained([reply])


def test_a_request_without_messages(play):
    """A program asks with no message at all; it is told so in the API's own format."""
    with play(say("Tavelo it is.")) as program:
        refused(program, program.talk().send().read(), 400, 422)
        reply = program.talk().ask("Where?")
    program.trained([reply])


@CHAT
def test_a_message_of_the_wrong_shape(play):
    """A program sends a message that is no message; it is told so in the API's own format."""
    with play(say("Tavelo it is.")) as program:
        for message in ("Hello", {"role": 5, "content": "x"}, {"role": "user", "content": {"a": 1}}):
            talk = program.talk()
            talk.items.append(message)
            refused(program, talk.send().read(), 400, 422)
        reply = program.talk().ask("Where?")
    program.trained([reply])


@CHAT
def test_a_body_of_forty_megabytes(play):
    """A program sends 40 MB: it is refused, and the episode goes on."""
    with play(say("Tavelo it is.")) as program:
        answer = program.talk().user("word " * 8_000_000).send().read()
        assert 400 <= answer.status < 500, answer.status
        reply = program.talk().ask("Where?")
    program.trained([reply])


def test_an_unknown_key(play, gateway):
    """A request with a wrong API key is refused in the API's own format, and leaves no turn."""
    gateway.needs("keys")
    with play(say("Tavelo it is.")) as program:
        wrong = {"authorization": "Bearer wrong", "x-api-key": "wrong"}
        refused(program, program.talk().user("Who?").send(wrong).read(), 401, 403)
        reply = program.talk().ask("Where?")
    program.trained([reply])


def test_a_request_after_the_end(play, gateway):
    """A program asks after its episode has ended: it is refused, and what was reported stays."""
    gateway.needs("ends")
    with play(say("Tavelo it is."), say("Too late.")) as program:
        talk = program.talk()
        reply = talk.ask("Where?")
        program.end()
        assert 400 <= talk.user("Sure?").send().read().status < 500
    program.trained([reply])


def test_more_turns_than_allowed(play, gateway):
    """A program asks beyond its budget of turns: it is refused, and the turns before are trained."""
    gateway.needs("max_turns")
    with play(say("Tavelo it is."), say("Indeed."), say("Too much."), max_turns=2) as program:
        talk = program.talk()
        replies = [talk.ask("Where?"), talk.ask("Sure?")]
        assert 400 <= talk.user("Fine?").send().read().status < 500
    program.trained(replies)


@CHAT
def test_a_program_that_breaks(play, gateway):
    """A program ends with an error: its episode is dropped, and nothing of it is trained."""
    gateway.needs("failures")
    with play(say("Tavelo it is.")) as program:
        program.talk().ask("Where?")
        report = program.end(error="KeyError: 'answer'")
    trained = sum(sum(segment.mask) for segment in report.segments)
    assert not trained, f"{trained} tokens of an episode that failed are trained"


@CHAT
def test_a_program_that_never_asks(play):
    """A program ends without a single request: there is nothing to train."""
    with play(say("Tavelo it is.")) as program:
        report = program.end()
    assert not any(any(segment.mask) for segment in report.segments)


@MESSAGES
def test_tokens_that_are_only_counted(play, gateway):
    """A program asks how many tokens a request has; that is no turn."""
    gateway.needs("count_tokens")
    with play(say("Tavelo it is.")) as program:
        talk = program.talk("Be brief.")
        counted = program.send("/v1/messages/count_tokens", talk.user("Where?").body()).read()
        reply = talk.ask()
    assert counted.json["input_tokens"] > 0
    program.trained([reply])


@CHAT
def test_a_list_of_models(play):
    """A program lists the models before it asks; that is no turn."""
    with play(say("Tavelo it is.")) as program:
        program.send("/models", None, method="GET").read()
        reply = program.talk().ask("Where?")
    program.trained([reply])
