"""The operations of an HTTP API as tools; the API is a real server."""

from __future__ import annotations

import asyncio
import json
import os
import runpy
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import httpx2
import pytest
from agent_r1_openapi.client import Client, _answer
from agent_r1_openapi.description import operations_of
from agent_r1_openapi.toolset import OpenApiToolset
from served import served

from agent_r1_core import train
from agent_r1_core.contracts.secrets import Secrets
from agent_r1_core.errors import AgentR1Error
from agent_r1_core.testing import ToolContract
from agent_r1_core.training.api import resolve

from .. import conftest
from .api import DESCRIPTION, KEY, app


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[str]:
    with served(app()) as address:
        yield address.replace("127.0.0.1", "localhost")


@pytest.fixture(scope="module")
def api(elsewhere: str) -> Iterator[tuple[str, Any]]:
    """The address, and the counts of requests."""
    application = app(elsewhere)
    with served(application) as address:
        yield address, application.state.seen


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", KEY)


opened = partial(conftest.opened, OpenApiToolset)


class TestOpenApi(ToolContract):
    component = OpenApiToolset
    member = "get_note"
    arguments: ClassVar = {"id": 3}

    @pytest.fixture(autouse=True)
    def _at(self, api: tuple[str, Any]) -> None:
        self.config = {"url": f"{api[0]}/openapi.json"}  # type: ignore[misc]


async def test_an_operation_is_a_tool_with_the_arguments_of_its_request(api: tuple[str, Any]) -> None:
    async with opened(url=f"{api[0]}/openapi.json") as call:
        schema = call.runner.tools["put_note"].schema()["function"]["parameters"]
        assert schema["required"] == ["id", "body"]
        assert schema["properties"]["body"] == {"$ref": "#/$defs/Note"}
        assert schema["$defs"]["Note"]["properties"]["next"] == {"$ref": "#/$defs/Note"}
        assert "Unused" not in json.dumps(schema)
        given = {"id": 7, "tag": ["a", "b/c"], "query_id": "x", "X-Mood": "glad"}
        assert json.loads((await call("get_note", **given)).text) == {
            "id": "7", "tags": ["a", "b/c"], "query": "x", "mood": "glad"
        }  # fmt: skip
        for outside in ("../key", ".."):
            assert (await call("get_note", id=outside)).error
        assert json.loads((await call("get_note", id="a?b#c d")).text)["id"] == "a?b#c d"
        assert (await call("put_note", id=1, body={"text": "hi"})).text == '{"kept":{"text":"hi"}}'
        assert "id: field required" in (await call("get_note")).text


@pytest.mark.parametrize(
    ("declared", "value", "sent"),
    [
        ({"in": "query"}, [1, "b c"], "?v=1&v=b+c"),
        ({"in": "query", "explode": False}, [1, 2], "?v=1%2C2"),
        ({"in": "query", "style": "pipeDelimited"}, ["a", "b"], "?v=a%7Cb"),
        ({"in": "query", "style": "deepObject"}, {"a": "q", "b": [1]}, "?v%5Ba%5D=q&v%5Bb%5D=%5B1%5D"),
        ({"in": "query"}, {"k": "v", "l": 2}, "?k=v&l=2"),
        ({"in": "query", "explode": False}, {"k": "v", "l": 2}, "?v=k%2Cv%2Cl%2C2"),
        ({"in": "query", "content": {"application/json": {}}}, {"k": [1]}, "?v=%7B%22k%22%3A+%5B1%5D%7D"),
        ({"in": "path"}, [1, "a/b"], "/1,a%2Fb"),
        ({"in": "path", "explode": True}, {"k": "v", "l": True}, "/k%3Dv,l%3Dtrue"),
    ],
)
def test_a_parameter_is_written_in_its_style(declared: dict[str, Any], value: Any, sent: str) -> None:
    path = "/{v}" if declared["in"] == "path" else ""
    described = {"paths": {path: {"get": {"parameters": [{"name": "v", **declared}]}}}}
    (operation,) = operations_of(described)
    client = Client(OpenApiToolset.Config(url="http://api/openapi.json"), Secrets(()))
    client.server = httpx2.URL("http://api")
    url, _, _ = client._request(operation, {"v": value})
    assert str(url).replace("%20", "+") == f"http://api{sent}"


NEEDS = {
    "the cookie sid": {"parameters": [{"in": "cookie", "name": "sid", "required": True}]},
    "the path parameter id in the style label": {"parameters": [{"in": "path", "name": "id", "style": "label"}]},
    "a body of text/plain": {"requestBody": {"required": True, "content": {"text/plain": {}}}},
    "": {"requestBody": {"content": {"text/plain": {}}}},
}


@pytest.mark.parametrize("needs", NEEDS)
def test_an_operation_that_needs_what_is_not_sent_is_left_out(needs: str, caplog: pytest.LogCaptureFixture) -> None:
    offered = list(operations_of({"paths": {"/it/{id}": {"post": NEEDS[needs]}}}))
    assert [record.message for record in caplog.records] == (
        [f"openapi leaves out POST /it/{{id}}, which needs {needs}"] if needs else []
    )
    assert len(offered) == (not needs)


