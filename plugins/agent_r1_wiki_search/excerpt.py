"""What the model reads of a passage: its title, its text or both, the text cut at a limit of characters or tokens."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_r1_core import ConfigError, Passage
from agent_r1_core.opening import LINES, check_regular

if TYPE_CHECKING:
    from agent_r1_wiki_search.config import WikiSearchConfig

_MARK = " ..."
"""Says that a text was cut; not counted."""


def make_excerpt(config: WikiSearchConfig, tokenizer: str | None) -> Callable[[Passage], str]:
    """The function that shortens passages.

    Args:
        config: the tool's options.
        tokenizer: the folder of the policy's tokenizer.

    Raises:
        ConfigError: tokens are to be counted, and there is no tokenizer to count them.
    """
    if config.show == "titles":
        return lambda passage: passage.title
    cut = partial(_characters, most=config.max_characters)
    if config.max_tokens is not None:
        cut = partial(_tokens, most=config.max_tokens, tokenizer=_load(tokenizer))
    if config.show == "texts":
        return lambda passage: cut(passage.text)
    return lambda passage: f"{passage.title}\n{cut(passage.text)}"


def _characters(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most].rstrip() + _MARK


def _tokens(text: str, most: int, tokenizer: Any) -> str:
    """The text cut where the limit's last token ends; what looks like a control token counts as text, as in a chat."""
    shown = text
    while len(encoding := tokenizer.encode(shown, add_special_tokens=False)) > most:
        end = encoding.offsets[most - 1][1]
        shown = shown[: min(end, len(shown) - 1)].rstrip()  # the end of a cut text may be split into more tokens
    return text if shown == text else shown + _MARK


def _load(folder: str | None) -> Any:
    from tokenizers import Tokenizer

    file = None if folder is None else Path(folder) / "tokenizer.json"
    if file is None or not file.is_file():
        where = "no policy is at hand" if folder is None else f"{folder} has no tokenizer.json"
        raise ConfigError(f"max_tokens counts with the policy's tokenizer, but {where}; set max_characters instead")
    check_regular(file, LINES)
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.encode_special_tokens = True
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
