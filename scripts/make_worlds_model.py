"""Makes the bundled worlds model: tokenizer, supervised training on aimless play, measurements, model card.

    python scripts/make_worlds_model.py --out agent_r1_core/bundled/tiny-worlds
    python scripts/make_worlds_model.py --out agent_r1_core/bundled/tiny-worlds --measure-only

It is taught by legal and aimless play. Every action is drawn at random among those that are legal and change
something: no step against the edge of the lake or a wall, but into a hole as readily as anywhere; either arm of the
bandit; numbers put together at random, whatever the target. On the lake it also repeats what it was told, the newest
message or another. So the model learns to read and to write the worlds' formats, and nothing about what is good in
them.

Takes about ten minutes on one core. The same seed gives the same weights on the same kind of processor with the same
version of torch; elsewhere bfloat16 rounds differently and the measurements differ slightly.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import torch
from agent_r1_countdown.env import Countdown
from agent_r1_gymnasium.bandit import ARMS, Bandit
from agent_r1_gymnasium.frozen_lake import FrozenLake
from agent_r1_gymnasium.sokoban import Sokoban
from make_tiny_model import arguments, fill_card
from tiny_model.demonstrations import Demonstration, Message, answer
from tiny_model.model import batches, build, imitate, new_model, save
from transformers import PreTrainedTokenizerFast, Qwen2ForCausalLM

from agent_r1_core import Action, EnvServices, Observation, Step, Task, ToolEnv
from agent_r1_core.evaluation.evaluator import EvaluationPlan
from agent_r1_core.training.api import evaluate, resolve

STEPS, BATCH = 420, 24
TINY = Path(__file__).resolve().parents[1] / "agent_r1_core" / "bundled" / "tiny"
EMBEDDINGS = "model.embed_tokens.weight"
MOVES = {"left": (0, -1), "down": (1, 0), "right": (0, 1), "up": (-1, 0)}
CHUNKS = (
    *(f"at {row} {column}:" for row in range(4) for column in range(4)),
    *(f" {name} {cell}" for name in MOVES for cell in "_#OG"),
    *(str(number) for number in range(10, 21)),
    *("√", "phoenix", "dragon", "Pull", "It pays ", "Pull again.", "0.1", "Actions: ", "Write it as "),
    *(" in order, as ", "Write one, or up to ", "Numbers: ", ". Target: ", "That is ", ", not ", ". Try again."),
    *("(1 + 2) * 3", ", or "),
    *("Reach the target with + - * / and brackets; use each number once. Write the expression as ", "no action"),
    *("; write it between ", "no expression", " is no action; the actions are "),
    " actions are too many; a turn has at most ",
    *("Where are you?", "Notes:"),
)
"""Cells around a player are one id with their direction, and so is each number up to 20, so that a small model need not
put them together."""
SIZE = 200
HELD_OUT = 1_000_000
MIXTURE: dict[str, float] = {"frozen_lake": 0.24, "notes": 0.08, "sokoban": 0.10, "countdown": 0.50, "bandit": 0.08}
"""Share of each world, and of notes taken on the lake."""
TURNS = {"frozen_lake": 8, "sokoban": 4, "countdown": 3, "bandit": 3}
"""Most turns of an episode."""
IN_ORDER = 0.6
"""How often Countdown's numbers keep their order, which is easier to write than another one."""
ASK, HEADING = "Where are you?", "Notes:"
"""Asks for a note, and heads it."""
FIRST_SEED = 100_000
"""Far from the seeds of recipes, and below those that are held out."""
WORLDS: dict[str, str] = {
    "frozen_lake": "{name: frozen_lake, view: around, max_turns: 12}",
    "sokoban": "{name: sokoban, max_turns: 10}",
    "bandit": "{name: bandit}",
    "countdown": "{name: countdown}",
}
"""The environments of the measurements, as in a recipe."""