def test_an_answer_is_read_in_its_charset() -> None:
    said = {"content-type": "text/plain; Charset=ISO-8859-1"}
    assert _answer(200, said, b"caf\xe9") == "café"
    assert _answer(200, {"content-type": "text/plain; charset=none-such"}, "é".encode()) == "é"


async def test_requests_are_repeated_where_that_does_no_harm(api: tuple[str, Any]) -> None:
    async with opened(url=f"{api[0]}/openapi.json", retries=2) as call:
        api[1].clear()
        assert (await call("flaky")).text == "done"
        for name, times in (("busy", 3), ("unsafe", 1)):
            refused = await call(name)
            assert (refused.error, refused.metrics["away"], api[1][name]) == (True, 1.0, times)


async def test_secrets_and_redirections_stay_where_the_recipe_sends_them(api: tuple[str, Any], elsewhere: str) -> None:
    at = {"url": f"{api[0]}/openapi.json", "headers": {"Authorization": "Bearer ${API_KEY}"}}
    async with opened(**at) as call:
        assert (await call("key")).text == "Bearer ${API_KEY}"
        assert (await call("near")).text == "Bearer ${API_KEY}"
        assert (await call("away")).text == 'Error: status 500: {"error":"broken for ${API_KEY}"}'
        assert (await call("far")).text == "Error: the service redirects to http://localhost, which is not followed"
    async with opened(**at, redirects=["localhost"]) as call:
        assert (await call("far")).text == "no key"
    options = OpenApiToolset.Config.model_validate(at)
    assert KEY not in options.model_dump_json()
    assert OpenApiToolset.programs(options) == {"headers": f"headers API_KEY to {at['url']}"}


async def test_answers_are_bounded_in_time_and_size_and_leave_nothing(api: tuple[str, Any]) -> None:
    async with opened(url=f"{api[0]}/openapi.json", timeout=10.0) as call:
        assert (await call("long")).text.startswith("Error: the answer is longer than 1,048,576 bytes")
    async with opened(url=f"{api[0]}/openapi.json", timeout=0.3) as call:
        assert (await call("slow")).text == "Error: slow did not answer within 0.3 seconds."
    before = len(os.listdir("/proc/self/fd"))
    async with opened(url=f"{api[0]}/openapi.json") as call:
        for _ in range(16):
            answers = await asyncio.gather(*(call("get_note", id=number) for number in range(64)))
            assert [int(json.loads(one.text)["id"]) for one in answers] == list(range(64))
    assert len(os.listdir("/proc/self/fd")) < before + 200, "after 1,024 calls"


@pytest.mark.parametrize(
    ("options", "change", "text"),
    [
        ({"server": None}, {}, "does not say on which host it is; name the server"),
        ({"operations": ["gett"]}, {}, "offers no 'gett'; it offers: get.note, put_note"),
        ({}, {"paths": {}}, "offers no tools; give one that does"),
        ({}, {"openapi": "2.0"}, "no description in OpenAPI 3"),
        ({"headers": {"X-A": "${NOT_SET_ANYWHERE}"}}, {}, "environment variable NOT_SET_ANYWHERE"),
    ],
)
async def test_an_api_that_cannot_be_used_is_a_sentence(tmp_path, options, change, text):
    (tmp_path / "api.json").write_text(json.dumps(DESCRIPTION | change))
    with pytest.raises(AgentR1Error, match=text):
        async with opened(**{"path": str(tmp_path / "api.json"), "server": "http://127.0.0.1:1"} | options):
            pass


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("{name: openapi}", "either the url"),
        ("{name: openapi, path: recipe.yaml}", "name the server"),
        ("{name: openapi, url: 'http://x', headers: {X-Token: abc}}", "shows its secret"),
        ("{name: openapi, url: 'http://x', headers: {X-Token: '${HOME}'}}", "headers HOME to http://x"),
    ],
)
def test_a_recipe_that_cannot_mean_what_it_says_is_refused(tmp_path: Path, options: str, text: str) -> None:
    (tmp_path / "recipe.yaml").write_text(f"extends: calculator\ntools: [{options}]\n")
    with pytest.raises(AgentR1Error, match=text):
        resolve(str(tmp_path / "recipe.yaml"), (), training=False).check_available()


@pytest.mark.slow
def test_the_recipe_trains_the_bundled_model_with_its_api(root: Path, tmp_path: Path) -> None:
    application = runpy.run_path(str(root / "recipes/openapi/calculator_api.py"))["app"]
    with served(application) as address:
        at = f"tools.0.url={address}/openapi.json"
        run = train("openapi", [at, "training.steps=2", "evaluation.size=8", f"run.dir={tmp_path}"])
    rows = [row for row in run.metrics() if "reward/exact_match" in row]
    assert len(rows) == 2
    assert [(row["reward/exact_match"] > 0.3, row["tools/calculator/away"]) for row in rows] == [(True, 0.0)] * 2
