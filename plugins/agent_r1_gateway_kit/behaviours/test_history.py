"""Several conversations in one episode: summaries, edits, forks and sub-agents."""

from __future__ import annotations

import pytest

from agent_r1_gateway_kit.behaviours.scripts import CHAT, call, say


def test_a_summary_in_place_of_the_history(play):
    """A program asks for a summary, and begins anew with it (compaction): the old turns stay trained, and the new ones
    read the summary alone."""
    with play(say("Tavelo it is."), say("Indeed."), say("Karimo: Tavelo."), say("Done now.")) as program:
        talk = program.talk("Be brief.")
        replies = [talk.ask(text) for text in ("Where?", "Sure?", "Sum it all up.")]
        last = program.talk("Be brief.").ask(f"So far: {replies[2].text} Go on.")
    program.trained(replies, [last])
    assert "Sure?" not in program.context(last)


def test_the_oldest_messages_are_left_out(play):
    """A program keeps only the newest messages (a sliding window)."""
    with play(say("Tavelo it is."), say("Indeed."), say("Done now.")) as program:
        talk = program.talk("Be brief.")
        first, second = talk.ask("Where?"), talk.ask("Sure?")
        del talk.items[:2]
        last = talk.ask("Fine?")
    program.trained([first, second], [last])
    assert "Where?" not in program.context(last)


def test_a_question_that_is_edited(play):
    """A program edits an earlier question and asks again: the answer to the old one stays trained."""
    with play(say("Tavelo it is."), say("Indeed."), say("Sorell, then."), say("Surely.")) as program:
        talk = program.talk()
        old = [talk.ask("Where was Karimo born?"), talk.ask("Sure?")]
        edited = program.talk()
        new = [edited.ask("Where did Karimo die?"), edited.ask("Sure?")]
    program.trained(old, new)


def test_a_fork_from_an_earlier_turn(play):
    """A program goes back to an earlier turn and continues otherwise: what both have in common is trained once, and
    continued with its ids."""
    with play(say("Tavelo it is."), say("Indeed."), say("Karimo, I said.")) as program:
        talk = program.talk()
        first = talk.ask("Where?")
        fork = talk.fork()
        second, other = talk.ask("Sure?"), fork.ask("Who?")
    report = program.end()
    report.check([[first.action, second.action], [other.action]])
    assert report.action(other.action).prompt[: len(report.action(0).through)] == report.action(0).through


def test_an_answer_that_is_regenerated(play):
    """A program asks the same twice, without a mark of a retry, as for a second opinion: both answers are trained."""
    with play(say("Tavelo it is."), say("Sorell, perhaps."), say("Indeed.")) as program:
        talk = program.talk()
        fork = talk.user("Where?").fork()
        first, second = talk.ask(), fork.ask()
        third = talk.ask("Sure?")
    program.trained([first, third], [second])


def test_the_same_answer_twice(play):
    """Of two equal requests both replies are equal, too: each is trained."""
    with play(say("One! Tavelo."), say("One! Tavelo.")) as program:
        replies = [program.talk().ask("Where?") for _ in range(2)]
    assert [reply.action for reply in replies] == [0, 0]
    program.end().check([[0], [1]])


@CHAT
def test_an_old_result_that_is_cleared(play):
    """A program replaces old results of tools by a note (context editing): the later turn reads the note alone."""
    with play(call("look", who="Karimo"), say("Found it."), say("Done now.")) as program:
        talk = program.talk(tools=["look"])
        first = talk.ask("Where?")
        second = talk.results(first, "Karimo was born in Tavelo.").ask()
        next(item for item in talk.items if item["role"] == "tool")["content"] = "[cleared]"
        last = talk.ask("Fine?")
    program.end().check([[first.action, second.action], [last.action]])
    assert "was born" not in program.context(last)
    assert program.context(last).count("[cleared]") == 1


def test_other_tools_midway(play):
    """A program offers other tools in a later request: the engine reads those that the request has."""
    with play(call("look", who="Karimo"), say("Found it.")) as program:
        talk = program.talk(tools=["look"])
        first = talk.ask("Where?")
        talk.tools = ["look", "ponder"]
        second = talk.results(first, "Tavelo").ask()
    program.trained([first], [second])
    assert "ponder" in program.context(second)
    assert "ponder" not in program.context(first)


