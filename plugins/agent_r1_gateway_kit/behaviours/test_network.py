"""Retries and clients that leave: what a program read is trained once, what nobody read is not trained."""

from __future__ import annotations

from agent_r1_gateway_kit.behaviours.scripts import CHAT, say

AGAIN = {"x-stainless-retry-count": "1"}
"""The header with which OpenAI's and Anthropic's SDKs mark a retry."""


def test_a_retry_of_an_answer_that_was_lost(play):
    """The answer is lost on the way, so that the SDK asks again: the reply that the program read is trained, once."""
    with play(say("Tavelo it is."), say("Sorell, perhaps."), say("Indeed.", to="Sure?")) as program:
        talk = program.talk().user("Where?")
        talk.send().read()
        first = talk.ask(headers=AGAIN)
        second = talk.ask("Sure?")
    program.trained([first, second])


def test_a_retry_in_flight(play):
    """The SDK's time-out is shorter than the answer takes, so that it asks again while the engine is at it."""
    with play(say("Tavelo it is.", held=True), say("Sorell, it is.", held=True), say("Indeed.", to="Sure?")) as program:
        talk = program.talk().user("Where?")
        lost = talk.send()
        program.until_held()
        again = talk.send(AGAIN)
        program.abandon(lost)
        program.release()
        first = talk.keep(again.read())
        second = talk.ask("Sure?")
    program.trained([first, second])


def test_a_client_that_leaves(play):
    """A client leaves before the answer and asks something else; what it did not read is not trained."""
    with play(say("Tavelo it is."), say("Lost words.", to="Never", held=True), say("Indeed.")) as program:
        talk = program.talk()
        first = talk.ask("Where?")
        program.abandon(program.talk().user("Never mind?").send())
        program.release()
        second = talk.ask("Sure?")
    program.trained([first, second])


def test_a_client_that_leaves_and_comes_back(play):
    """A client leaves before the answer, and retries after the engine is done with it."""
    with play(say("Tavelo it is.", held=True), say("Sorell it is."), say("Indeed.", to="Sure?")) as program:
        talk = program.talk().user("Where?")
        program.abandon(talk.send())
        program.release()
        first = talk.ask(headers=AGAIN)
        second = talk.ask("Sure?")
    program.trained([first, second])


def test_a_program_that_ends_with_a_request_open(play):
    """A program ends before one of its requests is answered; that reply is not trained."""
    with play(say("Tavelo it is."), say("Lost words.", to="Never", held=True)) as program:
        first = program.talk().ask("Where?")
        open_one = program.talk().user("Never mind?").send()
        program.abandon(open_one)
    program.trained([first])


@CHAT
def test_an_idempotency_key(play, gateway):
    """The same request comes twice with one `Idempotency-Key`: it is answered with the same reply, trained once."""
    gateway.needs("idempotency")
    with play(say("Tavelo it is."), say("Sorell it is.")) as program:
        talk, key = program.talk().user("Where?"), {"idempotency-key": "k-1"}
        first, again = talk.read(talk.send(key).read()), talk.read(talk.send(key).read())
    assert again.text == first.text
    program.trained([first])


@CHAT
def test_an_idempotency_key_of_another_request(play, gateway):
    """A key comes again with another request: that is refused, and nothing else changes."""
    gateway.needs("idempotency")
    with play(say("Tavelo it is."), say("Indeed.")) as program:
        talk, key = program.talk(), {"idempotency-key": "k-1"}
        first = talk.ask("Where?", headers=key)
        assert 400 <= program.talk().user("Who?").send(key).read().status < 500
        second = talk.ask("Sure?")
    program.trained([first, second])
