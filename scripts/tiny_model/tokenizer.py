"""The tokenizer of the tiny model: bytes, syllables and the words of its world, split by one regular expression.

Every text round-trips through its bytes; what the vocabulary knows is one id. There are no merges: the pre-tokeniser
cuts the known pieces out and the model takes a piece that stands in the vocabulary whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

from agent_r1_miniwiki.grammar import COMPARISONS, NOUN_PHRASES, RELATIONS, SENTENCES
from agent_r1_miniwiki.world import SYLLABLES
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import bytes_to_unicode

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
TAGS = ("tool_call", "tool_response", "answer", "think", "search", "information")
RESERVED = 64
"""Ids kept free for what later work may need."""

CHUNKS = (
    *('{"name": "', '", "arguments": {"query": "', '", "arguments": {"expression": "', '", "arguments": {"', '": "'),
    *('"}}', "wiki_search", "calculator", "user\n", "assistant\n", "system\n", "Tools: ", "\n\n"),
    *("No passage found.", "Error: ", "unknown", "What is ", " + ", " - ", " * ", " / ", " = ", ". ", ", ", " or "),
    *("up", "down", "left", "right", "Up", "Down", "Left", "Right"),
)


def vocabulary_words() -> list[str]:
    """The words of all passages and questions with the space before them; also with the one after them where a name
    or a year can follow, so that a name is the same ids wherever it stands."""
    texts = [sentence for sentences in SENTENCES.values() for sentence in sentences]
    texts += [*NOUN_PHRASES.values(), *COMPARISONS.values()]
    texts += [text for relation in RELATIONS.values() for text in (relation.question, relation.phrase)]
    found = set[str]()
    for text in texts:
        text = re.sub(r"\{\w*\}", "0", text)
        found.update(re.findall(r"^[A-Z][a-z]+", text), (f" {word}" for word in re.findall(r"\b[a-z]+", text)))
        found.update(f" {word} " for word in re.findall(r"\b([a-z]+) 0", text))
    return sorted(found)


def pieces() -> list[str]:
    """Everything longer than a byte that is one id of the tiny model, in the vocabulary's order."""
    syllables = [*SYLLABLES, *(syllable.capitalize() for syllable in SYLLABLES)]
    return list(dict.fromkeys([*syllables, *vocabulary_words(), *CHUNKS]))


def save(tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write the tokenizer so that AutoTokenizer, too, keeps its pre-tokeniser.

    For the model type `qwen2`, AutoTokenizer replaces a tokenizer by Qwen2's own regular expression and normaliser
    unless its configuration has an `auto_map`; an empty one leads it back to the class named here.
    """
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text())
    config.update(tokenizer_class="PreTrainedTokenizerFast", auto_map={"AutoTokenizer": [None, None]})
    path.write_text(json.dumps(config, indent=2) + "\n")


def build(more: Iterable[str] = ()) -> PreTrainedTokenizerFast:
    """The tokenizer, with its chat template; `more` are further pieces that shall be one id each."""
    known = list(dict.fromkeys([*pieces(), *more]))
    symbols = bytes_to_unicode()  # what the ByteLevel pre-tokeniser writes for each byte
    spelt = lambda text: "".join(symbols[byte] for byte in text.encode())
    vocabulary = {symbols[byte]: byte for byte in range(256)}
    for piece in known:
        vocabulary.setdefault(spelt(piece), len(vocabulary))
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], ignore_merges=True))
    split = pre_tokenizers.Split(Regex(_pattern(known)), "isolated")
    as_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, as_bytes])
    tokenizer.decoder = decoders.ByteLevel()
    control = [PAD, START, END, *(f"<|reserved_{index}|>" for index in range(RESERVED))]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control[:3]])
    tags = [f"<{slash}{tag}>" for tag in TAGS for slash in ("", "/")]
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in tags])
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control[3:]])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        clean_up_tokenization_spaces=False,
        model_max_length=2048,
        chat_template=(Path(__file__).parent / "chat_template.jinja").read_text(),
    )


def _pattern(pieces: Iterable[str]) -> str:
    """Known pieces, longest first; then any one character. Words end at a word's end."""
    syllable = re.compile("[A-Za-z][a-z]")
    known = [piece for piece in pieces if not syllable.fullmatch(piece) or piece.lower() not in SYLLABLES]
    alternatives = [_ending(piece) for piece in sorted(known, key=lambda piece: (-len(piece), piece))]
    consonants = "".join(sorted({syllable[0] for syllable in SYLLABLES}))
    return "|".join([*alternatives, f"[{consonants}{consonants.upper()}][aeiou]", r"[\s\S]"])


def _ending(piece: str) -> str:
    if piece[-1].isalpha():
        return re.escape(piece) + "(?![A-Za-z])"
    if piece[-1] == " " and piece.strip().isalpha():
        return re.escape(piece) + "(?=[A-Z0-9])"
    return re.escape(piece)
