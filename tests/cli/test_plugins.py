"""`agent-r1 plugins list`, `show` and `doctor`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import pytest
from pydantic import Field, create_model

from agent_r1_cli.plugins_show import type_in_words
from agent_r1_core.contracts.component import LocalPath

LOCAL = '''
from agent_r1_core import ComponentConfig, Preset, RewardFn, RewardSpec, ToolSpec, hookimpl, tool

AGENT_R1_PLUGIN_API = 1

@tool
def shout(text: str, times: int = 1) -> str:
    """Say it loudly.

    Args:
        text: what to say
    """
    return text.upper() * times

class Length(RewardFn):
    """Rewards long answers."""

    range = (-1.0, 1.0)

    class Config(ComponentConfig):
        target: int = 10
        """Letters to
        aim at."""
        unit: str | None = None

    def score(self, trajectory):
        return 1.0

register_tools = hookimpl(lambda: [ToolSpec("shout", ":shout", "Loud", aliases=("yell",))])
@hookimpl
def register_rewards():
    return [RewardSpec("length", ":Length", "Likes it long", presets=(Preset("short", {"target": 3}, "Brief"),))]
'''


@pytest.fixture
def local(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(LOCAL)
    return path


@pytest.fixture
def broken(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(root / "tests" / "fixtures" / "broken_plugins"))


def test_list_shows_names_aliases_and_presets_or_those_of_one_kind(agent_r1, local):
    result = agent_r1("plugins", "list", "-p", local)
    rows = [line.split(maxsplit=3) for line in result.stdout.splitlines()]
    assert (result.exit_code, rows[0]) == (0, ["KIND", "NAME", "PLUGIN", "SUMMARY"])
    assert ["tool", "yell", "mine", "alias of shout"] in rows
    assert ["reward", "short", "mine", "length preset: Brief"] in rows
    wrong = agent_r1("plugins", "list", "--kind", "tols")
    assert wrong.exit_code == 2
    assert "did you mean 'tool'?" in " ".join(wrong.stderr.split())
    result = agent_r1("plugins", "list", "--kind", "tool", "--json", "-p", local)
    answer = json.loads(result.stdout)
    assert answer["schema"] == 1
    assert {component["kind"] for component in answer["components"]} == {"tool"}
    assert "mine/shout" in [component["qualified"] for component in answer["components"]]
    assert {"mine", "calculator"} <= {plugin["name"] for plugin in answer["plugins"]}


def test_list_survives_the_broken_plugins_and_doctor_names_each_and_says_why(succeed, broken, agent_r1):
    done = succeed("plugins", "list", "--disable-plugin", "switched_off")
    assert "Says what it was told" in done.stdout
    assert "not loaded: wrong_api (broken-plugins 1.0) is incompatible: it was written for plugin API 99" in done.stderr
    table = agent_r1("plugins", "doctor", "-P", "switched_off").stdout
    rows = {line.split()[0]: " ".join(line.split()) for line in table.splitlines()}
    assert rows["bad_target"].startswith("bad_target broken-plugins 1.0 wrong tool 'nowhere': ")
    assert rows["sound"] == "sound broken-plugins 1.0 ok 1 name checked"
    assert rows["switched_off"].endswith("disabled it was disabled by the user")
    done = agent_r1("plugins", "doctor", "--json", "-P", "switched_off")
    assert done.exit_code == 1
    answer = json.loads(done.stdout)
    found = {(plugin["name"], plugin["distribution"]): plugin for plugin in answer["plugins"]}
    assert not answer["ok"]
    for name, why in {"import_error": "that_nobody_installed", "bad_target": "has no 'Missing'"}.items():
        [problem] = found[name, "broken-plugins"]["problems"]
        assert why in problem
    [problem] = found["twin", "second-twin"]["problems"]
    assert "first-twin 1.0" in problem
    assert found["switched_off", "broken-plugins"]["status"] == "disabled"
    assert found["sound", "broken-plugins"]["problems"] == []


def test_show_a_tool_and_what_it_pays(agent_r1, local, refuse):
    refuse(3, "error: no component is called 'shuot'; did you mean 'shout'?", "plugins", "show", "shuot", "-p", local)
    text = agent_r1("plugins", "show", "yell", "-p", local).stdout
    line = LOCAL.splitlines().index("@tool") + 1
    assert f"plugin:    mine ({local})" in text
    assert f"source:    {local}:{line}" in text
    assert "alias of:  shout" in text
    assert "It has no options of its own." in text
    assert "  timeout        number, above 0; default 10.0" in text.splitlines()
    schema = json.loads(text.partition("as the model is told:")[2])
    assert schema["function"]["parameters"]["properties"]["text"]["description"] == "what to say"

    paying = LOCAL.replace("@tool\n", "@tool(reward_range=(-0.5, 1.0))\n").replace("text: str,", "text: str, context,")
    local.write_text(paying)
    assert "rewards:   each call, from -0.5 to 1" in agent_r1("plugins", "show", "yell", "-p", local).stdout
    assert json.loads(agent_r1("plugins", "show", "yell", "--json", "-p", local).stdout)["reward_range"] == [-0.5, 1.0]


def test_a_page_shows_options_says_what_a_reward_scores_and_fits_the_terminal(agent_r1, local, monkeypatch):
    answer = json.loads(agent_r1("plugins", "show", "mine/short", "--json", "-p", local).stdout)
    assert (answer["preset_of"], answer["range"]) == ("length", [-1.0, 1.0])
    assert answer["options"] == [
        {"name": "target", "type": "whole number", "required": False, "default": 3, "doc": "Letters to aim at."},
        {"name": "unit", "type": "text or null", "required": False, "default": None, "doc": ""},
    ]
    monkeypatch.setenv("COLUMNS", "80")
    text = agent_r1("plugins", "show", "length", "-p", local).stdout
    assert "scores:    each episode, by score(trajectory), from -1 to 1" in text
    assert "presets:\n  short  Brief\n         target: 3\n" in text
    turn = agent_r1("plugins", "show", "valid_tool_call").stdout
    assert "scores:    each turn, by score_turn(turn, trajectory), from 0 to 1" in turn
    capped = agent_r1("plugins", "show", "supporting_titles").stdout
    assert "from 0 to 1, at most 1 in an episode" in " ".join(capped.split())
    env = agent_r1("plugins", "show", "tool_calling").stdout
    assert "tools:     the recipe's" in env
    for page in (turn, env):
        prose = [line for line in page.splitlines() if not line.startswith(("source:", "target:"))]
        assert max(map(len, prose)) <= 80


@pytest.mark.parametrize(
    ("annotation", "limits", "words"),
    [
        (int, {"ge": 1}, "whole number, at least 1"),
        (float, {"gt": 0, "le": 1}, "number, above 0, at most 1"),
        (int, {"ge": 1, "le": 100}, "whole number, from 1 to 100"),
        (float | None, {"gt": 0}, "number, above 0, or null"),
        (LocalPath | None, {}, "path or null"),
        (Literal["a", "b"] | None, {}, "one of a, b, or null"),
        (tuple[Literal[1, 2], ...], {}, "list, each one of 1, 2"),
        (bool | None, {}, "true, false, or null"),
        (list[str], {}, "list, each text"),
        (dict[str, int], {}, "mapping"),
    ],
)
def test_types_read_as_people_write_them(annotation, limits, words):
    model = create_model("Options", it=(annotation, Field(**limits)))
    field = model.model_fields["it"]
    assert type_in_words(field.annotation, field.metadata) == words


@pytest.mark.slow
def test_every_option_of_every_built_in_component_has_a_meaning_and_a_type(agent_r1):
    listed = json.loads(agent_r1("plugins", "list", "--json").stdout)["components"]
    for component in listed:
        name, kind = component["qualified"], component["kind"]
        page = json.loads(agent_r1("plugins", "show", name, "--kind", kind, "--json").stdout)
        for option in page.get("options", ()):
            assert option["doc"], f"{name} does not say what {option['name']} means"
            assert "anything" not in option["type"], f"{name}.{option['name']}"
            assert "None" not in option["doc"], "a recipe says null"


def test_doctor_finds_the_built_in_plugins_in_order_and_names_that_two_plugins_offer(agent_r1, local):
    result = agent_r1("plugins", "doctor", "--json")
    findings = {plugin["name"]: plugin["problems"] for plugin in json.loads(result.stdout)["plugins"]}
    assert not any(findings.values()), findings
    assert result.exit_code == 0
    twin = local.with_name("other.py")
    twin.write_text(LOCAL)
    result = agent_r1("plugins", "doctor", "-p", local, "-p", twin)
    assert result.exit_code == 1
    assert "2 plugins offer the reward 'length'; say 'mine/length' or 'other/length'" in result.stdout
