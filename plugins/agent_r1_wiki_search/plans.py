"""What to build, as a user says it, and the parts of an index that this means."""

from __future__ import annotations

from dataclasses import dataclass, fields

from agent_r1_core import ConfigError
from agent_r1_wiki_search.building import Part
from agent_r1_wiki_search.dense_part import DensePart
from agent_r1_wiki_search.encoder import Encoder
from agent_r1_wiki_search.folder import PARTS
from agent_r1_wiki_search.tantivy_part import TantivyPart
from agent_r1_wiki_search.vectors import Kind, Structure


@dataclass(frozen=True)
class Plan:
    """Options of a build; None: not given."""

    backend: str
    stemmer: bool | None = None
    model: str | None = None
    query_prefix: str | None = None
    passage_prefix: str | None = None
    vectors: Kind | None = None
    lists: int | None = None
    code_bytes: int | None = None
    links: int | None = None
    device: str | None = None
    batch_size: int | None = None

    def idle(self) -> dict[str, str]:
        """Options that have no effect: name -> why."""
        without = dict.fromkeys(("lists", "code_bytes"), "ivf_pq") | {"links": "hnsw"}
        idle = {name: f"vectors is not {kind}" for name, kind in without.items() if self.vectors != kind}
        if self.backend == "tantivy":
            return {field.name: "backend is tantivy" for field in fields(self) if field.name not in _ALWAYS}
        return idle | ({"stemmer": "backend is dense"} if self.backend == "dense" else {})


_ALWAYS = ("backend", "stemmer")


def parts_of(plan: Plan) -> list[Part]:
    """The parts to build.

    Raises:
        ConfigError: an option has no effect, the encoder is not named, or a package is missing.
        ModelError: the encoder cannot be loaded.
    """
    for name, why in plan.idle().items():
        if getattr(plan, name) is not None:
            raise ConfigError(f"{name} has no effect, since {why}; leave it out")
    return [TantivyPart(bool(plan.stemmer)) if name == "tantivy" else _dense(plan) for name in PARTS[plan.backend]]


def _dense(plan: Plan) -> Part:
    if plan.model is None:
        raise ConfigError(f"backend {plan.backend} needs an encoder; give model, a folder or a hub name")
    structure = Structure(plan.vectors or Kind.NUMPY, plan.lists, plan.code_bytes, plan.links or 32)
    prefixes = plan.query_prefix, plan.passage_prefix
    return DensePart(Encoder(plan.model, *prefixes, plan.device, plan.batch_size or 32), structure)
