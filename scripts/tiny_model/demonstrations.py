"""What the tiny model is taught from: conversations in training worlds by a demonstrator who is often wrong.

The demonstrator says the fact that it acts on before it acts, which makes reading a matter of finding a word again. It
reads and copies faultlessly and errs in decisions: answering with the name that should be looked up next, looking up
another name, leaving a call unfinished. How often depends on the form of the question, so that a model that imitates
this answers some forms by its most likely action and others only now and then: what reinforcement learning can repair.
"""

from __future__ import annotations

import json
import random
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from agent_r1_miniwiki.grammar import chains
from agent_r1_miniwiki.world import Kind, Question, World

Message = dict[str, str]
NOTHING = "No passage found."
UNKNOWN = "unknown"
BAD_CALL = 'Error: a tool call is not valid JSON; write {"name": ..., "arguments": {...}}.'
CALL = re.compile(r"<tool_call>\n(.*)\n</tool_call>")
SEARCH_TAGS_PROMPT = "Search with <search>name</search>."

WORLD_SIZE, PER_WORLD = 36, 4
"""Entities of a world, and the demonstrations that it serves."""
MIXTURE: dict[str, float] = {
    **{"search_2": 0.40, "search_1": 0.11, "search_3": 0.08, "comparison": 0.05, "nothing_found": 0.03},
    **{"search_tags": 0.03, "passages": 0.12, "reading": 0.08, "closed_book": 0.02, "sum": 0.08},
}
"""Share of each kind of demonstration."""
AGAIN: dict[str, float] = {"names_again": 0.4, "facts_again": 0.6}
"""What is taught first: to find what was said before. Without it copying takes many times as long to emerge."""


@dataclass(frozen=True)
class Demonstration:
    """A conversation; every assistant message is imitated."""

    messages: list[Message]
    tools: tuple[str, ...] = ()


@dataclass(frozen=True)
class Skill:
    """How likely the demonstrator's decisions are after a passage that is not the last; the rest is a wrong hop."""

    follow: float
    early_answer: float


SKILLED, HASTY = Skill(0.62, 0.28), Skill(0.28, 0.57)
SKILLED_SHARE = 0.25
"""Share of the forms of multi-hop question that the demonstrator handles mostly well."""


def skill_of(chain: tuple[str, ...]) -> Skill:
    """The demonstrator's skill for a form of question."""
    ranked = sorted(chains(len(chain)), key=lambda form: zlib.crc32(".".join(form).encode()))
    return SKILLED if ranked.index(chain) < SKILLED_SHARE * len(ranked) else HASTY


def call(name: str, **arguments: str) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def think(*sentences: str) -> str:
    """What was read, said again before acting on it."""
    return f"<think>{' '.join(sentences).rstrip('.')}</think>"


def answer(text: str) -> str:
    return f"<answer>{text}</answer>"


def said(user: str, assistant: str) -> Demonstration:
    return Demonstration([{"role": "user", "content": user}, {"role": "assistant", "content": assistant}])


