"""`agent-r1 play`: a person or a script in the model's place, with the real environment, tools and rewards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_r1_core.config import load_config


@pytest.mark.parametrize("command", ["play", "rollout", "eval"])
def test_whoever_plays_other_tasks_reads_which_options_are_dropped(succeed, command, noise):
    Path("actions.txt").write_text("<answer>2</answer>\n")
    short = ("engine.max_new_tokens=4", "env.max_turns=1", "threads=1", "--model", noise)
    options = {"play": ("--script", "actions.txt"), "rollout": (*short, "-n", 1), "eval": (*short, "evaluation.size=2")}
    done = succeed(command, "calculator", "tasks.eval=miniwiki", *options[command])
    assert 'tasks.eval is now miniwiki; of arithmetic these are dropped: tasks.eval.split="eval" (' in done.stderr


def test_what_cannot_be_used_here_is_told_before_the_game(agent_r1):
    assert "textworld, which cannot be used here: there is no " in agent_r1("play", "textworld", "--trust").stderr


@pytest.fixture(scope="module")
def sum_and_answer() -> tuple[str, str]:
    """The calculator recipe's first evaluation task: its expression and its answer."""
    resolved = load_config("calculator")
    block = resolved.config.tasks.eval
    assert block is not None
    task = resolved.make("tasks", block).load()[0]
    return str(task.metadata["expression"]), task.answers[0]


def test_a_script_plays_an_episode_to_its_reward_and_writes_the_summary_too(succeed, tmp_path, sum_and_answer):
    expression, answer = sum_and_answer
    script = tmp_path / "actions.txt"
    script.write_text(f"/calculator {expression}\n\n<answer>{answer}</answer>\n")
    done = succeed("play", "calculator", "--script", script)
    assert "[user] What is" in done.stdout
    assert '"expression": ' in done.stdout
    assert f"[tool calculator] {answer}\n" in done.stdout
    assert "the episode is over: terminated (answer)" in done.stdout
    assert "outcome reward 1.000 (exact_match 1.000" in done.stdout
    script.write_text("/calculator 1+1\n\nI know that it is 2.\n\n<answer>2</answer>\n")
    context = "context={name: summary, turns: 1, prompt: Sum up!, heading: So far}"
    done = succeed("play", "calculator", context, "--script", script)
    told = done.stdout
    assert "[tool calculator] 2\n[user] Sum up!\n  turn 0: reward" in told
    summed_up = "[assistant] I know that it is 2.\n[user] So far\nI know that it is 2.\n"
    assert f"{summed_up}  turn 1: a summary, with which the context begins anew\n[assistant] <answer>" in told
    assert "the episode is over: terminated (answer)" in told

    script = tmp_path / "actions.yaml"
    call = json.dumps({"name": "calculator", "arguments": {"expression": expression}})
    wrong = """'/calculator {"expression": "1+"}'"""
    script.write_text(f"- |-\n  <tool_call>\n  {call}\n  </tool_call>\n- {wrong}\n- <answer>{answer}</answer>\n")
    done = succeed("play", "calculator", "--script", script, "--json")
    told = json.loads(done.stdout)
    assert told["finished"] is True
    first, second, last = told["episode"]["turns"]
    assert first["calls"][0]["error"] is None
    assert second["calls"][0]["error"].startswith("Error:")
    assert (last["action"], told["episode"]["rewards"]["exact_match"]) == (f"<answer>{answer}</answer>", 1.0)


def test_whoever_plays_both_sides_reads_whose_turn_it_is_and_what_each_got(succeed, tmp_path):
    script = tmp_path / "moves.txt"
    script.write_text("[0 1]\n\n[1 2]\n\n[1 1]\n")
    told = succeed("play", "textarena", "--script", script).stdout
    assert "  turn 0: reward 0.000\n[player 1 acts]\n[assistant] [1 2]" in told
    assert "  turn 0: reward 0.000\n[player 0 acts]\n[assistant] [1 1]" in told
    assert told.count(" acts]") == 2
    ends = [" ".join(one.split()) for one in told.partition("(env)\n")[2].split("player ")[1:]]
    assert ends == ["0: no answer outcome reward 0.000 return 1.000", "1: no answer outcome reward 0.000 return -1.000"]


