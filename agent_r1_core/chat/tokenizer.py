"""ChatTokenizer: a Hugging Face tokenizer, its chat template, its control tokens, and the ids that end a turn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from agent_r1_core.chat.control import BREAK, ControlTokens
from agent_r1_core.chat.template import ChatTemplate
from agent_r1_core.contracts.markup import encodable
from agent_r1_core.errors import ModelError, first_line
from agent_r1_core.opening import check_folder, read_json
from agent_r1_core.trajectory import Message

_CACHED_TEXTS = 256
"""Texts whose ids are cached: the samples of a group share their prompt, and often observations."""


class ChatTokenizer:
    """Wraps a tokenizer: ids in and out without added or dropped special tokens."""

    def __init__(self, raw: Any, eos_ids: Iterable[int] = (), name: str = "") -> None:
        """Wrap `raw`; `eos_ids` are end-of-turn ids besides its own end token and the one that the template writes.

        Raises:
            ModelError: the tokenizer has no chat template.
        """
        self.raw = raw
        self._encode_cached = lru_cache(_CACHED_TEXTS)(self._encode)
        self.name = name or str(getattr(raw, "name_or_path", "") or "the tokenizer")
        self.template = ChatTemplate(raw, self.name)
        self.control = ControlTokens(raw)
        end_ids = {int(index) for index in eos_ids}
        if raw.eos_token_id is not None:
            end_ids.add(int(raw.eos_token_id))
        closing = self._special_ids.intersection(self.encode(self.template.closing_text())[:1])
        end_ids.update(closing)
        if not end_ids:
            raise ModelError(f"{self.name} has no end-of-turn token; set eos_token in its tokenizer_config.json")
        self.eos_ids: tuple[int, ...] = tuple(sorted(end_ids))
        own = self.eos_ids[0] if raw.eos_token_id is None else int(raw.eos_token_id)
        self.end_id: int = min(closing) if closing else self._begun_by("user", own)
        """Closes an action that nobody sampled, as the template closes an assistant's message; where it closes none, as
        the next message begins, if a policy may end there."""
        self.call_end_id: int = min(closing) if closing else self._begun_by("tool", self.end_id)
        """The same before a tool's message."""
        opening = self.encode(self.template.opening_text())
        marks = [place for place, index in enumerate(opening) if index in self._special_ids]
        self.opening_ids = opening if marks else []
        """What a policy samples before its message, as a channel's name, where the template, too, writes that before a
        message that it repeats; else empty."""
        self.opening: str = self.decode(opening[marks[-1] :]) if marks else ""
        """The end of that."""

    def _begun_by(self, role: str, otherwise: int) -> int:
        """The end of turn with which a message of this role begins."""
        begun = self.encode(self.template.next_text({"role": role, "name": "tool", "content": "hello"}))[:1]
        return next((index for index in begun if index in self.eos_ids), otherwise)

    @classmethod
    def from_folder(cls, folder: str | Path) -> ChatTokenizer:
        """Load the tokenizer of a model folder.

        A `tokenizer.json` is read directly: `AutoTokenizer` may replace its pre-tokeniser with that of the model class.

        Raises:
            ModelError: the folder holds no usable tokenizer, or no chat template.
        """
        from transformers import AutoTokenizer, PreTrainedTokenizerFast

        path = Path(folder)
        if not path.is_dir():
            raise ModelError(
                f"there is no model folder {path}; give a folder that holds config.json and tokenizer.json"
            )
        loader: Any = PreTrainedTokenizerFast if (path / "tokenizer.json").is_file() else AutoTokenizer
        try:
            check_folder(path, "additional_chat_templates")
            raw = loader.from_pretrained(str(path), trust_remote_code=False)
        except Exception as error:
            raise ModelError(
                f"the tokenizer in {path} cannot be loaded ({first_line(error)}); check its files"
            ) from error
        if not raw.encode("a"):  # AutoTokenizer returns an empty one for a folder that has none
            raise ModelError(f"{path} holds no tokenizer; copy tokenizer.json there from the model that it comes from")
        return cls(raw, _generation_eos(path), str(path))

    @cached_property
    def vocab_size(self) -> int:
        """Number of ids, added tokens included."""
        return len(self.raw)

    @cached_property
    def _longest(self) -> int:
        """Characters of the longest token."""
        return max(map(len, self.raw.get_vocab()), default=1)

    def fewest_ids(self, messages: Sequence[Message]) -> int:
        """Least number of ids that the texts of these messages can have; reads none of them, so that a giant one
        costs nothing. No token has more characters than the longest of the vocabulary."""
        return sum(len(message["content"]) for message in messages) // self._longest

    def encode(self, text: str) -> list[int]:
        """Ids of a text; adds nothing, reads control tokens as such, replaces characters that UTF-8 cannot encode.

        What `ControlTokens.protect` cut apart is encoded apart.
        """
        return list(self._encode_cached(text))

    def _encode(self, text: str) -> tuple[int, ...]:
        pieces = [piece for piece in encodable(text).split(BREAK) if piece]
        if len(pieces) < 2:
            return tuple(self.raw.encode(pieces[0], add_special_tokens=False)) if pieces else ()
        encoded = self.raw(pieces, add_special_tokens=False, return_attention_mask=False)
        return tuple(index for ids in encoded["input_ids"] for index in ids)

    def encode_action(self, text: str) -> list[int]:
        """Ids of an action as a policy would write it: tags of calls and thoughts are control ids; special tokens, such
        as the ends of turns, are spelled out."""
        return self.encode(self.control.protect(self.control.spoken(text)))

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, special tokens included."""
        return str(self.raw.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))

    @cached_property
    def _special_ids(self) -> set[int]:
        added = getattr(self.raw, "added_tokens_decoder", {})
        return {*self.raw.all_special_ids, *(index for index, token in added.items() if token.special)}


def _generation_eos(folder: Path) -> list[int]:
    """End ids that the model's own generation_config.json names."""
    path = folder / "generation_config.json"
    if not path.is_file():
        return []
    try:
        value = read_json(path).get("eos_token_id")
        return [] if value is None else [int(index) for index in (value if isinstance(value, list) else [value])]
    except (ValueError, TypeError, AttributeError) as error:
        raise ModelError(
            f"{path} is not a JSON object whose eos_token_id is one id or a list of ids; repair or remove it"
        ) from error
