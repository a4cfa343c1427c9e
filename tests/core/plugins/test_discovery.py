"""What becomes of each plugin that is found; one that a recipe or a run names runs only where the user allows it."""

from __future__ import annotations

import importlib.util
import json
import py_compile
import sys
from pathlib import Path

import pytest

from agent_r1_core.config import load_config
from agent_r1_core.errors import ComponentLoadError, ConfigError
from agent_r1_core.plugins import PluginRecord, PluginStatus, Registry
from agent_r1_core.plugins.sources import Candidate, candidates
from agent_r1_core.plugins.trust import Trust, remember, shown


def test_of_two_installed_plugins_with_one_name_neither_is_loaded_until_one_is_disabled(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "tests" / "fixtures" / "broken_plugins"))

    def twins(*disabled: str) -> dict[str | None, PluginRecord]:
        registry = Registry.discover(disabled=["switched_off", *disabled])
        return {plugin.distribution: plugin for plugin in registry.plugins if plugin.name == "twin"}

    both = twins()
    for own, other in (("first-twin", "second-twin 2.0"), ("second-twin", "first-twin 1.0")):
        assert (both[own].status, both[own].components) == (PluginStatus.CONFLICTING, ())
        told = f"a plugin of the same name comes from {other}; rename, uninstall or disable"
        assert both[own].reason.startswith(told)
    one = twins("first-twin/twin")
    assert one["first-twin"].status == PluginStatus.DISABLED
    assert "the second twin was imported" in one["second-twin"].reason


def test_the_environment_disables_plugins(monkeypatch, local_plugin):
    monkeypatch.setenv("AGENT_R1_DISABLE_PLUGINS", "mine, calculator")
    registry = Registry.discover([local_plugin("raise AssertionError")])
    assert {p.name for p in registry.plugins if p.status == PluginStatus.DISABLED} == {"mine", "calculator"}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", "it registers nothing; define one of register_tools"),
        ("def register_tool(): pass", "no hook is called register_tool; did you mean 'register_tools'"),
        ("@hookimpl(specname='register_gadgets')\ndef gadgets(): return []", "no hook is called register_gadgets"),
        ("@hookimpl(wrapper=True)\ndef register_tools(): return (yield)", "hook register_tools is a wrapper"),
        ("@hookimpl\ndef register_tools(): pass", "returned NoneType; return a list of ToolSpec"),
        ("def register_tools(): return []\n@hookimpl\ndef register_envs(): return []", "is not marked; put @hookimpl"),
        ("@hookimpl\ndef register_tools(config): return []", "hook register_tools(config) takes arguments"),
        ("@hookimpl\ndef register_tools(): return [ToolSpec('a', ':A', '')] * 2", "offers the tool 'a' twice"),
        ("@hookimpl\ndef register_tools(): return [RewardSpec('a', ':A', '')]", "a list with a RewardSpec; return"),
        ("@hookimpl\ndef register_tools():\n    yield 1 / 0", "register_tools raised ZeroDivisionError"),
        ("@hookimpl\ndef register_tools(): return [ToolSpec('My Tool', ':A', '')]", "has the name 'My Tool'; use"),
        ("@hookimpl\ndef register_tools(): return [ToolSpec('a', 'module.A', '')]", "has the target 'module.A'; write"),
        ("@hookimpl\ndef register_tools(): return [ToolSpec('a', ':A', '', aliases='b')]", "needs a tuple of names"),
        (
            "from agent_r1_core import SiteSpec\n"
            "@hookimpl\ndef register_sites(): return [SiteSpec('a', ':A', '', needs='ray')]",
            "site 'a' has needs='ray'; use a tuple of names of packages",
        ),
        (
            "@hookimpl\ndef register_tools(): return [ToolSpec('a', ':A', '', presets=(Preset('b', {'c': {1}}),))]",
            "preset 'b' of tool 'a' has options that JSON cannot hold",
        ),
        ("class Odd(BaseException):\n    __str__ = exit\nraise Odd", "raised Odd (mine.py, line "),
    ],
)
def test_every_rule_of_hooks_has_a_sentence(local_plugin, body, reason):
    record = _local(Registry.discover([local_plugin(body)]))
    assert record.status == PluginStatus.FAILED
    assert reason in record.reason


@pytest.mark.parametrize(
    ("api", "reason"),
    [
        ("", "it does not say which plugin API it was written for; add AGENT_R1_PLUGIN_API = 1"),
        ("AGENT_R1_PLUGIN_API = 2", "it was written for plugin API 2 and this agent-r1 has 1"),
        ("AGENT_R1_PLUGIN_API = True", "it was written for plugin API True and this agent-r1 has 1"),
    ],
)
def test_a_missing_or_other_api_number_is_incompatible(local_plugin, api, reason):
    record = _local(Registry.discover([local_plugin("@hookimpl\ndef register_tools(): return []", api=api)]))
    assert (record.status, record.components) == (PluginStatus.INCOMPATIBLE, ())
    assert record.reason.startswith(reason)