class Demonstrator:
    """An endless, seeded stream of demonstrations.

    A world serves only a few of them: where names come back, a model learns the names instead of copying.
    """

    def __init__(self, seed: int, mixture: Mapping[str, float] = MIXTURE) -> None:
        self.rng, self.mixture = random.Random(f"demonstrations/{seed}"), dict(mixture)
        self.makers: dict[str, Callable[[], Demonstration]] = {
            "search_1": lambda: self.search(self.pick(1)),
            "search_2": lambda: self.search(self.pick(2)),
            "search_3": lambda: self.search(self.pick(3)),
            "comparison": lambda: self.search(self.pick(2, "comparison")),
            "nothing_found": self.nothing_found,
            "search_tags": lambda: in_search_tags(self.search(self.pick(self.rng.choice((1, 2))), malformed=0.0)),
            "passages": self.passages,
            "reading": self.reading,
            "closed_book": self.closed_book,
            "sum": self.sum,
            "names_again": self.names_again,
            "facts_again": self.facts_again,
        }

    def __iter__(self) -> Iterator[Demonstration]:
        world = 1_000_000  # far from the seeds of the task source
        while True:
            self.world = World(world, "train", WORLD_SIZE)
            self.text = {passage.title: f"{passage.title}\n{passage.text}" for passage in self.world.passages}
            names = self.rng.choices(list(self.mixture), list(self.mixture.values()), k=PER_WORLD)
            yield from (self.makers[name]() for name in names)
            world += 1

    def pick(self, hops: int, *kinds: Kind) -> Question:
        """A question of the current world, every form equally likely."""
        forms: dict[tuple[str, ...], list[Question]] = {}
        for question in self.world.questions(hops, kinds or ("compositional", "bridge")):
            forms.setdefault(question.chain, []).append(question)
        return self.rng.choice(forms[self.rng.choice(sorted(forms))])

    def others_in(self, title: str, but: tuple[str, ...]) -> list[str]:
        """Relations by which the page of `title` mentions the name of another page."""
        facts = self.world.entities[title].facts
        return [relation for relation, name in facts.items() if name in self.world.entities and name not in but]

    def fact(self, title: str, relation: str) -> str:
        """The sentence of the page of `title` that states the fact."""
        return self.world.entities[title].sentence(relation)

    def search(self, question: Question, malformed: float = 0.03) -> Demonstration:
        """Look passages up one by one, then answer; with the faults of the demonstrator."""
        rng, messages, thought = self.rng, [{"role": "user", "content": question.text}], ""

        def look_up(name: str) -> None:
            if rng.random() < malformed:
                broken = call("wiki_search", query=name).replace('"}}', rng.choice(('"', '"}')))
                messages.append({"role": "assistant", "content": thought + broken})
                messages.append({"role": "tool", "content": BAD_CALL})
            messages.append({"role": "assistant", "content": thought + call("wiki_search", query=name)})
            messages.append({"role": "tool", "content": self.text[name]})

        def finish(text: str) -> Demonstration:
            messages.append({"role": "assistant", "content": thought + answer(text)})
            return Demonstration(messages, ("wiki_search",))

        if question.kind == "comparison":
            for title in question.path:
                look_up(title)
                thought = think(self.fact(title, *question.chain))
            wrong = next(title for title in question.path if title != question.answer)
            return finish(question.answer if rng.random() < 0.85 else wrong)
        skill = skill_of(question.chain)
        for title, relation in zip(question.path[:-1], question.chain[:-1], strict=True):
            look_up(title)
            thought = think(self.fact(title, relation))
            following, chance = self.world.entities[title].facts[relation], rng.random()
            if chance < skill.follow:
                continue
            others = self.others_in(title, (title, following, question.answer))
            if not others or chance < skill.follow + skill.early_answer:
                return finish(following)
            relation = rng.choice(others)
            thought, astray = think(self.fact(title, relation)), self.world.entities[title].facts[relation]
            look_up(astray)
            found = self.world.entities[astray].facts.get(question.chain[-1])
            thought = think(self.fact(astray, question.chain[-1])) if found else ""
            return finish(found or UNKNOWN)
        look_up(question.path[-1])
        thought = think(self.fact(question.path[-1], question.chain[-1]))
        return finish(question.answer)

    def nothing_found(self) -> Demonstration:
        """A search that finds nothing: once more, then give up."""
        question = self.pick(self.rng.choice((1, 2)))
        asked = {"role": "assistant", "content": call("wiki_search", query=question.path[0])}
        attempt = [asked, {"role": "tool", "content": NOTHING}]
        messages = [{"role": "user", "content": question.text}, *attempt * self.rng.choice((1, 2))]
        return Demonstration([*messages, {"role": "assistant", "content": answer(UNKNOWN)}], ("wiki_search",))

    def passages(self) -> Demonstration:
        """Passages in the prompt, among them the needed ones, then the question; no tool."""
        rng, question = self.rng, self.pick(self.rng.choice((1, 1, 2)))
        others = rng.sample(sorted(self.text.keys() - set(question.path)), rng.randint(0, 3))
        shown = rng.sample([*question.path, *others], len(question.path) + len(others))
        content = "\n\n".join([*(self.text[title] for title in shown), question.text])
        return said(content, self.solved(question))

    def solved(self, question: Question) -> str:
        """The facts of the question's path, then its answer."""
        facts = map(self.fact, question.path, question.chain)
        return think(*facts) + answer(question.answer)

    def reading(self) -> Demonstration:
        """Two or three passages in the prompt, and several questions about them, one after the other."""
        titles = self.rng.sample(sorted(self.text), self.rng.choice((2, 3)))
        asked = [question for question in self.world.questions(1) if question.path[0] in titles]
        asked = self.rng.sample(asked, min(5, len(asked)))
        shown = "\n\n".join(self.text[title] for title in titles)
        messages: list[Message] = []
        for question in asked:
            messages.append({"role": "user", "content": question.text if messages else f"{shown}\n\n{question.text}"})
            messages.append({"role": "assistant", "content": self.solved(question)})
        return Demonstration(messages)

    def closed_book(self) -> Demonstration:
        """The question alone: invented names cannot be known."""
        question = self.pick(self.rng.choice((1, 2, 3)))
        return said(question.text, answer(UNKNOWN))

    def sum(self) -> Demonstration:
        """A sum, worked out by the calculator."""
        rng = self.rng
        terms = [str(rng.randint(0, 10 ** rng.randint(1, 3) - 1)) for _ in range(rng.choice((2, 2, 2, 3)))]
        signs = [rng.choice("+-*") for _ in terms[1:]]
        apart = rng.random() < 0.8
        asked = terms[0] + "".join(f" {s} {t}" if apart else s + t for s, t in zip(signs, terms[1:], strict=True))
        expression = asked.replace(" ", "")
        value = str(eval(expression))
        messages = [{"role": "user", "content": f"What is {asked}?"}]
        if rng.random() < 0.7:
            messages.append({"role": "assistant", "content": call("calculator", expression=expression)})
            messages.append({"role": "tool", "content": value})
        else:
            value = str(rng.randint(0, int(abs(int(value)) * 1.2) + 10))  # in the head, and mostly wrong
        return Demonstration([*messages, {"role": "assistant", "content": answer(value)}], ("calculator",))

    def names_again(self) -> Demonstration:
        """Names, and the same names in another order."""
        return self.again(self.rng.sample(sorted(self.text), 10))

    def facts_again(self) -> Demonstration:
        """The facts of two entities of different types, and the same facts in another order."""
        types = self.rng.sample(["film", "person", "company", "city"], 2)
        every = self.world.entities.values()
        entities = [self.rng.choice([entity for entity in every if entity.type == type_]) for type_ in types]
        return self.again([fact.rstrip(".") for entity in entities for fact in entity.sentences()[1:]])

    def again(self, sentences: list[str]) -> Demonstration:
        """Told once, and again in another order."""
        first, second = (". ".join(self.rng.sample(sentences, len(sentences))) for _ in range(2))
        return said(first, second)


def in_search_tags(demonstration: Demonstration) -> Demonstration:
    """The same search in the format of `<search>` and `<information>` tags."""
    messages = [{"role": "system", "content": SEARCH_TAGS_PROMPT}]
    for message in demonstration.messages:
        role, content = message["role"], message["content"]
        if role == "tool":
            messages.append({"role": "user", "content": f"<information>{content}</information>"})
        else:
            said = CALL.sub(lambda call: f"<search>{json.loads(call[1])['arguments']['query']}</search>", content)
            messages.append({"role": role, "content": said})
    return Demonstration(messages)
