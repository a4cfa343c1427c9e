"""TokenTexts: what the ids of a run's tokenizer spell, one by one, read from its `tokenizer.json`.

The vocabulary alone is read: to build a tokenizer of 150,000 tokens would take a reader seconds and 100 MB. A token of
bytes may be a piece of a character, which only its neighbours complete.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from agent_r1_core.errors import RunError
from agent_r1_core.opening import read_json

Kind = Literal["text", "control", "part"]
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class TokenTexts:
    """The texts of a vocabulary."""

    def __init__(self, vocabulary: Mapping[int, str], control: Mapping[int, str], decoder: Sequence[Mapping[str, Any]]):
        self._vocabulary = vocabulary
        self._control = control
        kinds = {step.get("type") for step in decoder}
        self._bytes = _bytes_of_letters() if "ByteLevel" in kinds else None
        self._falls_back = "ByteFallback" in kinds
        self._replaced = list(_replacements(decoder))

    @classmethod
    def read(cls, folder: Path) -> TokenTexts:
        """The tokenizer of a folder with model files.

        Raises:
            RunError: it has no `tokenizer.json`, or one of an unknown form.
        """
        path = folder / "tokenizer.json"
        try:
            record = read_json(path)
            control = {int(token["id"]): str(token["content"]) for token in record.get("added_tokens") or ()}
            vocabulary = _vocabulary(record["model"]["vocab"])
            return cls(vocabulary, control, list(_steps(record.get("decoder"))))
        except OSError as error:
            raise RunError(f"{path} cannot be read ({error.strerror}); tokens are shown as ids") from error
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise RunError(f"{path} is no tokenizer with a vocabulary; tokens are shown as ids") from error

    def of(self, token: int) -> tuple[str, Kind]:
        """The text of a token: as written for a control token, with escapes such as `\\xe2` for a piece of a
        character. An id without a token has the text `<id>`."""
        if token in self._control:
            return self._control[token], "control"
        piece = self._vocabulary.get(token)
        if piece is None:
            return f"<{token}>", "control"
        raw = self._raw(piece)
        if raw is None:
            for old, new in self._replaced:
                piece = piece.replace(old, new)
            return piece, "text"
        try:
            return raw.decode("utf-8"), "text"
        except UnicodeDecodeError:
            return raw.decode("utf-8", "backslashreplace"), "part"

    def _raw(self, piece: str) -> bytes | None:
        """The bytes of a token that stands for bytes."""
        if self._bytes is not None and all(letter in self._bytes for letter in piece):
            return bytes(self._bytes[letter] for letter in piece)
        match = _BYTE.fullmatch(piece) if self._falls_back else None
        return bytes([int(match[1], 16)]) if match else None


def _vocabulary(vocab: Any) -> dict[int, str]:
    """By id: of a mapping from tokens to ids, or a list of tokens with their scores."""
    if isinstance(vocab, list):
        return {place: str(entry[0]) for place, entry in enumerate(vocab)}
    return {int(place): token for token, place in vocab.items()}


def _steps(decoder: Any) -> Iterator[dict[str, Any]]:
    if isinstance(decoder, dict):
        yield decoder
        for step in decoder.get("decoders") or ():
            yield from _steps(step)


def _replacements(decoder: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """What the decoder writes in place of parts of a token."""
    for step in decoder:
        if step.get("type") == "Replace" and isinstance(step.get("pattern"), dict) and "String" in step["pattern"]:
            yield str(step["pattern"]["String"]), str(step.get("content", ""))
        elif step.get("type") == "Metaspace":
            yield str(step.get("replacement", "▁")), " "
        elif step.get("type") == "WordPiece":
            yield str(step.get("prefix", "##")), ""


def _bytes_of_letters() -> dict[str, int]:
    """The letters by which byte-level vocabularies write bytes: printable ones stand for themselves, the others for
    those that follow 255 (Radford et al. 2019, GPT-2)."""
    printable = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    others = (byte for byte in range(256) if byte not in printable)
    return {chr(byte): byte for byte in printable} | {chr(256 + place): byte for place, byte in enumerate(others)}