def test_sub_agents_one_after_the_other(play):
    """A main agent hands work to sub-agents and goes on with what they found."""
    with play(
        call("delegate", what="Ada"), say("Ada is in."), say("Finished.", to="Ada is in."), say("Bob is out.", to="Bob")
    ) as program:
        main = program.talk("You lead.", tools=["delegate"])
        first = main.ask("Who is in?")
        ada = program.talk("You look for Ada.").ask("Go.")
        second = main.results(first, ada.text).ask()
        bob = program.talk("You look for Bob.").ask("Go.")
    program.trained([first, second], [ada], [bob])


def asked_together(program, names, turns):
    """The replies of conversations that ask at the same time, turn after turn."""
    talks = [program.talk().user(f"I am {name}.") for name in names]
    replies: list[list] = [[] for _ in names]
    for _ in range(turns):
        sent = [talk.send() for talk in talks]
        for talk, pending, mine in zip(talks, sent, replies, strict=True):
            mine.append(talk.keep(pending.read()))
            talk.user("Go on.")
    return replies


def test_sub_agents_in_parallel(play):
    """Three sub-agents ask at the same time, three turns each; none reads what another was told."""
    names = ("Ada", "Bob", "Cy")
    script = [say(f"{name}-{turn} reports.", to=f"I am {name}") for turn in range(3) for name in names]
    with play(*script) as program:
        replies = asked_together(program, names, 3)
    program.trained(*replies)
    for name, mine in zip(names, replies, strict=True):
        assert [reply.text for reply in mine] == [f"{name}-{turn} reports." for turn in range(3)]
        assert not any(other in program.context(mine[2]) for other in names if other != name)


@CHAT
def test_sub_agents_that_begin_alike(play):
    """Four sub-agents begin with the same words at the same time, and part ways with their first replies."""
    with play(
        *(say(f"Idea-{number} is mine.") for number in range(4)),
        *(say(f"Plan-{number} follows.", to=f"Idea-{number}") for number in range(4)),
    ) as program:
        talks = [program.talk("Have an idea.").user("Go.") for _ in range(4)]
        sent = [talk.send() for talk in talks]
        firsts = [talk.keep(pending.read()) for talk, pending in zip(talks, sent, strict=True)]
        seconds = [talk.ask("And the plan?") for talk in talks]
    program.trained(*zip(firsts, seconds, strict=True))


@CHAT
def test_sixteen_conversations_at_once(play):
    """Sixteen conversations ask at the same time, two turns each."""
    names = [f"agent-{number:02}" for number in range(16)]
    with play(*(say(f"{name}-{turn} reports.", to=f"I am {name}") for turn in range(2) for name in names)) as program:
        replies = asked_together(program, names, 2)
    program.trained(*replies)


def test_conversations_that_take_turns(play):
    """A program keeps two conversations, and asks now in one, now in the other."""
    script = [say(f"{name}-{turn} says.", to=f"I am {name}") for turn in range(3) for name in ("Ada", "Bob")]
    with play(*script) as program:
        talks = [program.talk().user(f"I am {name}.") for name in ("Ada", "Bob")]
        replies: list[list] = [[], []]
        for _ in range(3):
            for talk, mine in zip(talks, replies, strict=True):
                mine.append(talk.ask())
                talk.user("Go on.")
    program.trained(*replies)


@CHAT
def test_two_apis_in_one_episode(play, gateway):
    """A program asks through two APIs, one for each of its agents."""
    gateway.needs("chat", "messages")
    with play(say("Tavelo it is."), say("Karimo, I said."), say("Indeed.", to="Sure?")) as program:
        one, other = program.talk(api="chat"), program.talk(api="messages")
        first, second, third = one.ask("Where?"), other.ask("Who?"), one.ask("Sure?")
    program.trained([first, third], [second])


@CHAT
def test_two_episodes_at_once(play):
    """Two episodes run at the same time; neither has anything of the other."""
    with play(say("Tavelo it is.", to="Ada")) as one, play(say("Sorell it is.", to="Bob")) as other:
        replies = [other.talk().ask("Where is Bob?"), one.talk().ask("Where is Ada?")]
    one.trained([replies[1]])
    other.trained([replies[0]])
    assert (replies[1].text, replies[0].text) == ("Tavelo it is.", "Sorell it is.")


@pytest.mark.parametrize("api", ["chat", "messages"], indirect=True)
def test_a_title_for_the_display(play, gateway):
    """A request for a model that is not trained, as for a title: it is answered, and leaves no trace in the turns
    around it."""
    gateway.needs("untrained")
    with play(say("Tavelo it is."), say("Karimo's birthplace.", to="title"), say("Indeed.")) as program:
        talk = program.talk()
        first = talk.ask("Where?")
        program.talk(model=program.opened["untrained_model"]).ask("Write a title.")
        second = talk.ask("Sure?")
    program.trained([first, second])
