"""The bundled models' tokenizer, and their supervised training on demonstrations, from random weights.

The tokenizer is bytes, syllables and the words of the tiny model's world, split by one regular expression. Every text
round-trips through its bytes; what the vocabulary knows is one id. There are no merges: the pre-tokeniser cuts the
known pieces out and the model takes a piece that stands in the vocabulary whole.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from agent_r1_miniwiki.grammar import COMPARISONS, NOUN_PHRASES, RELATIONS, SENTENCES
from agent_r1_miniwiki.world import SYLLABLES
from tiny_model.demonstrations import Demonstration
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
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
MUON_RATE, ADAM_RATE = 0.02, 2e-3
ROPE_THETA = 10_000.0
Batch = list[tuple[list[int], list[int]]]
"""Ids and mask of several demonstrations."""


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


def save(model: Any, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write a model in bfloat16, and its tokenizer so that AutoTokenizer, too, keeps its pre-tokeniser.

    For the model type `qwen2`, AutoTokenizer replaces a tokenizer by Qwen2's own regular expression and normaliser
    unless its configuration has an `auto_map`; an empty one leads it back to the class named here.
    """
    folder.mkdir(parents=True, exist_ok=True)
    model.to(torch.bfloat16).save_pretrained(folder)
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


def new_model(tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen2ForCausalLM:
    """Random weights: 4 layers of 192, 4 heads (2 key-value heads), tied embeddings."""
    torch.manual_seed(seed)
    rope = {"rope_type": "default", "rope_theta": ROPE_THETA}
    fields: dict[str, Any] = {
        **{"vocab_size": len(tokenizer), "max_position_embeddings": 2048, "tie_word_embeddings": True},
        **{"hidden_size": 192, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4},
        **{"num_key_value_heads": 2, "rope_parameters": rope, "use_sliding_window": False, "attention_dropout": 0.0},
        **{"initializer_range": 0.02, "bos_token_id": None},
        **{"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id},
    }
    model = Qwen2ForCausalLM(Qwen2Config(**fields))
    torch.nn.init.normal_(model.model.embed_tokens.weight, std=0.1)
    look_back(model, strength=6.0)
    return model


@torch.no_grad()
def look_back(model: Qwen2ForCausalLM, strength: float) -> None:
    """Let the first two heads of the first layer begin by looking one and two tokens back.

    Copying needs such heads, and finding them is what takes a small model longest. By rotary positions R, biases
    b_q = R(-d) b_k score a key by sum_f |b_f|^2 cos(theta_f (distance - d)): highest at distance d.
    """
    config, attention = model.config, model.model.layers[0].self_attn
    size = config.hidden_size // config.num_attention_heads
    half = torch.arange(size // 2)
    angle = ROPE_THETA ** (-half / (size // 2))
    amplitude = strength * (half < size // 6)  # the fast frequencies, which tell neighbours apart
    attention.k_proj.bias[:size] = torch.cat([amplitude, torch.zeros_like(amplitude)])
    for head, distance in ((0, 1), (1, 2)):
        turned = torch.cat([amplitude * torch.cos(angle * distance), -amplitude * torch.sin(angle * distance)])
        attention.q_proj.bias[head * size : (head + 1) * size] = turned


def encode(
    tokenizer: PreTrainedTokenizerFast, demonstration: Demonstration, *, answers: bool = False
) -> tuple[list[int], list[int]]:
    """Ids and their mask: 1 on what the assistant says, its end of turn included; with `answers` also on what it is
    answered."""
    tools: list[Any] = [{"type": "function", "function": {"name": name}} for name in demonstration.tools]
    ids, mask, done = list[int](), list[int](), 0
    for index, message in enumerate(demonstration.messages):
        if message["role"] != "assistant":
            continue
        text = tokenizer.apply_chat_template(
            demonstration.messages[:index], tools=tools or None, add_generation_prompt=True, tokenize=False
        )
        said = message["content"] + tokenizer.eos_token
        for piece, bit in ((text[done:], int(answers and done > 0)), (said, 1)):
            new = tokenizer.encode(piece, add_special_tokens=False)
            ids += new
            mask += [bit] * len(new)
        done = len(text) + len(said)
    return ids, mask


def batches(
    tokenizer: PreTrainedTokenizerFast, demonstrator: Iterable[Demonstration], size: int, *, answers: bool = False
) -> Iterator[Batch]:
    """Encoded demonstrations, `size` at a time."""
    stream = (encode(tokenizer, demonstration, answers=answers) for demonstration in demonstrator)
    return iter(lambda: list(islice(stream, size)), [])


def imitate(model: Qwen2ForCausalLM, stream: Iterable[Batch], total: int) -> None:
    """Learn from `total` batches.

    Muon (Jordan et al. 2024) for the matrices of the layers and AdamW for the rest; the learning rate falls linearly to
    zero over the last half. Prints the loss at imitated tokens.
    """
    matrices = [p for name, p in model.named_parameters() if p.dim() == 2 and "embed" not in name]
    rest = [p for name, p in model.named_parameters() if p.dim() == 1 or "embed" in name]
    optimisers = [
        torch.optim.Muon(matrices, lr=MUON_RATE, momentum=0.95, weight_decay=0.01),
        torch.optim.AdamW(rest, lr=ADAM_RATE, betas=(0.9, 0.98), weight_decay=0.0),
    ]
    model.train()
    model.set_attn_implementation("eager")  # at this size its backward pass is the faster one
    start, recent = time.time(), list[float]()
    for step, batch in enumerate(islice(stream, total)):
        left = 1 - step / total
        for optimiser, rate in zip(optimisers, (MUON_RATE, ADAM_RATE), strict=True):
            optimiser.param_groups[0]["lr"] = rate * min(1.0, (step + 1) / 30, 2 * left)
        recent.append(_accumulate(model, batch))
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimiser in optimisers:
            optimiser.step()
            optimiser.zero_grad()
        if (step + 1) % 50 == 0:
            loss = sum(recent) / len(recent)
            print(f"step {step + 1}/{total}  loss {loss:.4f}  {time.time() - start:.0f} s", flush=True)
            recent.clear()


def _accumulate(model: Qwen2ForCausalLM, batch: Batch) -> float:
    """Backward through a batch in groups of similar length; returns the mean loss of imitated tokens."""
    batch = sorted(batch, key=lambda pair: len(pair[0]))
    imitated = sum(sum(mask[1:]) for _, mask in batch)
    loss_sum = 0.0
    for first in range(0, len(batch), 8):
        part = batch[first : first + 8]
        ids = _padded([ids for ids, _ in part])
        chosen = _padded([mask for _, mask in part])[:, 1:].bool()
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(input_ids=ids, use_cache=False).logits[:, :-1][chosen]
        loss = F.cross_entropy(logits.float(), ids[:, 1:][chosen], reduction="sum") / imitated
        loss.backward()
        loss_sum += float(loss.detach())
    return loss_sum


def _padded(rows: list[list[int]]) -> torch.Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
