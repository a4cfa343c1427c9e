"""Plugins of other distributions: nobody who does not use one notices that it is installed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from agent_r1_core import SiteSpec
from agent_r1_core.config import load_config
from agent_r1_core.errors import AmbiguousComponent, UnknownComponent
from agent_r1_core.plugins import PluginRecord, PluginStatus, Registry, elsewhere

TOOL = "@hookimpl\ndef register_tools(): return [ToolSpec('{}', '{}:T', 'Says it')]\n"
REWARD = "@hookimpl\ndef register_rewards(): return [RewardSpec('{}', 'nowhere:R', 'Always 1')]\n"


def found(registry: Registry, distribution: str) -> dict[str, PluginRecord]:
    return {plugin.name: plugin for plugin in registry.plugins if plugin.distribution == distribution}


def test_whatever_an_import_does_it_ends_no_command_and_says_how(install):
    install(
        "wild-plugins",
        leaves="import os\nos._exit(0)",
        dies="import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)",
        raises="class Odd(BaseException): pass\nraise Odd('no')",
        interrupts="raise KeyboardInterrupt",
        stays="import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()\n"
        + TOOL.format("late", "x"),
        sound=TOOL.format("echo", "x"),
    )
    plugins = found(Registry.discover(), "wild-plugins")
    assert "wild_plugins_leaves ended the process that did it, which ended with exit code 0" in plugins["leaves"].reason
    assert "was killed by signal 11" in plugins["dies"].reason
    assert "importing wild_plugins_raises raised Odd: no (wild_plugins_raises.py, line 6)" in plugins["raises"].reason
    assert plugins["interrupts"].status == PluginStatus.FAILED
    assert [component.name for component in plugins["stays"].components] == ["late"]
    assert [component.summary for component in plugins["sound"].components] == ["Says it"]
    assert Registry.discover().create("tool", "calculator").name == "calculator"


def test_an_import_that_hangs_costs_its_time_once(install, monkeypatch):
    install("slow-plugins", sleeper="import time\ntime.sleep(600)")
    monkeypatch.setattr(elsewhere, "SECONDS", 0.5)
    [record] = found(Registry.discover(), "slow-plugins").values()
    assert record.reason.endswith("did not end within 0.5 seconds; `agent-r1 plugins doctor` tries it again")
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("it was imported again"))
    assert found(Registry.discover(), "slow-plugins") == {"sleeper": record}


def test_all_that_a_spec_says_is_remembered(install, monkeypatch):
    spec = "SiteSpec('barn', 'far:barn', 'Far away', needs=('a', 'b'), install='pip install it')"
    body = f"from agent_r1_core import SiteSpec\n@hookimpl\ndef register_sites(): return [{spec}]\n"
    install("far-plugins", barn=body)
    read = Registry.discover().find("site", "barn")
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("it was imported again"))
    assert read.spec == Registry.discover().find("site", "barn").spec
    assert read.spec == SiteSpec("barn", "far:barn", "Far away", needs=("a", "b"), install="pip install it")


def test_what_a_plugin_offers_is_read_once_until_it_or_its_folder_changes_and_never_in_this_process(install, tmp_path):
    log = tmp_path / "log"
    body = f"open({str(log)!r}, 'a').write('read ')\n"
    site = install("good-plugins", words=body + TOOL.format("count", "good_plugins_words"))
    for _ in range(2):
        registry = Registry.discover()
        assert registry.find("tool", "count").qualified == "words/count"
    assert log.read_text() == "read "
    assert "good_plugins_words" not in sys.modules
    module = site / "good_plugins_words.py"
    module.write_text(module.read_text().replace("'count'", "'count_words'"))
    assert Registry.discover().find("tool", "count_words")
    Registry.discover(anew=True)
    assert log.read_text() == "read read read "

    site = install(
        "list-plugins",
        all="import pkgutil\nfrom pathlib import Path\n@hookimpl\ndef register_tools():\n"
        "    found = pkgutil.iter_modules([str(Path(__file__).parent / 'tools')])\n"
        "    return [ToolSpec(module.name, 'x:T', 'Says it') for module in found]\n",
    )
    package = site / "list_plugins_all"
    (package / "tools").mkdir(parents=True)
    (site / "list_plugins_all.py").rename(package / "__init__.py")
    for name in ("one", "two"):
        (package / "tools" / f"{name}.py").touch()
        assert Registry.discover().find("tool", name)


def test_a_reader_that_nobody_waits_for_ends_by_itself(install, tmp_path):
    site = install("slow-plugins", sleeper="import signal\nsignal.pause()")
    plugin = {"name": "sleeper", "distribution": "slow-plugins", "version": "1.0", "value": "slow_plugins_sleeper"}
    question = {**plugin, "check": False, "seconds": 0.1}
    command = [sys.executable, "-m", "agent_r1_core.plugins.reader", str(tmp_path / "answer"), json.dumps(question)]
    path = os.pathsep.join([str(site), *filter(None, sys.path)])
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, timeout=60, check=False)
    assert done.returncode == -signal.SIGALRM


def test_a_distribution_cannot_take_the_name_of_a_built_in_plugin(install):
    install("aaa-rewards", rewards=REWARD.format("exact_match"))
    resolved = load_config("default")
    [note] = [text for text in resolved.warnings if "aaa-rewards" in text]
    assert note.startswith("plugin 'rewards' of aaa-rewards 1.0 is not loaded: a plugin of the same name comes from a")
    chosen = Registry.discover(disabled=["agent-r1/rewards"])
    assert chosen.plugin_of(chosen.find("reward", "exact_match")).distribution == "aaa-rewards"


def test_an_installed_component_is_no_rival_of_a_built_in_one_but_is_told(install):
    install("other-rewards", strict=REWARD.format("exact_match"))
    resolved = load_config("default")
    assert resolved.registry.find("reward", "exact_match").qualified == "rewards/exact_match"
    [note] = resolved.warnings
    assert note == (
        "reward 'exact_match' is that of plugin 'rewards'; other-rewards 1.0 offers one, too: say "
        "'strict/exact_match' if you mean it"
    )


def test_a_plugin_that_is_installed_later_changes_nothing_for_a_run_which_names_one_that_it_misses(install):
    install("first-lengths", first=REWARD.format("length"))
    saved = json.loads(json.dumps(Registry.discover().to_json()))
    install("later-lengths", later=REWARD.format("length"))
    with pytest.raises(AmbiguousComponent, match="say 'first/length' or 'later/length'"):
        Registry.discover().find("reward", "length")
    registry = Registry.discover(recorded=saved)
    assert registry.find("reward", "length").qualified == "first/length"
    registry.load("tool", "calculator")
    assert registry.check_same(saved) == []
    install("gone-breadths", gone=REWARD.format("breadth"))
    saved = json.loads(json.dumps(Registry.discover().to_json()))
    with pytest.raises(UnknownComponent, match=r"; the run had it from plugin 'gone' \(gone-breadths 1\.0\), which is"):
        Registry.discover(disabled=["gone"], recorded=saved).find("reward", "breadth")


def test_a_component_whose_import_ends_the_process_is_found_by_a_check_that_goes_on(install):
    site = install("late-plugins", late=TOOL.format("late", "leaves_late"), sound=TOOL.format("soft", "says_it"))
    (site / "leaves_late.py").write_text("import os\nos._exit(0)\n")
    tool = "from agent_r1_core import tool\n@tool\ndef T(text: str) -> str:\n    'Says it.'\n    return text\n"
    (site / "says_it.py").write_text(tool)
    late, sound = elsewhere.check_elsewhere(list(found(Registry.discover(), "late-plugins").values()))
    assert late.problems == ["importing its components ended the process that did it, which ended with exit code 0"]
    assert (sound.problems, sound.unavailable) == ([], [])
