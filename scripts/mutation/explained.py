"""Survivors that no test can tell from the original, or that none should: why, by file, text before and text after."""

from __future__ import annotations

Change = tuple[str, str, str]
"""A file's stem, the changed lines before, and after."""

ABOVE = "Any number above all turns will do."
BY_LAW_9 = "The test of LAW 9 notices; this room leaves it out, because it waits for calls that hang."
DEVICE = "Tests run on the CPU alone."
FLOAT32 = "Counts of tokens are exact in float32 too, and the weights are float32 in the end."
SAME = "Means the same."
SPARE = "One bucket more than there are groups, sequences or turns, which nothing reads."
TEXT = "Changes the text of a message."


FILES = dict.fromkeys(
    ("isolated_keeper", "isolated_worker"), "Runs in a process of its own, where mutmut sees no test reach it."
)
"""Files whose survivors all have one reason."""


def explain(stem: str, before: str, after: str) -> str:
    """Why a mutant survives."""
    return EXPLAINED.get((stem, before, after)) or FILES.get(stem, "Not explained.")


def _change(stem: str, before: str, old: str, new: str) -> Change:
    """A change of one place in a line."""
    return stem, before, before.replace(old, new, 1)


_COUNT = "count = int(group.max()) + 1 if group.numel() else 0"
_BIAS = (
    'bias = torch.zeros(visible.shape, dtype=query.dtype, device=query.device).masked_fill_(~visible, float("-inf"))'
)
_DTYPE = "ctx.dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight.dtype"
_ANCHORS = "anchors = torch.full(batch.turn.shape, -1, dtype=torch.long)"
_NEVER = "never = int(turn.max()) + 1 if turn.numel() else 0"
_TURNS = "turns = int(index.max()) + 1 if turn.numel() else 0"
_ZEROS = "zeros = token_log_ratio.new_zeros(int(sequence.max()) + 1 if sequence.numel() else 0)"
_INDEX = "index = torch.argsort(mask.logical_not().to(torch.uint8), dim=1, stable=True)[:, :longest]"
_HEAD = "return self.head.logprobs(hidden[before.to(device)], ids.to(device), temperature, entropy_gradient)"
_CLOSED = '_LOG.warning("the %s of episode %s could not be closed: %s", what, episode.key, describe_error(error))'
_NOT_FINITE = '"tool %s recorded the metric %s as %.80r, which is not a finite number", tool.name, name, value'

_DIES = "A run that dies in a tool shows it, and those tests run commands: they belong to no room."
_NOT_CLOSED = '_LOG.warning("tool %s could not be closed: %s", tool.name, describe_error(error))'
_MODEL = 'self.name = name or str(getattr(raw, "name_or_path", "") or "the tokenizer")'
_WATCH = "Runs in a thread that the first limit starts; mutmut asks no other test, and a fork has no such thread."
_BEGIN = "return 0 if self._log is None else self._log.begin(tool.name, context.episode, context.turn)"

