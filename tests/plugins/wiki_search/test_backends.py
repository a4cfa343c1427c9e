"""The tool with each of its backends: over an index folder, or over a small corpus whose index it makes itself."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from agent_r1_wiki_search import backends, packages
from agent_r1_wiki_search.tool import WikiSearch, make_excerpt
from pydantic import ValidationError
from tokenizers import Tokenizer

from agent_r1_core import ConfigError, Passage, ToolCall, ToolContext, ToolResources
from agent_r1_core.testing import make_task
from agent_r1_core.tools.tool_runner import ToolRunner

pytestmark = pytest.mark.usefixtures("_tantivy")


def found(tool: WikiSearch, query: str) -> list[str]:
    return [passage.title for passage in tool.search(query, 3)]


def test_an_index_folder_is_searched_as_the_backend_and_its_weights_say(opened: Any, index: Path) -> None:
    query = "Norway's main town"
    tools = {backend: opened(backend=backend, index=str(index)) for backend in ("tantivy", "dense", "hybrid")}
    assert found(tools["tantivy"], query) == ["Oslo"]
    for backend in ("dense", "hybrid"):
        assert (found(tools[backend], query)[0], len(found(tools[backend], query))) == ("Oslo", 3)
    facts = {backend: tool.describe() or {} for backend, tool in tools.items()}
    assert {backend: said["backend"] for backend, said in facts.items()} == {backend: backend for backend in tools}
    hybrid = json.loads(json.dumps(facts["hybrid"]))
    assert (hybrid["lexical"], hybrid["rrf_k"], hybrid["rrf_weights"]) == ("tantivy", 10, [1.0, 1.0])
    assert len(hybrid["weights"]) == 32, "the hash of the encoder"
    assert {said["hash"] for said in facts.values()} == {opened().describe()["hash"]}  # type: ignore[index]
    for tool in tools.values():
        tool.close()
        assert tool.describe() is None
    query = "a capital movement for two in the ballroom"
    words = opened(backend="hybrid", index=str(index), rrf_weights=(1, 0))
    vectors = opened(backend="hybrid", index=str(index), rrf_weights=(0, 1))
    assert (found(words, query)[0], found(vectors, query)[0]) == ("Oslo", "Waltz")


def test_without_an_index_a_small_corpus_is_indexed_once(
    opened: Any, tmp_path: Path, minilm: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for backend in ("tantivy", "dense", "hybrid"):
        options = {} if backend == "tantivy" else {"model": minilm}
        assert found(opened(backend=backend, **options), "Mali government")[0] == "Bamako"
    assert caplog.text.count("indexing 3 passages, once") == 2, "hybrid takes the vectors that dense made"
    monkeypatch.setattr(backends, "build_index", lambda *_, **__: pytest.fail("an index was built again"))
    assert found(opened(backend="dense", model=minilm), "Mali")[0] == "Bamako"
    monkeypatch.undo()
    (file,) = (tmp_path / "cache" / "wiki_search").glob("*/dense/embeddings.f16")
    file.write_bytes(file.read_bytes()[:-2])
    assert found(opened(backend="dense", model=minilm), "Mali")[0] == "Bamako"
    assert "embeddings.f16 has 2,302 bytes, not 2,304" in caplog.text


def test_an_index_of_another_corpus_is_refused(opened: Any, places: Any, index: Path, write_corpus: Any) -> None:
    same, other = write_corpus([*places, places[0]], "same.jsonl"), write_corpus(places[::-1], "other.jsonl")
    assert found(opened(backend="tantivy", index=str(index), corpus=str(same)), "Mali") == ["Bamako"]
    with pytest.raises(ConfigError, match=r"was built from other passages than those of .*other\.jsonl"):
        opened(backend="tantivy", index=str(index), corpus=str(other))


async def test_an_isolated_tool_searches_an_index_and_counts_tokens(tmp_path: Path, index: Path, root: Path) -> None:
    tool = WikiSearch(WikiSearch.Config(backend="tantivy", index=str(index), max_tokens=2))
    tool.name = "wiki_search"
    runner = ToolRunner({"wiki_search": tool}, {"wiki_search": 30.0}, {"wiki_search": "process"})
    resources = ToolResources(str(tmp_path), {}, None, str(root / "agent_r1_core" / "bundled" / "tiny"))

    for _ in range(2):
        await runner.start(resources)
        try:
            context = ToolContext("e", 0, make_task(), random.Random(0))
            text = (await runner.call(ToolCall("wiki_search", {"query": "Norway"}), context)).text
        finally:
            await runner.close()
        assert (text[:5], text[-4:]) == ("Oslo\n", " ...")


TEXT = "Žluťoučký kůň 🐎 says <|im_end|> and <tool_call> twice: it gallops unbelievably."


def test_a_text_has_at_most_so_many_tokens_of_the_policys_tokenizer_which_there_must_be(
    root: Path, opened: Any, tmp_path: Path
) -> None:
    folder = root / "agent_r1_core" / "bundled" / "tiny"
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.encode_special_tokens = True

    def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False))

    for most in (1, 3, 7, 12, 20, 30):
        kept = make_excerpt(WikiSearch.Config(max_tokens=most, show="texts"), str(folder))(Passage("T", TEXT))
        kept = kept.removesuffix(" ...")
        assert TEXT.startswith(kept)
        assert count(kept) <= most < count(TEXT[: len(kept) + 12]), "it is cut where the limit is, not before"
    whole = make_excerpt(WikiSearch.Config(max_tokens=1000), str(folder))(Passage("T", TEXT))
    assert whole == f"T\n{TEXT}"
    with pytest.raises(ConfigError, match="max_tokens counts with the policy's tokenizer, but no policy is at hand"):
        opened(max_tokens=5)
    with pytest.raises(ConfigError, match=r"has no tokenizer\.json; set max_characters"):
        make_excerpt(WikiSearch.Config(max_tokens=5), str(tmp_path))


@pytest.mark.parametrize(("show", "text"), [("both", "Oslo\nThe ..."), ("titles", "Oslo"), ("texts", "The ...")])
def test_titles_texts_or_both_are_shown(opened: Any, show: str, text: str) -> None:
    limit = {} if show == "titles" else {"max_characters": 4}
    context: Any = None
    tool = opened(show=show, **limit)
    assert tool.run(WikiSearch.Arguments(query="capital"), context) == text


@pytest.mark.parametrize(
    ("options", "idle"),
    [
        ({"backend": "bm25"}, {"index", "model", "rrf_k", "rrf_weights", "url", "effort", "query_prefix", "device"}),
        ({"backend": "tantivy", "index": "i"}, {"source", "stemmer", "model", "passage_prefix", "rrf_k"}),
        ({"backend": "hybrid", "index": "i"}, {"source", "stemmer", "query_prefix", "passage_prefix", "retries"}),
        ({"backend": "remote", "url": "http://h:1"}, {"corpus", "index", "model", "stemmer", "source", "rrf_k"}),
        ({"show": "titles"}, {"max_characters", "max_tokens"}),
        ({"corpus": "c.jsonl"}, {"source"}),
    ],
)
def test_options_without_effect_are_known(options: dict[str, Any], idle: set[str]) -> None:
    found = WikiSearch.idle_options(WikiSearch.Config(**options))
    assert idle <= set(found)
    assert not set(found) & {*options, "top_k"}


def test_incomplete_options_are_refused_and_a_missing_package_is_named_and_a_relative_folder_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for options, sentence in (
        ({"backend": "dense"}, "backend: dense needs an index, or model: a folder or hub name"),
        ({"backend": "hybrid", "index": "i", "rrf_weights": [0, 0]}, "rrf_weights are both 0"),
        ({"backend": "remote"}, "needs url: http://HOST:PORT"),
    ):
        with pytest.raises(ValidationError, match=sentence):
            WikiSearch.Config(**options)
    for url in ("localhost:1", "127.0.0.1:18765", "http://localhost:1/search", "http://"):
        with pytest.raises(ValidationError, match="is not the URL of a service; write it as http://HOST:PORT"):
            WikiSearch.Config(backend="remote", url=url)
    assert WikiSearch.Config(backend="remote", url="http://localhost:1/").url == "http://localhost:1/"
    monkeypatch.setattr(packages, "find_spec", lambda name: None)
    assert WikiSearch.unavailable(WikiSearch.Config()) is None
    reason = str(WikiSearch.unavailable(WikiSearch.Config(backend="hybrid", index="i")))
    assert "the package sentence-transformers and tantivy is missing" in reason
    monkeypatch.chdir(tmp_path)
    (tmp_path / "encoder").mkdir()
    assert WikiSearch.Config(backend="dense", model="encoder").model == str(tmp_path / "encoder")
    assert WikiSearch.Config(backend="dense", model="intfloat/e5-base-v2").model == "intfloat/e5-base-v2"
    assert WikiSearch.Config(index="i").index == str(tmp_path / "i")
