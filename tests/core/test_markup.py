"""Markup keeps account of what its author wrote; everything else is data."""

from __future__ import annotations

import copy
import pickle

from agent_r1_core import Markup


def marked(text: str) -> list[str]:
    """The parts of a text that are markup."""
    return [text[start:stop] for start, stop in getattr(text, "spans", ())]


def test_what_joins_markup_stays_data():
    text = "<i>data</i>"
    assert marked(Markup("<tag>") + text + Markup("</tag>")) == ["<tag>", "</tag>"]
    assert marked(text + Markup("<tag>")) == ["<tag>"]
    assert marked(Markup(", ").join([text, Markup("<tag>"), text])) == [", <tag>, "]
    assert marked(Markup("<a>") + Markup("<b>")) == ["<a><b>"]


def test_other_operations_give_data():
    tag = Markup("<tag>")
    assert marked(f"{tag}") == marked(tag.upper()) == marked(tag[:3]) == marked("".join([tag])) == []


def test_it_is_text_and_copies_keep_the_marks():
    text = Markup("<tag>") + "data"
    assert text == "<tag>data"
    assert {text: 1}["<tag>data"] == 1
    for same in (copy.deepcopy(text), pickle.loads(pickle.dumps(text))):
        assert (same, marked(same)) == (text, ["<tag>"])