EXPLAINED: dict[Change, str] = {
    _change("aggregation", "lengths = mask.sum(1).to(torch.float64)", "torch.float64", "None"): FLOAT32,
    _change(
        "aggregation", "per_row = (1 / sequences.to(torch.float64)).expand_as(lengths)", "torch.float64", "None"
    ): FLOAT32,
    _change(
        "aggregation",
        "per_row = (1 / (sequences.to(torch.float64) * horizon)).expand_as(lengths)",
        "torch.float64",
        "None",
    ): FLOAT32,
    _change("groups", _COUNT, "+ 1", "+ 2"): SPARE,
    _change("groups", _COUNT, "else 0", "else 1"): SPARE,
    _change("surrogate", _ZEROS, "+ 1", "+ 2"): SPARE,
    _change("surrogate", _ZEROS, "else 0", "else 1"): SPARE,
    _change(
        "surrogate", "cut = (advantages < 0) & (loss > ceiling)", "<", "<="
    ): "At an advantage of 0 the loss and its bound are both 0.",
    _change("anchors", _ANCHORS, "dtype=torch.long", "dtype=None"): SAME,
    _change("anchors", _ANCHORS, "dtype=torch.long", ""): SAME,
    _change("turns", _NEVER, "+ 1", "+ 2"): ABOVE,
    _change("turns", _NEVER, "else 0", "else 1"): ABOVE,
    _change(
        "turns",
        "after = torch.cat([later, nothing + 1 + never], 1).flip(1).cummin(1).values.flip(1)[:, 1:]",
        "+ 1",
        "+ 2",
    ): ABOVE,
    _change("turns", _TURNS, "+ 1", "+ 2"): SPARE,
    _change("turns", _TURNS, "else 0", "else 1"): SPARE,
    _change(
        "gigpo", "turns = int(turn_borders(batch.turn)[0].sum())", "[0]", "[1]"
    ): "Every turn has one first token and one last.",
    _change(
        "gigpo", 'metrics={"anchored_turns": anchored / max(1, turns)},', "max(1", "max(2"
    ): "A turn is anchored by another one, so a single turn never is.",
    _change("attention", _BIAS, "device=query.device", ""): DEVICE,
    _change(
        "checks",
        "frame = next((frame for frame in reversed(frames) if frame.filename in own), frames[-1])",
        "-1",
        "+1",
    ): "Only an algorithm that consists of another library's functions gets there.",
    _change(
        "critic",
        'self.head = nn.Linear(getattr(decoder.config, "hidden_size", width), 1).to(policy.device)',
        "decoder.config",
        "None",
    ): "The two widths are equal in every model of the tests.",
    _change(
        "forward",
        "own = policy.logprobs(packed, at, temperature).logprobs.cpu() if len(at) else torch.zeros(0)",
        "zeros(0)",
        "zeros(1)",
    ): "Only a sample of trajectories without actions gets there; the gap is then 0 instead of absent.",
    _change("decoder", "attention_mask=None,", "attention_mask=None,", ""): SAME,
    _change(
        "decoder",
        "return module(input_ids=ids[None], use_cache=False).last_hidden_state[0]",
        "use_cache=False",
        "",
    ): "A cache that nobody reads costs memory and changes no number.",
    _change(
        "head", "return logits if scale == 1.0 else logits.mul_(scale)", "scale == 1.0", "(scale == 1.0) and False"
    ): SAME,
    _change("head", _DTYPE, _DTYPE, "ctx.dtype = None"): "Computes in float32 what may be bfloat16.",
    _change("head", "normaliser = torch.logsumexp(logits, -1)", "-1", "+1"): SAME,
    _change("masking", _INDEX, "dim=1, ", ""): SAME,
    _change("masking", _INDEX, "torch.uint8", "None"): SAME,
    _change(
        "masking",
        "present = torch.arange(longest, device=mask.device)[None, :] < counts[:, None]",
        "device=mask.device",
        "",
    ): DEVICE,
    _change("packing", "index = torch.tensor(rows, dtype=torch.long)", "dtype=torch.long", ""): SAME,
    _change(
        "policy", "gradient_checkpointing: bool = False,", "False", "True"
    ): "Recomputing activations takes time and saves memory; the numbers are the same.",
    _change("networks", _HEAD, "before.to(device)", "before.to(None)"): DEVICE,
    _change("networks", _HEAD, "ids.to(device)", "ids.to(None)"): DEVICE,
    _change("policy", "shared = shared.to(logprobs.device)", "logprobs.device", "None"): DEVICE,
    _change("update", "return packed.take(numbers, chosen).to(device)", "device", "None"): DEVICE,
    _change(
        "collector", "self._threads = ThreadPool(settings.max_episodes * 2)", "2", "3"
    ): "More threads than are used.",
    _change("answer", _NOT_FINITE, "tool.name, name, value", "None, name, value"): TEXT,
    _change("answer", _NOT_FINITE, "tool.name, name, value", "tool.name, name, None"): TEXT,
    _change("answer", _NOT_FINITE, "tool.name, name, value", "name, value"): TEXT,
    _change("answer", "return failure_of(tool, error, context)", "error, ", ""): BY_LAW_9,
    _change(
        "isolated",
        "waits = time.monotonic() < self._next_start and (bool(self._all) or enough is not None)",
        "<",
        "<=",
    ): SAME,
    _change("isolated_process", 'name = hello["target"]["name"]', 'hello["target"]["name"]', "None"): TEXT,
    _change(
        "isolated_process", "self._transport: asyncio.Transport | None = None", "= None", '= ""'
    ): "Set as soon as the connection stands.",
    _change("tool_runner", _BEGIN, "self._log.begin(tool.name, context.episode, context.turn)", "None"): _DIES,
    _change("tool_runner", _BEGIN, "context.episode", "None"): _DIES,
    _change("tool_runner", "deadline = math.inf", "math.inf", "None"): "Set before anything reads it.",
    _change(
        "threads",
        'return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")',
        "fields[12]",
        "fields[13]",
    ): "A loop spends its time in the process, not in the system.",
    _change(
        "threads",
        "looping = Counter(self._threads[thread][0] for thread in loops)",
        "self._threads[thread][0] for thread in loops",
        "None",
    ): BY_LAW_9,
    _change(
        "process_state",
        "if handler is not None and signal.getsignal(number) != handler:",
        "is not None",
        "is None",
    ): BY_LAW_9,
    _change("process_state", "if what not in self._told:", "not in", "in"): BY_LAW_9,
    _change("answer", "for item in error.errors(include_url=False, include_input=False):", "False", "True"): SAME,
    _change("collector", _CLOSED, "describe_error(error)", "None"): TEXT,
    ("collector", _CLOSED, "_LOG.warning(what, episode.key, describe_error(error))"): TEXT,
    _change("episode", "self._ended = True", "True", "None"): "A failed episode is asked for nothing more.",
    _change(
        "drift", "for index, (left, right) in enumerate(zip(first, second, strict=False)):", "strict=False", ""
    ): SAME,
    _change(
        "template", 'if others and others[0]["role"] == "user":', "and", "or"
    ): "Differs only where the policy speaks first, which templates without a system role refuse.",
    _change(
        "tokenizer", "return cls(raw, _generation_eos(path), str(path))", "str(path)", "None"
    ): "The tokenizer knows the folder that it came from.",
    _change("process_state", "return None if get is None else get()", "get is None", "(get is None) or True"): BY_LAW_9,
    _change("process_state", "return None if get is None else get()", "get is None", "get is not None"): BY_LAW_9,
    _change(
        "learner",
        "tokens = minibatch.loss_tokens(packed, chosen, policy, values, self.policy.device)",
        "self.policy.device",
        "None",
    ): DEVICE,
    _change("policy", "seed: int = 0,", "0", "1"): "Any number will do as the seed of new adapters.",
    _change(
        "scoring",
        'groups = [_after(prompt, actions, f"{number}") for number, prompt in enumerate(prompts)]',
        'f"{number}"',
        "None",
    ): "The name of a group is for messages.",
    _change(
        "isolated", "self._bulky = max(len(body), len(received)) > _BULKY", "> _BULKY", ">= _BULKY"
    ): "Where a message of exactly so many bytes is written makes no difference.",
    _change(
        "isolated_process", "with contextlib.suppress(subprocess.TimeoutExpired):", "subprocess.TimeoutExpired", "None"
    ): "Only a killed process that the system does not end in time would show it.",
    _change("tool_runner", _NOT_CLOSED, "describe_error(error)", ""): TEXT,
    _change(
        "conversation",
        "return characters <= _QUICK_CHARACTERS and self._tokenizer.template.is_quick",
        "<=",
        "<",
    ): SAME,
    _change("deadline", "self._stopped: set[int] = set()", "set()", "None"): _WATCH,
    _change("deadline", "while True:", "True", "False"): _WATCH,
    _change("deadline", "self._looks_left[thread] -= 1", "-=", "="): _WATCH,
    _change("drift", "if not 0 <= position < len(ids):", "0", "1"): TEXT,
    _change(
        "template", "self._last_seconds = 0.0", "0.0", "1.0"
    ): "The tokenizer renders once while it is made, which sets it.",
    _change("tokenizer", _MODEL, '""', "None"): SAME,
    _change(
        "intervals", "rows = max(1, 4_000_000 // len(values))", "1", "2"
    ): "Slices hold two resamples instead of one where there are millions of tasks.",
}
