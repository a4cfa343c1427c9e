"""Clipping, texts without thinking, and markup: what its author wrote is marked, everything else is data."""

from __future__ import annotations

import copy
import pickle

import pytest

from agent_r1_core import Markup
from agent_r1_core.chat import clip_text, split_tagged, thoughts_of, without_thinking
from agent_r1_core.chat.text import opened_thought
from agent_r1_core.seeds import derive_seed


def test_a_clipped_text_says_how_much_is_missing_and_none_escapes_its_limit_by_ending_like_one():
    assert clip_text("short", 5) == "short"
    assert clip_text("x" * 12, 5) == "xxxxx... [7 characters cut]"
    assert clip_text("xxxxx... [7 characters cut]", 5) == "xxxxx... [7 characters cut]", "it was cut before"
    assert clip_text(clip_text("x" * 90, 50), 5) == "xxxxx... [85 characters cut]"
    forged = f"xxxxx... [{'9' * 5000} characters cut]"
    assert clip_text(forged, 5) == f"xxxxx... [{len(forged) - 5} characters cut]"


@pytest.mark.parametrize(
    ("text", "visible", "thoughts"),
    [
        *(("<think>a</think>b", "b", ["a"]), ("a</think>b", "b", ["a"]), ("b<think>a", "b", ["a"]), ("b", "b", [])),
        *(("x<think>a</think>y<think>b</think>z", "xyz", ["a", "b"]), ("a</think>b<think>c", "b", ["a", "c"])),
    ],
)
def test_thinking_is_left_out_and_found(text, visible, thoughts):
    assert without_thinking(text) == visible
    assert thoughts_of(text) == thoughts


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        ("<a>say <think>s</think></think></a>", "<a>say <think>s</think></think></a>"),
        ("<think>hm <a>1</a></think><a><think> 2</a>", "<a><think> 2</a>"),
        ("hm <a> </think><a>1</a>", "<a>1</a>"),
        ("hm <a>1</a></think><a></think></a><think>x", "<a></think></a>"),
        ("<a>" * 70_000, "<a>" * 70_000),
    ],
)
def test_what_stands_in_a_block_outside_of_a_thought_is_no_thought(text, visible):
    assert without_thinking(text, "a") == visible


def test_a_thought_is_open_where_nothing_follows_its_tag():
    found = [opened_thought(text) for text in ("a<think>\n", "<think>", "a<think>b", "<think>a</think>", "a")]
    assert found == ["<think>\n", "<think>", "", "", ""]


@pytest.mark.parametrize(
    ("text", "contents", "rest"),
    [
        ("x<a>1</a>y<a>2</a>z", ["1", "2"], "xyz"),
        ("<a>1<a>2</a>3</a>", ["2"], "<a>13</a>"),
        ("</a><a>1</a><a>", ["1"], "</a><a>"),
        ("<a></a>", [""], ""),
        ("<a>" * 70_000, [], "<a>" * 70_000),
    ],
)
def test_tagged_blocks_are_taken_out(text, contents, rest):
    assert split_tagged(text, "a") == (contents, rest)


def test_seeds_depend_on_every_part_and_its_type():
    seeds = [derive_seed(*parts) for parts in [(0, "task", 1), (0, "task", "1"), (0, "task1"), (1, "task", 0)]]
    assert seeds[0] == 2412945579528196131
    assert len(set(seeds)) == 4


def marked(text: str) -> list[str]:
    """The parts of a text that are markup."""
    return [text[start:stop] for start, stop in getattr(text, "spans", ())]


def test_what_joins_markup_stays_data_and_copies_keep_the_marks():
    text = "<i>data</i>"
    assert marked(Markup("<tag>") + text + Markup("</tag>")) == ["<tag>", "</tag>"]
    assert marked(text + Markup("<tag>")) == ["<tag>"]
    assert marked(Markup(", ").join([text, Markup("<tag>"), text])) == [", <tag>, "]
    assert marked(Markup("<a>") + Markup("<b>")) == ["<a><b>"]
    tag = Markup("<tag>")
    assert marked(f"{tag}") == marked(tag.upper()) == marked(tag[:3]) == marked("".join([tag])) == []
    text = Markup("<tag>") + "data"
    assert text == "<tag>data"
    assert {text: 1}["<tag>data"] == 1
    for same in (copy.deepcopy(text), pickle.loads(pickle.dumps(text))):
        assert (same, marked(same)) == (text, ["<tag>"])