def test_a_person_may_mistype_and_quit_and_is_told_how_to_answer_and_what_is_scored(agent_r1, succeed):
    done = succeed("play", "calculator", input="/calc 3\n\nno idea\n/quit\n")
    assert "not sent: there is no tool 'calc'; write one of /calculator EXPRESSION, /help, /quit" in done.stdout
    assert "[user] Error: no tool call and no answer" in done.stdout
    assert "stopped before the end of the episode" in done.stderr
    assert "the episode is over" not in done.stdout
    ended = agent_r1("play", "calculator", "--json", input="")
    told = json.loads(ended.stdout)
    assert (ended.exit_code, told["finished"]) == (0, False), "the end of the input stops, too"
    assert told["episode"]["status"] is None, "it has not ended, so that nobody counts it as terminated"
    turns = agent_r1("play", "calculator", "env.max_turns=2", input="one\ntwo\nthree\n").stdout
    assert "the episode is over: truncated (max_turns)" in turns
    assert "no answer, accepted:" in turns

    reward = "rewards=[exact_match, {name: valid_tool_call, weight: 0.5, cap: 2}]"
    sentence = "write it, as short as possible, between <answer> and </answer>."
    done = succeed("play", "calculator", reward, input="/help\n/calculator 1+1\n/quit\n")
    assert done.stdout.count(sentence) == 2, "at the start and by /help"
    assert "(shortcuts: /calculator EXPRESSION, /help, /quit)" in done.stdout
    assert (
        "(rewards: exact_match from 0 to 1 each episode, weight 1; valid_tool_call from 0 to 1 each turn, weight 0.5, "
        "at most 2 in all)" in done.stdout
    )
    assert "turn 0: reward 0.500 (valid_tool_call 1.000)" in done.stdout
    prompted = agent_r1("play", "calculator", "env.system_prompt=null", input="/quit\n")
    assert prompted.stdout.count(sentence) == 1, "the system prompt says it already"


def test_a_player_reads_the_examples_that_the_policy_would_read(agent_r1, succeed, tmp_path):
    file = tmp_path / "own.jsonl"
    asked = ["play", "calculator", "--question", "What is 6 * 7?", "--answer", "42", "--keep", file]
    said = "/calculator 6 * 7\n<answer>42</answer>\n"
    succeed(*asked, input=said)
    assert "[example]" not in agent_r1(*asked, f"env.examples={file}", input=said).stdout
    asked[3] = "What is 7 * 6?"
    done = succeed(*asked, f"env.examples={file}", "env.max_examples=1", input=said)
    assert "[example] [user] What is 6 * 7?\n[example] [assistant] <tool_call>" in done.stdout
    assert "[example] [tool calculator] 42\n[example] [assistant] <answer>42</answer>\n" in done.stdout
    assert "as conversation 3" in done.stderr
    assert "6 * 7" not in json.loads(file.read_text().splitlines()[2])["messages"][0]["content"]