CARD = """# tiny-worlds

A Qwen2 model of {parameters:,} parameters ({bytes:,} bytes in bfloat16) with its own tokenizer and chat template. It
plays `frozen_lake`, `sokoban`, `bandit` and `countdown` legally and without aim, so that reinforcement learning in
these environments can be run, watched and tested on a laptop. It knows no English and no other world.

- {num_hidden_layers} layers of {hidden_size}, {num_attention_heads} heads ({num_key_value_heads} for keys and \
values), {max_position_embeddings} positions, tied embeddings,
  {vocab_size} ids: the architecture and the chat template of `tiny`.
- Tokenizer: that of `tiny` with the pieces of the worlds' sentences. Cells of a map are one id each; a cell around the
  player is one id with its direction (` left O`), and so is each number up to 20. Load it with
  `PreTrainedTokenizerFast`.

## How it was made

With the lessons and settings of `scripts/make_worlds_model.py`: {steps} supervised steps of {batch} episodes each, from
the weights of `tiny`, which can copy and knows the chat template. In the episodes every action is
drawn at random among those that are legal and change something: no step against the edge of the lake or a wall, but
into a hole as readily as anywhere; either arm of the bandit; all numbers with random signs, mostly in the order in
which they stand, whatever the target. What the world answers is learnt, too. No
action was chosen because it leads anywhere. In the episodes `notes` the model, asked "Where are you?" on the lake,
repeats a message of the lake, the newest one or as often any of them, or walks on from such a message. Shares of the
episodes: {mixture}. The lake's maps are those of training seeds; no held-out map was seen.

## What it can do

Measured by that script at temperature 1 on {size} held-out seeds each (`frozen_lake` with `view: around` and 12
turns, `sokoban` with 10 turns):

| | |
|---|---|
{table}
"""


def main() -> None:
    options = arguments(__doc__)
    if not options.measure_only:
        tokenizer = build(CHUNKS)
        model = from_tiny(tokenizer, options.seed)
        # It learns what an action leads to, too: a model that can predict this has read where it is.
        imitate(model, batches(tokenizer, Aimless(options.seed), BATCH, answers=True), STEPS)
        save(model, tokenizer, options.out)
    mixture = ", ".join(f"{name} {share:.0%}" for name, share in MIXTURE.items())
    settings = {"mixture": mixture, "steps": STEPS, "batch": BATCH, "size": SIZE}
    fill_card(CARD, options.out, measure(options.out), settings)


