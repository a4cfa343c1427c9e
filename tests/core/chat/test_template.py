"""A chat template is text from elsewhere: it costs a bounded time."""

from __future__ import annotations

import pytest

from agent_r1_core.chat import ChatTokenizer, deadline, template
from agent_r1_core.chat.deadline import within
from agent_r1_core.errors import ModelError
from agent_r1_core.testing import tiny_tokenizer
from agent_r1_core.testing.model import CHAT_TEMPLATE

LOOPS = "".join(f"{{% for {name} in range(99999) %}}" for name in "abc") + "x" + "{% endfor %}" * 3


def test_a_template_that_does_not_end_is_a_sentence_and_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template, "_SECONDS", 0.25)
    with pytest.raises(ModelError, match=r"template of bomb did not end within 0\.25 seconds; use another model"):
        ChatTokenizer(tiny_tokenizer(LOOPS), name="bomb")
    late = "{% if messages|length > 5 %}" + LOOPS + "{% endif %}" + CHAT_TEMPLATE
    later = ChatTokenizer(tiny_tokenizer(late), name="later")
    talk = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}] * 3
    with pytest.raises(ModelError, match="did not end within"):
        later.template.render(talk)
    monkeypatch.setattr(template, "within", lambda *_: pytest.fail("it was tried again"))
    with pytest.raises(ModelError, match="did not end within"):
        later.template.render(talk[:1])


def test_code_that_catches_exceptions_is_stopped_too() -> None:
    def stubborn() -> None:
        while True:
            try:
                sum(range(10))
            except Exception:
                continue

    with pytest.raises(TimeoutError):
        within(0.25, stubborn)
    assert within(5, lambda: "still here") == "still here"
    with pytest.raises(ZeroDivisionError):
        within(5, lambda: 1 // 0)


def test_a_limit_does_not_outlive_its_code_though_the_time_is_up_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    end, interrupted = deadline._WATCH.end, []

    def end_in_the_second_attempt() -> None:
        interrupted.append(True)
        if len(interrupted) == 1:
            raise deadline._TimeUp
        end()

    monkeypatch.setattr(deadline._WATCH, "end", end_in_the_second_attempt)
    assert within(5, lambda: "in time") == "in time"
    assert deadline._WATCH._looks_left == {}


def test_a_template_that_loses_what_is_said_is_refused() -> None:
    parts = "{%- for part in message.content -%}{{- part.text -}}{%- endfor -%}"
    raw = tiny_tokenizer("{%- for message in messages -%}" + parts + "{%- endfor -%}")
    with pytest.raises(ModelError, match=r"of vision does not show what user and assistant say .*; set model\.name to"):
        ChatTokenizer(raw, name="vision")