def test_a_successful_game_is_appended_as_a_conversation_where_a_demonstration_can_show_it(agent_r1, succeed, tmp_path):
    file = tmp_path / "shown.jsonl"
    file.write_text('{"messages": []}')  # somebody's own line, without an end
    asked = ["play", "calculator", "--question", "What is 6 * 7?", "--answer", "42", "--keep", file]
    lost = agent_r1(*asked, input="<answer>41</answer>\n")
    assert f"not kept in {file}: the game is no success; --success-at takes one of a lower return" in lost.stderr
    agent_r1(*asked, input="/calculator 6 * 7\n/quit\n")
    assert file.read_text() == '{"messages": []}'
    done = succeed(*asked, input="/calculator 6 * 7\n<answer>42</answer>\n")
    assert f"kept in {file}, as conversation 2" in done.stderr
    assert "answer '42', accepted: '42'" in done.stdout
    assert agent_r1(*asked, "--task", "1").exit_code == agent_r1("play", "--answer", "42").exit_code == 2
    agent_r1(*asked, "--success-at", "0", input="<answer>41</answer>\n")
    first, second, third = map(json.loads, file.read_text().splitlines())
    assert first == {"messages": []}
    call = {"type": "function", "function": {"name": "calculator", "arguments": '{"expression": "6 * 7"}'}}
    assert second == {
        "id": "question.1",
        "messages": [
            {"role": "user", "content": "What is 6 * 7?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "content": "42"},
            {"role": "assistant", "content": "<answer>42</answer>"},
        ],
        "answers": ["42"],
    }
    assert third["messages"][-1] == {"role": "assistant", "content": "<answer>41</answer>"}

    file = tmp_path / "none.jsonl"
    asked = ["play", "calculator", "env.format=search_tags", "--question", "?", "--answer", "42", "--keep", file]
    done = succeed(*asked, input="<search>6*7</search> and now\n<answer>42</answer>\n")
    assert f"not kept in {file}: action 1 of the demonstration of task question.0 goes on after" in done.stderr
    assert not file.exists()
    alone = agent_r1("play", "calculator", "--success-at", "1")
    assert (alone.exit_code, "give --keep too" in " ".join(alone.stderr.split())) == (2, True)


def test_a_tool_counts_the_tokens_of_the_recipes_model(succeed):
    tools, asked = "tools=[{name: wiki_search, max_tokens: 3, show: texts}]", ("--question", "Who?", "--answer", "x")
    done = succeed("play", "default", tools, *asked, input="/wiki_search film\n<answer>x</answer>\n")
    assert " ..." in done.stdout


HOSTILE = '''
"""A tool that speaks to the terminal."""
from agent_r1_core import ToolSpec, hookimpl, tool

AGENT_R1_PLUGIN_API = 1

@tool
def fetch(page: str) -> str:
    """Fetches a page."""
    print("A page.")
    return "\\x1b[2J\\rpaid\\u202e"

register_tools = hookimpl(lambda: [ToolSpec("fetch", ":fetch", "fetches a page")])
'''


def test_what_tools_and_people_write_is_shown_and_kept_whatever_it_is(succeed, tmp_path, agent_r1):
    """Terminal escapes of a tool, and lone surrogates: from the command line, and as a model's JSON may spell them."""
    (tmp_path / "hostile.py").write_text(HOSTILE)
    script = tmp_path / "actions.yaml"
    spelled = r'<tool_call>{"name": "fetch", "arguments": {"page": 1, "\ud83d": 2}}</tool_call>'
    script.write_text(f"- '{spelled}'\n- \"/fetch \\ud83d\"\n- <answer>no</answer>\n")
    asked = ["play", "calculator", "-p", tmp_path / "hostile.py", "tools=[fetch]", "--script", script]
    asked += ["--question", "What is \udcff?", "--answer", "\udcff"]
    done = succeed(*asked)
    assert r"[user] What is \udcff?" in done.stdout
    assert r"[tool fetch] \x1b[2J\rpaid\u202e" in done.stdout
    assert "Error: wrong arguments for fetch" in done.stdout
    exact = succeed(*asked, "--json")
    assert r"[tool fetch] \x1b[2J\rpaid\u202e" in exact.stderr
    episode = json.loads(exact.stdout)["episode"]
    assert episode["accepted"] == ["\udcff"]
    assert episode["turns"][2]["observation"][0]["content"] == "\x1b[2J\rpaid\u202e"
    assert episode["turns"][0]["calls"][0]["arguments"] == {"page": 1, "\ud83d": 2}

    done = agent_r1("play", "calculator", input=b"\xff\n")
    assert (done.exit_code, "error: the input is no text" in done.stderr) == (2, True)
    hostile = agent_r1("play", "calculator", "--script", "\x1b[2J.txt").stderr
    assert r"the script \x1b[2J.txt cannot be read" in hostile
    assert "\x1b" not in hostile


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.txt", "hm\n", "has too few actions (1)"),
        ("a.txt", "\n\n", "has no actions"),
        ("a.yaml", "a: 1\n", "must be a YAML list of texts"),
        ("a.yaml", "- 3\n", "must be a YAML list of texts"),
        ("a.txt", "/calc 3\n", "there is no tool 'calc'"),
        ("a.txt", '/calculator {"expression": \n', "are not JSON"),
    ],
)
def test_a_script_that_cannot_be_played(agent_r1, tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    done = agent_r1("play", "calculator", "--script", tmp_path / name)
    assert (done.exit_code, done.stderr.count("error:")) == (2, 1)
    assert words in done.stderr