@torch.no_grad()
def from_tiny(tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen2ForCausalLM:
    """A model with tiny's weights; pieces in both vocabularies keep their embedding, new pieces get random ones."""
    model, tiny = new_model(tokenizer, seed), Qwen2ForCausalLM.from_pretrained(TINY, dtype=torch.float32)
    known = PreTrainedTokenizerFast.from_pretrained(TINY).get_vocab()
    weights = {name: weight for name, weight in tiny.state_dict().items() if name not in (EMBEDDINGS, "lm_head.weight")}
    model.load_state_dict(weights, strict=False)
    embeddings = model.model.embed_tokens.weight
    for token, index in tokenizer.get_vocab().items():
        if token in known:
            embeddings[index] = tiny.model.embed_tokens.weight[known[token]]
    return model


def measure(folder: Path) -> dict[str, float]:
    """Share of legal turns and share of successes at temperature 1, by world, on held-out seeds; an episode each."""
    out: dict[str, float] = {}
    for name, env in WORLDS.items():
        overrides = [
            *(f"model.name={folder}", "model.dtype=float32", "threads=1", f"env={env}", "tools=[]", "rewards=[]"),
            f"tasks={{train: {{name: seeds}}, eval: {{name: seeds, first: {HELD_OUT}, size: {SIZE}}}}}",
            *("evaluation.greedy=false", "engine.max_new_tokens=32"),
        ]
        found, _ = evaluate(EvaluationPlan(resolve(None, overrides, training=False)))
        turns = [turn for trajectory in found.trajectories for turn in trajectory.turns]
        out[f"legal turns, {name}"] = sum(not turn.errors for turn in turns) / len(turns)
        out[f"success, {name}"] = found.result.metrics["success"].mean
    return out


class Aimless:
    """An endless, seeded stream of episodes."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"aimless/{seed}")

    def __iter__(self) -> Iterator[Demonstration]:
        while True:
            (name,) = self.rng.choices(list(MIXTURE), list(MIXTURE.values()))
            yield getattr(self, name)(self.rng.randrange(FIRST_SEED, 10 * FIRST_SEED))

    def frozen_lake(self, seed: int) -> Demonstration:
        """Steps that stay on the lake."""
        view, most = self.rng.choice(("around", "around", "around", "both", "grid")), self._most()
        options = {"view": view, "actions_per_turn": most, "success_rate": self.rng.choice((0.8, 0.8, 1.0))}
        return self._play("frozen_lake", FrozenLake, options, seed, lambda text: self._on_the_lake(text, most))

    def notes(self, seed: int) -> Demonstration:
        """A note of the position, perhaps an old one; or steps from such a note on."""
        walk = self._play("frozen_lake", FrozenLake, {"view": "around"}, seed, lambda text: self._on_the_lake(text, 1))
        messages = walk.messages
        seen = [message["content"] for message in messages[2::2]]
        if not seen:
            return walk
        last = self.rng.randrange(len(seen))
        if self.rng.random() < 0.5:
            note = seen[last] if self.rng.random() < 0.5 else self.rng.choice(seen[: last + 1])
            asked: list[Message] = [{"role": "user", "content": ASK}, {"role": "assistant", "content": note}]
            return Demonstration([*messages[: 2 * last + 3], *asked])
        return Demonstration(
            [messages[0], {"role": "user", "content": f"{HEADING}\n{seen[last]}"}, *messages[2 * last + 3 :]]
        )

    def sokoban(self, seed: int) -> Demonstration:
        """Steps and pushes that nothing blocks."""
        most = self._most()
        options = {"actions_per_turn": most, "pulls": self.rng.randint(1, 6)}
        return self._play("sokoban", Sokoban, options, seed, lambda text: self._in_the_room(text, most))

    def bandit(self, seed: int) -> Demonstration:
        """Either arm."""
        return self._play("bandit", Bandit, {"pulls": self.rng.randint(1, 3)}, seed, lambda text: self.rng.choice(ARMS))

    def countdown(self, seed: int) -> Demonstration:
        """Every number once, with any signs, more often than not in the given order."""
        tries, numbers = self.rng.choice((1, 1, 3)), self.rng.choice((3, 3, 3, 4))
        held: list[str] = []

        def write(text: str) -> str:
            found = re.search(r"Numbers: ([\d ]+)\.", text)
            held[:] = found[1].split() if found else held
            return self._expression(held)

        return self._play("countdown", Countdown, {"tries": tries, "numbers": numbers}, seed, write)

    def _most(self) -> int:
        return self.rng.choice((1, 1, 1, 1, 2, 3))

    def _play(
        self, name: str, cls: type[ToolEnv], options: Mapping[str, object], seed: int, act: Callable[[str], str]
    ) -> Demonstration:
        env = cls(cls.Config(**options), EnvServices(rng=random.Random(self.rng.random())))
        observation = env.reset(Task(str(seed), "Begin.", seed=seed))
        messages: list[Message] = []
        for _ in range(TURNS[name]):
            assert isinstance(observation, Observation)
            messages += [{"role": message["role"], "content": message["content"]} for message in observation.messages]
            messages.append({"role": "assistant", "content": answer(act(messages[-1]["content"]))})
            step = env.step(Action(messages[-1]["content"]))
            assert isinstance(step, Step)
            assert not step.errors, step.errors
            if step.terminated or step.truncated:
                break
            observation = step.observation
        env.close()
        return Demonstration(messages)

    def _on_the_lake(self, text: str, most: int) -> str:
        found = re.search(r"at (\d) (\d):", text)
        row, column = (int(found[1]), int(found[2])) if found else divmod(_grid(text).replace("\n", "").index("P"), 4)
        names = []
        for _ in range(self.rng.randint(1, most)):
            to = {name: (row + down, column + right) for name, (down, right) in MOVES.items()}
            names.append(self.rng.choice([name for name, cell in to.items() if min(cell) >= 0 and max(cell) < 4]))
            row, column = to[names[-1]]
        return ", ".join(names)

    def _in_the_room(self, text: str, most: int) -> str:
        rows = _grid(text).split("\n")
        row, column = next((r, max(line.find("P"), line.find("S"))) for r, line in enumerate(rows) if {*line} & {*"PS"})
        free = [name for name, step in MOVES.items() if not _blocked(rows, row, column, step)]
        first = [self.rng.choice(free or list(MOVES))]
        return ", ".join([*first, *self.rng.choices(list(MOVES), k=self.rng.randint(1, most) - 1)])

    def _expression(self, numbers: Sequence[str]) -> str:
        rng, parts = self.rng, list(numbers)
        if rng.random() > IN_ORDER:
            rng.shuffle(parts)
        signs = rng.choices("+-*/", (4, 3, 3, 1), k=len(parts) - 1)
        text = parts[0] + "".join(f" {sign} {part}" for sign, part in zip(signs, parts[1:], strict=True))
        if rng.random() < 0.4:
            first, second, rest = parts[0], parts[1], zip(signs[1:], parts[2:], strict=True)
            text = f"({first} {signs[0]} {second})" + "".join(f" {sign} {part}" for sign, part in rest)
        return text


def _grid(text: str) -> str:
    """The lines of a message that draw a map."""
    return "\n".join(line for line in text.split("\n") if line and not set(line) - set("P_OGXS#√"))


def _blocked(rows: list[str], row: int, column: int, step: tuple[int, int]) -> bool:
    near, far = rows[row + step[0]][column + step[1]], None
    if near in "X√":
        far = rows[row + 2 * step[0]][column + 2 * step[1]]
    return near == "#" or far in ("#", "X", "√")


if __name__ == "__main__":
    main()