def test_a_file_given_twice_is_one_plugin_hides_no_module_of_its_name_and_is_read_again_when_it_changes(local_plugin):
    path = local_plugin("@hookimpl\ndef register_tools(): return []", name="json")
    registry = Registry.discover([path, str(path)])
    assert [p.status for p in registry.plugins if p.file_hash] == [PluginStatus.OK]
    assert sys.modules["json"] is json
    body = "@hookimpl\ndef register_tools(): return [ToolSpec('{}', ':A', '')]"
    before = _local(Registry.discover([local_plugin(body.format("old"))]))
    after = _local(Registry.discover([local_plugin(body.format("new"))]))
    assert [record.components[0].name for record in (before, after)] == ["old", "new"]
    assert before.file_hash != after.file_hash


@pytest.mark.parametrize(("name", "complaint"), [("gone.py", "does not exist"), ("a.txt", "is not a Python file")])
def test_a_file_that_cannot_be_a_plugin_is_an_error(tmp_path, name, complaint):
    (tmp_path / "a.txt").touch()
    with pytest.raises(ConfigError, match=complaint):
        Registry.discover([tmp_path / name])


def test_no_compiled_file_takes_the_place_of_a_plugin_and_no_local_one_that_of_a_built_in_one(local_plugin, tmp_path):
    path = local_plugin("@hookimpl\ndef register_tools(): return [ToolSpec('read', ':A', '')]")
    other = tmp_path / "other.py"
    other.write_text("raise AssertionError('the compiled file ran')")
    compiled = importlib.util.cache_from_source(str(path))
    py_compile.compile(str(other), compiled, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    assert [component.name for component in _local(Registry.discover([path])).components] == ["read"]

    path = local_plugin("raise AssertionError('it was imported')", name="rewards")
    records = [plugin for plugin in Registry.discover([path]).plugins if plugin.name == "rewards"]
    assert {plugin.distribution: plugin.status for plugin in records} == {"agent-r1": "ok", None: "conflicting"}
    recipe = path.with_name("mine.yaml")
    recipe.write_text("plugins: [rewards.py]\n")
    with pytest.raises(ComponentLoadError, match=r"rewards, which is conflicting: .* comes from agent-r1 "):
        load_config(recipe, trust=Trust(named=True))


def test_what_a_plugin_prints_goes_to_stderr(local_plugin, capsys):
    Registry.discover([local_plugin("print('hello')\n@hookimpl\ndef register_tools(): return []")])
    out, err = capsys.readouterr()
    assert (out, err) == ("", "hello\n")


def _local(registry: Registry) -> PluginRecord:
    return next(plugin for plugin in registry.plugins if plugin.file_hash)


def file(path: Path, text: str = "1") -> Candidate:
    path.write_text(text)
    return next(candidate for candidate in candidates([path]) if candidate.is_local)


def test_a_person_is_asked_once_about_what_did_not_run_here(tmp_path):
    (tmp_path / "\x1b[2J").mkdir()
    first, second = file(tmp_path / "first.py"), file(tmp_path / "\x1b[2J" / "second.py")
    remember([first])
    questions: list[str] = []
    asking = Trust(confirm=lambda question: questions.append(question) or True)  # type: ignore[func-returns-value]
    assert asking.refused([first, second]) == []
    assert asking.refused([first, second]) == []
    [question] = questions
    assert "first.py" not in question
    assert shown(second) in question
    assert "\x1b" not in question, "a path does not steer the terminal"


def test_a_no_nobody_to_ask_and_another_content_or_place_refuse_and_what_the_user_names_runs(tmp_path, monkeypatch):
    unknown = file(tmp_path / "unknown.py")
    assert Trust(confirm=lambda _: False).refused([unknown]) == [unknown]
    assert Trust().refused([unknown]) == [unknown]
    remember([file(tmp_path / "mine.py")])
    moved, edited = file(tmp_path / "moved.py"), file(tmp_path / "mine.py", "2")
    assert Trust().refused([moved, edited]) == [moved, edited]
    assert Trust(edited=True).refused([moved, edited]) == [moved]
    monkeypatch.setenv("AGENT_R1_STATE", "/dev/null/state")
    mine = file(tmp_path / "mine.py")
    assert Trust(named=True).refused([mine]) == []
    assert Trust().refused([mine]) == [mine]
