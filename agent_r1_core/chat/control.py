"""ControlTokens: keeps control tokens that data merely spells from becoming control ids (LAW 1).

A break after a token's first character cuts it in two. Templates pass breaks on like any other character, and the
encoder encodes the text between two breaks by itself, so only ids next to a break differ from those of the same text in
one piece. Control tokens are all added tokens of the tokenizer, except those of white space alone, which are text. Of
tokens that are a single character only the special ones count; a replacement character replaces them. A template that
rewrites text may bring out further ones; text in single characters (`spell`) survives that. A template that writes one
half of a control token beside the data cannot be helped; none of those that we know does so.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from agent_r1_core.contracts.markup import Markup, encodable

BREAK = "\ufdd0"
"""Separates what is encoded apart. Unicode reserves this character for use within a program."""
_REPLACEMENT = "\ufffd"


class ControlTokens:
    """The control tokens of one tokenizer."""

    def __init__(self, raw: Any) -> None:
        """Read the added tokens of a Hugging Face tokenizer."""
        added = getattr(raw, "added_tokens_decoder", {})
        tokens = {index: token for index, token in added.items() if _is_control(token)}
        self.texts: dict[int, str] = {index: token.content for index, token in tokens.items()}
        """By id."""
        self._spelled = _any_of([*self.texts.values(), BREAK])
        self._special = {token.content for token in tokens.values() if token.special}
        self._unknown = getattr(raw, "unk_token_id", None)
        self._beginnings = {text[0].casefold() for text in self.texts.values()}
        normalizer: Any = getattr(getattr(raw, "backend_tokenizer", None), "normalizer", None)
        normalized = [token.content for token in tokens.values() if token.normalized and normalizer is not None]
        self._normalize: Any = normalizer.normalize_str if normalized else None
        self._normalized = _any_of(normalizer.normalize_str(text) for text in normalized)

    def protect(self, text: str) -> str:
        """The text for a template: control tokens outside its markup are cut; lone surrogates become `?`."""
        clean = encodable(text)
        markup = text.spans if isinstance(text, Markup) else ()
        if self._normalize is not None:
            parts = list(_parts(clean, markup))
            if any(self._hides(part) for part, marked in parts if not marked):
                return BREAK.join(piece for part, marked in parts for piece in ([part] if marked else self._cut(part)))
        return self._cut(clean, markup)

    def protect_all(self, value: Any) -> Any:
        """A message or a tool's schema with all of its texts protected: roles, names and descriptions, too."""
        if isinstance(value, str):
            return self.protect(value)
        if isinstance(value, Mapping):
            return {self.protect_all(key): self.protect_all(inner) for key, inner in value.items()}
        return [self.protect_all(inner) for inner in value] if isinstance(value, list | tuple) else value

    def is_rewritten(self, value: Any, rendered: str) -> bool:
        """Whether the rendering changes a text of a protected message or schema, which may then spell a control
        token there. What a template need not show, all but the content, does so only if it holds how a token begins."""
        if isinstance(value, str):
            return value not in rendered and not self._beginnings.isdisjoint(value.casefold())
        if isinstance(value, Mapping):
            content = value.get("content")
            if isinstance(content, str) and not _stands_in(content.strip(), rendered):
                return True
            others = (inner for key, inner in value.items() if key not in ("role", "content"))
            return any(self.is_rewritten(inner, rendered) for inner in others)
        return isinstance(value, list) and any(self.is_rewritten(inner, rendered) for inner in value)

    def spell(self, value: Any) -> Any:
        """A protected message or schema whose data is encoded character by character."""
        if isinstance(value, str):
            pieces, done = [], 0
            for found in self._spelled.finditer(value):
                pieces += [*value[done : found.start()], found.group()]
                done = found.end()
            return BREAK.join((*pieces, *value[done:]))
        if isinstance(value, Mapping):
            return {key: inner if key == "role" else self.spell(inner) for key, inner in value.items()}
        return [self.spell(inner) for inner in value] if isinstance(value, list) else value

    def ids_of(self, ids: Sequence[int]) -> list[int]:
        """The control ids among these, but for the one of unknown characters."""
        return [index for index in ids if index in self.texts and index != self._unknown]

    def sampled(self, ids: Sequence[int], text: str, decode: Callable[[Sequence[int]], str]) -> Markup:
        """The text of an action; the control tokens that the policy sampled as such are its markup."""
        found = list(self._spelled.finditer(text))
        tokens = [(place, self.texts[index]) for place, index in enumerate(ids) if index in self.texts]
        if [match.group() for match in found] == [token for _, token in tokens]:
            return Markup(text, [match.span() for match in found])
        spans, done, start = [], 0, 0
        for place, token in tokens:
            start += len(decode(ids[done:place]))
            if not text.startswith(token, start):  # decoding depends on what precedes
                start = len(decode(ids[:place]))
            if text.startswith(token, start):
                spans.append((start, start + len(token)))
            done = place
        return Markup(text, spans)

    def spoken(self, text: str) -> Markup:
        """The text of an action that was written and not sampled; its control tokens are markup but for the special
        ones, which structure a conversation and are no part of what is said."""
        found = self._spelled.finditer(text)
        return Markup(text, [one.span() for one in found if one.group() not in {*self._special, BREAK}])

    def marked(self, protected: str) -> Markup:
        """A protected text to protect once more, to the same end: the control tokens that are whole are its markup."""
        spans, done = list[tuple[int, int]](), 0
        for piece in protected.split(BREAK):
            spans += [(done + one.start(), done + one.end()) for one in self._spelled.finditer(piece)]
            done += len(piece)
        return Markup(protected.replace(BREAK, ""), spans)

    def _cut(self, text: str, markup: Sequence[tuple[int, int]] = ()) -> str:
        """Markup is in order and does not overlap."""
        pieces, done, place, spans = [], 0, 0, deque(markup)
        while found := self._spelled.search(text, place):
            start, stop = found.span()
            place = start + 1
            while spans and spans[0][1] <= start:
                spans.popleft()
            if spans and spans[0][0] <= start and stop <= spans[0][1]:
                continue
            pieces.append(text[done:place] + BREAK if stop > place else text[done:start] + _REPLACEMENT)
            done = place
        return "".join((*pieces, text[done:]))

    def _hides(self, data: str) -> bool:
        """Whether the tokenizer's own normalisation brings out control tokens, as NFKC does with wide letters."""
        return any(self._normalized.search(self._normalize(piece)) for piece in self._cut(data).split(BREAK))


def _stands_in(text: str, rendered: str) -> bool:
    """Whether a rendering holds the text as it is, or as a template's `tojson` writes it, which spells nothing new."""
    return text in rendered or json.dumps(text, ensure_ascii=False)[1:-1] in rendered


def _parts(text: str, markup: Sequence[tuple[int, int]]) -> Iterator[tuple[str, bool]]:
    """The text in parts, and whether each is markup."""
    done = 0
    for start, stop in markup:
        yield text[done:start], False
        yield text[start:stop], True
        done = stop
    yield text[done:], False


def _is_control(token: Any) -> bool:
    return bool(token.content.strip()) and (token.special or len(token.content) > 1)


def _any_of(texts: Iterable[str]) -> re.Pattern[str]:
    """Matches each of the texts, where several begin alike the longest; quick for thousands of texts, too."""
    return re.compile(_tree(sorted(texts)))


def _tree(texts: list[str]) -> str:
    """The pattern of sorted texts; those with the same first character share its branch."""
    groups = groupby(filter(None, texts), key=lambda text: text[0])
    branches = [re.escape(first) + _tree([text[1:] for text in group]) for first, group in groups]
    return f"(?:{'|'.join(branches)}){'' if all(texts) else '?'}" if branches else ""
