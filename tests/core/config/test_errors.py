"""A wrong recipe is told apart key by key: which key, from where, and what is allowed."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

import pytest

from agent_r1_core.config import load_config
from agent_r1_core.config.yaml_text import dump
from agent_r1_core.errors import AgentR1Error, ComponentLoadError, ConfigError, UnknownComponent


def refusal(load: Callable[..., Any], *overrides: str, kind: type[Exception] = ConfigError, **more: Any) -> str:
    with pytest.raises(kind) as caught:
        load(*overrides, **more)
    assert type(caught.value) is kind
    return str(caught.value)


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("training.lrr=1", "is not a key (did you mean training.lr?); allowed here: adam_eps, betas, cpu_offload"),
        ("lr=1", "is not a key (did you mean training.lr?)"),
        ("trainnig=3", "is not a key (did you mean training?)"),
        ("xyzzy=3", "is not a key; allowed here: algorithm, checkpoint"),
        ("algorithm.clipp=.1", "is not a key (did you mean algorithm.clip?); allowed here: aggregation, clip, entropy"),
        ("tools[0].topk=3", "is not a key (did you mean tools[0].top_k?); allowed here: corpus, isolation, limits"),
        ("model.lora.rnk=3", "is not a key (did you mean model.lora.rank?)"),
        ("training.steps=many", "must be a valid integer, not 'many'"),
        ("training.steps=true", "must be a valid integer, not True"),
        ("training.steps=0", "must be greater than or equal to 1, not 0"),
        ("training.lr=.nan", "must be a finite number, not nan"),
        ("training.betas=[1,2,3]", "must have at most 2 items, not 3"),
        ("model.dtype=float16", "must be 'auto', 'float32' or 'bfloat16', not 'float16'"),
        ("threads=1000000000", "must be 'auto' or less than or equal to 1024, not 1000000000"),
        ("training=3", "must be keys with values, not 3"),
        ("tools=search", "must be a list, not 'search'"),
        ("run.name=..", "must consist of letters, digits, '.', '_', '+' and '-', the first of them a letter or digit"),
        ("run.name=-f", "must consist of letters, digits"),
        ("checkpoint.best=eval/rigth", "must be null or one of eval/exact_match, eval/f1, eval/success, eval/answered"),
    ],
)
def test_one_wrong_key_or_value(load, override, sentence):
    text = refusal(load, override)
    key = override.partition("=")[0]
    assert text.startswith(f"{key} (override '{override}') {sentence}"), text


def test_a_wrong_entry_and_a_missing_name_are_located_and_several_errors_are_shown_at_once(load):
    assert refusal(load, "tasks.train.levels=[1, a]").startswith("tasks.train.levels[1] (override")
    assert refusal(load, "tasks.eval.size=3") == "tasks.eval.name (override 'tasks.eval.size=3') is missing; add it"
    text = refusal(load, "env.format={name: tags, tools: x}")
    assert text.startswith("env.format.tools (override")
    assert "is not a key (did you mean env.format.tool?); allowed here: closed, closing, name, tool" in text
    assert refusal(load, "env.format.tool=x") == "env.format.name (override 'env.format.tool=x') is missing; add it"

    recipe = "training:\n  stepps: 3\nmodel:\n  dtype: half\nplugins: [parts.py]\nalgorithm: ac\nenv: grid\n"
    text = refusal(load, "seed=-1", text=recipe)
    lines = text.splitlines()
    assert len(lines) == 3
    assert any("training.stepps (" in line and "other.yaml, line 2) is not a key" in line for line in lines)
    assert any("model.dtype (" in line and "other.yaml, line 4) must be" in line for line in lines)
    assert any("seed (override 'seed=-1')" in line for line in lines)
    mixed = refusal(load, "algorithm.name=grup", "seed=-1")
    assert [line.partition(" ")[0] for line in mixed.splitlines()] == ["algorithm.name", "seed"]


NO_EVALUATION = ("evaluation.every=0", "evaluation.at_start=false", "evaluation.at_end=false")
LEARNER_WORKER = ("distributed.rollout_workers=1", "distributed.learner_workers=1")
KEYS = {f"key_{index}": 1 for index in range(2_000)}


@pytest.mark.parametrize(
    "recipe",
    [KEYS, {"training": KEYS}, {"algorithm": {"name": "ac", **KEYS}}, {"tools": list(KEYS)}],
    ids=["top", "section", "component", "names"],
)
def test_of_thousands_of_problems_a_few_are_looked_into_and_told(load, monkeypatch, recipe):
    looks: list[str] = []
    monkeypatch.setattr(difflib, "get_close_matches", lambda word, *_, **__: looks.append(word) or [])
    with pytest.raises(AgentR1Error) as caught:
        load(text=dump({**recipe, "plugins": ["parts.py"]}))
    lines = str(caught.value).splitlines()
    assert lines[-1] == "these are the first 20 problems; mend them to see whether there are more"
    assert len(lines) == 21
    assert len(looks) <= 6 * 20, "each problem is compared with known names a few times"


@pytest.mark.slow
def test_a_recipe_of_twenty_thousand_keys_is_no_recipe(load):
    text = refusal(load, text="".join(f"key_{index}: 1\n" for index in range(20_000)))
    assert text.endswith("other.yaml holds more than 10,000 values; keep long lists in a data set")


def test_an_unknown_component_or_plugin_file_names_key_and_neighbour(load, folder):
    text = refusal(load, "algorithm.name=grup", kind=UnknownComponent)
    assert text.startswith("algorithm.name (override 'algorithm.name=grup') cannot be used: no algorithm is called 'gr")
    assert "did you mean 'group'?" in text
    text = refusal(load, "env.format=tag", kind=UnknownComponent)
    assert "env.format.name (override 'env.format=tag') cannot be used: no tool_format is called 'tag'" in text

    assert "option 'timeout'" in refusal(load, "tools=[dice]", kind=ComponentLoadError)

    assert "plugins[0] (override 'plugins=[x.py]') names no file" in refusal(load, "plugins=[x.py]")
    for name in ("~nosuchuser/x.py", r"a\0b.py"):
        assert "other.yaml, line 1) names no file" in refusal(load, text=f'plugins: ["{name}"]')
        assert "names no file" in refusal(load, f'plugins=["{name}"]')
    (folder / "broken.py").write_text("import no_such_module\n")
    text = refusal(load, plugins=[str(folder / "broken.py")], kind=ComponentLoadError)
    assert f"plugins[1] (-p {folder / 'broken.py'})" in text
    assert "no_such_module" in text


@pytest.mark.parametrize(
    ("overrides", "key", "why"),
    [
        (["env.hint_text=x"], "env.hint_text", "hints is false"),
        (["env.format={name: tags, closed: false, closing: stop}"], "env.format.closing", "closed is false"),
        (["training.extra_rollouts=3"], "training.extra_rollouts", "the algorithm group never asks for more episodes"),
        (["tools[0].limits.memory=2"], "tools[0].limits", "they hold for isolation: process"),
        (["training.mismatch_low=0.9"], "training.mismatch_low", "training.mismatch_mask is null"),
        (["env=grid"], "tools", "the environment grid uses no tools; set tools=[]"),
        ([*NO_EVALUATION, "evaluation.size=3"], "evaluation.size", "evaluation.every is 0"),
        ([*NO_EVALUATION, "recording.evaluation_episodes=3"], "recording.evaluation_episodes", "nothing is evaluated"),
    ],
)
def test_options_that_somebody_set_without_effect(load, overrides, key, why):
    text = refusal(load, *overrides)
    assert f"{key} (" in text
    assert f"has no effect here: {why}" in text


def test_defaults_are_free_to_be_idle(load):
    assert load().config.env.config.hint_text == "look"
    assert load("env.hints=true", "env.hint_text=x").config.env.config.hint_text == "x"
    assert load("algorithm=ac", "training.critic_lr=1e-3").config.training.critic_lr == 1e-3
    assert load("env=grid", "tools=[]").config.env.name == "grid"
    assert load("env.format={name: tags, tool: a, closed: false, closing: null}").config.env.name
    taxed = load_config("default", ["algorithm={name: ppo, kl_coef: 0.1}", "training.old_logprobs=learner"])
    assert taxed.config.training.old_logprobs == "learner"


@pytest.mark.parametrize(
    ("algorithm", "option", "training"),
    [
        ("ppo", "importance_clip", "{importance_clip: 2.0, old_logprobs: engine, epochs: 2}"),
        ("grpo", "mismatch_mask", "{mismatch_mask: icepop, old_logprobs: engine, epochs: 2}"),
        ("{name: grpo, objective: dppo}", "importance_clip", "{importance_clip: 2.0}"),
        ("{name: ppo, kl_coef: 0.1}", "skip_without_gradient", "{skip_without_gradient: true}"),
        ("ppo", "old_logprobs", "{old_logprobs: learner}"),
        ("grpo", "staleness_correction", "{max_staleness: 1, staleness_correction: truncated}"),
        ("grpo", "staleness_correction", "{max_staleness: 1, staleness_correction: decoupled}"),
    ],
)
def test_savings_and_corrections_that_do_nothing_are_errors(algorithm, option, training, folder):
    (folder / "idle.yaml").write_text(f"algorithm: {algorithm}\ntraining: {training}\n")
    with pytest.raises(ConfigError, match=rf"training\.{option} \(.*idle\.yaml, line 2\) has no effect here"):
        load_config("idle", folders=[folder])
    (folder / "apt.yaml").write_text(f"algorithm: grpo\ntraining: {training.replace('engine', 'learner')}\n")
    for several in ("training.epochs=2", "training.minibatches=2"):
        assert load_config("apt", [several], folders=[folder]).config.training


def test_a_mask_that_would_keep_nothing_is_refused_and_a_run_with_an_idle_correction_can_be_resumed(load, tmp_path):
    text = refusal(load, "training.mismatch_mask=geometric", "training.mismatch_low=2")
    assert "training.mismatch_low (override 'training.mismatch_low=2') leaves nothing to keep" in text
    several = ["training.max_staleness=1", "training.staleness_correction=truncated", "training.epochs=2"]
    file = tmp_path / "config.yaml"
    file.write_text(load_config("default", several).yaml().replace("epochs: 2", "epochs: 1"))
    (note,) = [text for text in load_config(file).warnings if "staleness_correction" in text]
    assert "has no effect here" in note


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("engine.top_p=0.9", "must be 1.0 in training, not 0.9"),
        ("engine.top_k=5", "must be 0 in training, not 5"),
        ("engine.temperature=0", "must be above 0 in training"),
    ],
)
def test_training_refuses_sampling_that_it_cannot_replay(load, override, words):
    assert words in refusal(load, override)
    assert load(override, training=False).config.engine.config


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["deterministic=true", "model.device=cuda"], "deterministic (override 'deterministic=true') needs the CPU"),
        (["training.minibatches=129"], "must be at most 128, the episodes of a step, not 129"),
        (["training.warmup_steps=30"], "is 30 and must be below training.steps=30"),
        (["algorithm=ac", "training.warmup_steps=20", "training.critic_warmup=10"], "20 + 10 steps are not below"),
        (["training.cpu_offload=true"], "needs a learner worker; set distributed.rollout_workers and distributed."),
        (["training.cpu_offload=true", *LEARNER_WORKER, "model.device=cpu"], "the learner workers compute on the CPU"),
        (["distributed.learner_workers=1"], "needs rollout workers beside it; set distributed.rollout_workers to 1 or"),
        (["distributed={rollout_workers: 2, learner_workers: 1, placement: colocated}"], "there are 2 and 1; set both"),
        (["distributed.address=head"], "distributed.address (override 'distributed.address=head') must be auto or"),
        ([*LEARNER_WORKER, "distributed.gpus_per_rollout_worker=2", "engine=transformers"], "but the engine uses 1"),
    ],
)
def test_combinations_that_contradict_each_other(load, overrides, words):
    assert words in refusal(load, *overrides)


def test_a_doubtful_setup_is_warned_about(load, folder):
    assert load().warnings == ()
    (best,) = load("evaluation.every=5", "checkpoint.best=eval/exact_match").warnings
    assert best.startswith("evaluation.every=5 is not a multiple of checkpoint.every=10")
    one, two = load("training.samples_per_task=1", "env.max_tokens=5000").warnings
    assert "groups of one" in one
    assert "5000" in two
    recipe = "algorithm: {name: grpo, clip_high: 0.3}\n"
    (folder / "clip.yaml").write_text(recipe)
    (warning,) = load_config("clip", folders=[folder]).warnings
    assert warning.startswith("algorithm.clip_high never acts")
    assert load_config("clip", ["training.minibatches=2"], folders=[folder]).warnings == ()
    truncated = ["training.epochs=2", "training.max_staleness=1", "training.staleness_correction=truncated"]
    (warning,) = load_config("clip", truncated, folders=[folder]).warnings
    assert warning.startswith("algorithm.clip_high never acts: with training.staleness_correction=truncated")


@pytest.mark.parametrize(("lam", "warmup", "warned"), [(0.9, 2, True), (0.9, 10, False), (1.0, 2, False)])
def test_a_critic_that_is_trusted_and_hardly_learns_is_warned_about(load, lam, warmup, warned):
    warnings = load(f"algorithm={{name: ac, gae_lambda: {lam}}}", f"training.critic_warmup={warmup}").warnings
    assert warned == any(f"training.critic_warmup={warmup} hardly teaches it" in one for one in warnings)


def test_evaluations_of_other_tasks_than_those_that_were_named_for_training_are_told():
    train, scored = "tasks.train={name: arithmetic}", "tasks.eval={name: arithmetic, size: 4}"

    def told(*overrides: str) -> list[str]:
        return [text for text in load_config("default", overrides).warnings if "set tasks.eval, too" in text]

    assert told(train) == [
        "training takes tasks of arithmetic (override 'tasks.train={name: arithmetic}'), and evaluations still those "
        "of miniwiki, as the recipe says; set tasks.eval, too"
    ]
    assert told() == told(train, scored) == told("tasks.train={name: miniwiki}") == told(train, "tasks.eval=null") == []


@pytest.mark.parametrize(
    ("train", "scored", "shared"),
    [
        ("{name: gsm8k, path: a.jsonl}", "{name: gsm8k, path: a.jsonl}", True),
        ("{name: gsm8k, path: a.jsonl, size: 9}", "{name: gsm8k, path: a.jsonl, offset: 8, size: 5}", True),
        ("{name: gsm8k, path: a.jsonl, size: 9}", "{name: gsm8k, path: a.jsonl, offset: 9}", False),
        ("{name: gsm8k, path: a.jsonl}", "{name: gsm8k, path: b.jsonl}", False),
        ("{name: gsm8k, path: a.jsonl}", "{name: qa, path: a.jsonl}", False),
        ("{name: miniwiki, seed: 3}", "{name: miniwiki, seed: 3}", True),
        ("{name: miniwiki, size: 9}", "{name: miniwiki, size: 8}", False),
    ],
)
def test_an_evaluation_on_tasks_that_are_trained_on_is_warned_about(train, scored, shared):
    keys = [f"tasks.train={{other: {{name: arithmetic}}, mine: {train}}}", f"tasks.eval={scored}"]
    warnings = load_config("default", keys).warnings
    assert shared == any("tasks.eval has tasks of tasks.train.mine: the scores are likely" in one for one in warnings)
    silent = load_config("default", [keys[0], "evaluation={every: 0, at_start: false, at_end: false}"]).warnings
    assert not any("has tasks of" in one for one in silent)
