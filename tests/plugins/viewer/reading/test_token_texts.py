"""What single tokens spell, whatever kind of vocabulary a tokenizer has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from agent_r1_viewer.reading.token_texts import TokenTexts

from agent_r1_core.errors import RunError

BUNDLED = Path(__file__).parents[4] / "agent_r1_core" / "bundled" / "tiny"


def texts(folder: Path, model: Any, decoder: Any = None, added: Any = None) -> TokenTexts:
    record = {"model": model, "decoder": decoder, "added_tokens": added}
    (folder / "tokenizer.json").write_text(json.dumps(record), encoding="utf-8")
    return TokenTexts.read(folder)


def test_tokens_of_the_bundled_model_together_are_what_its_tokenizer_decodes() -> None:
    """Every character of the vocabulary, and one that three tokens write a byte each."""
    from transformers import AutoTokenizer

    tokenizer, found = AutoTokenizer.from_pretrained(BUNDLED), TokenTexts.read(BUNDLED)
    ids = tokenizer.encode("What is the seat of Loho? <tool_call>\n€ é\t<|im_end|>", add_special_tokens=False)
    kinds = [found.of(token)[1] for token in ids]
    assert kinds.count("part") == 5
    assert [found.of(token)[0] for token in ids if found.of(token)[1] == "control"] == ["<tool_call>", "<|im_end|>"]
    parts = [text.encode() if kind != "part" else bytes([int(text[2:], 16)]) for text, kind in map(found.of, ids)]
    assert b"".join(parts).decode() == tokenizer.decode(ids, skip_special_tokens=False)
    for token in range(len(tokenizer)):
        text, kind = found.of(token)
        if kind == "text":
            assert text == tokenizer.decode([token])


def test_other_kinds_of_vocabulary_are_read(tmp_path: Path) -> None:
    """SentencePiece writes spaces and bytes, a unigram model lists its pieces, WordPiece marks what goes on."""
    spaces = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    found = texts(
        tmp_path,
        {"type": "BPE", "vocab": {"▁the": 0, "<0xE2>": 1, "<0x41>": 2, "▁▁": 3}},
        {"type": "Sequence", "decoders": [spaces, {"type": "ByteFallback"}, {"type": "Fuse"}]},
        [{"id": 4, "content": "<s>", "special": True}],
    )
    assert [found.of(token) for token in range(6)] == [
        (" the", "text"), ("\\xe2", "part"), ("A", "text"), ("  ", "text"), ("<s>", "control"), ("<5>", "control")
    ]  # fmt: skip
    unigram = {"type": "Unigram", "vocab": [["<unk>", 0.0], ["▁a", -1.5]]}
    assert texts(tmp_path, unigram, {"type": "Metaspace", "replacement": "▁"}).of(1) == (" a", "text")
    words = {"type": "WordPiece", "vocab": {"play": 0, "##ing": 1}}
    assert texts(tmp_path, words, {"type": "WordPiece", "prefix": "##"}).of(1) == ("ing", "text")
    assert texts(tmp_path, {"vocab": {"plain": 0}}).of(0) == ("plain", "text")


def test_what_is_no_tokenizer_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot be read"):
        TokenTexts.read(tmp_path)
    for text in ("{", "[]", '{"model": {}}', '{"model": {"vocab": {"a": "b"}}}', '{"model": {"vocab": 3}}', "\udcff"):
        (tmp_path / "tokenizer.json").write_bytes(text.encode("utf-8", "surrogateescape"))
        with pytest.raises(RunError, match="is no tokenizer"):
            TokenTexts.read(tmp_path)
