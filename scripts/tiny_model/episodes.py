"""Playing search episodes with the tiny model in plain batched generation, to measure it without the framework."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import bm25s
import torch
from transformers import DynamicCache, PreTrainedTokenizerFast, Qwen2ForCausalLM

from agent_r1_core import Passage, Task
from tiny_model.demonstrations import BAD_CALL, NOTHING

TOOLS: list[Any] = [{"type": "function", "function": {"name": "wiki_search"}}]


@dataclass
class Episode:
    """One question put to the model, and what it did."""

    task: Task
    ids: list[int]
    mask: list[int]
    """1 on ids that the model sampled."""
    queries: list[str] = field(default_factory=list)
    found: list[Passage] = field(default_factory=list)
    """The passages that the model was shown."""
    answer: str | None = None
    malformed: int = 0
    done: bool = False

    @property
    def correct(self) -> bool:
        """Whether the answer is the task's, to the letter."""
        return self.answer in self.task.answers


class Search:
    """BM25 over a corpus: the best passage as `Title\\nText`, or that there is none."""

    def __init__(self, corpus: Iterable[Passage]) -> None:
        self.passages = list(corpus)
        self.index = bm25s.BM25()
        texts = [f"{p.title}\n{p.text}" for p in self.passages]
        self.index.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)

    def __call__(self, query: str) -> Passage | None:
        if not query.strip():
            return None
        words = bm25s.tokenize([query], show_progress=False, return_ids=False)
        result = self.index.retrieve(words, k=1, show_progress=False)
        return self.passages[result.documents[0, 0]] if result.scores[0, 0] > 0 else None


def play(
    model: Qwen2ForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    tasks: Sequence[Task],
    search: Search | None,
    *,
    temperature: float = 0.0,
    seed: int = 0,
    max_turns: int = 5,
) -> list[Episode]:
    """Play one episode per task (repeat a task for more); `temperature` 0 is greedy, `search` None finds nothing."""
    random = torch.Generator().manual_seed(seed)
    prompts = (
        tokenizer.apply_chat_template(
            [{"role": "user", "content": task.prompt}], tools=TOOLS, add_generation_prompt=True, tokenize=False
        )
        for task in tasks
    )
    encoded = (tokenizer.encode(prompt, add_special_tokens=False) for prompt in prompts)
    episodes = [Episode(task, ids, [0] * len(ids)) for task, ids in zip(tasks, encoded, strict=True)]
    for _ in range(max_turns):
        live = [episode for episode in episodes if not episode.done]
        if not live:
            break
        actions = generate(model, [e.ids for e in live], tokenizer, temperature, random)
        for episode, action in zip(live, actions, strict=True):
            episode.ids += action
            episode.mask += [1] * len(action)
            _answer(episode, tokenizer, action, search)
    return episodes


def _answer(episode: Episode, tokenizer: PreTrainedTokenizerFast, action: list[int], search: Search | None) -> None:
    """Interpret one action: end the episode, or append what the tool says."""
    text = str(tokenizer.decode([i for i in action if i != tokenizer.eos_token_id]))
    said = re.search(r"<answer>(.*?)</answer>", text, re.DOTALL)
    if said:
        episode.answer, episode.done = said.group(1).strip(), True
        return
    query = read_query(text)
    if query is None:
        episode.malformed += 1
        reply = BAD_CALL
    else:
        passage = search(query) if search else None
        episode.queries.append(query)
        if passage:
            episode.found.append(passage)
        reply = f"{passage.title}\n{passage.text}" if passage else NOTHING
    closed = "" if action[-1] == tokenizer.eos_token_id else tokenizer.eos_token
    frame = f"{closed}\n<|im_start|>user\n<tool_response>\n{reply}\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    new = tokenizer.encode(frame, add_special_tokens=False)
    episode.ids += new
    episode.mask += [0] * len(new)


def read_query(text: str) -> str | None:
    """The query of a well-formed call, or None."""
    found = re.search(r"<tool_call>(.*)</tool_call>\s*$", text, re.DOTALL)
    try:
        made = json.loads(found.group(1)) if found else None
        query = made["arguments"]["query"] if made and made["name"] == "wiki_search" else None
    except (ValueError, KeyError, TypeError):
        return None
    return query if isinstance(query, str) else None


@torch.inference_mode()
def generate(
    model: Qwen2ForCausalLM,
    contexts: Sequence[list[int]],
    tokenizer: PreTrainedTokenizerFast,
    temperature: float,
    random: torch.Generator,
    max_new_tokens: int = 64,
) -> list[list[int]]:
    """Continue each context up to and with the end of the turn; left-padded, all rows at once."""
    pad, end = tokenizer.pad_token_id, tokenizer.eos_token_id
    width = max(map(len, contexts))
    ids = torch.tensor([[pad] * (width - len(c)) + c for c in contexts])
    seen = torch.tensor([[0] * (width - len(c)) + [1] * len(c) for c in contexts])
    position = (seen.cumsum(1) - 1).clamp(min=0)
    cache = DynamicCache()
    out: list[list[int]] = [[] for _ in contexts]
    going = torch.ones(len(contexts), dtype=torch.bool)
    for _ in range(max_new_tokens):
        logits = model(
            input_ids=ids, attention_mask=seen, position_ids=position, past_key_values=cache, use_cache=True,
            logits_to_keep=1,
        ).logits[:, -1]  # fmt: skip
        if temperature:
            chosen = torch.multinomial((logits.float() / temperature).softmax(-1), 1, generator=random)
        else:
            chosen = logits.argmax(-1, keepdim=True)
        for row in going.nonzero().flatten().tolist():
            out[row].append(int(chosen[row]))
        going &= chosen[:, 0] != end
        if not going.any():
            break
        ids, position = chosen, position[:, -1:] + 1
        seen = torch.cat([seen, torch.ones_like(chosen)], 1)
    return out
