"""Planted faults: for every law, small patches that break it. `test_planted_faults.py` applies each to a copy of the
source and sees the law's own test fail.

Most of them stood in real systems of this field, in other words.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    """One fault: in `file`, the text `old`, which stands there exactly once, becomes `new`."""

    law: int
    name: str
    file: str
    old: str
    new: str
    tests: str = ""
    """A pytest -k expression: the quickest of the law's tests that sees it; empty: all of them."""


CONVERSATION = "agent_r1_core/chat/conversation.py"
EPISODE = "agent_r1_core/rollout/episode.py"
COLLECTOR = "agent_r1_core/rollout/collector.py"
RUNNER = "agent_r1_core/rollout/tool_runner.py"
THREADS = "agent_r1_core/rollout/threads.py"
BATCH = "agent_r1_core/learning/batch.py"
LEARNER = "agent_r1_core/learning/learner.py"
SCORING = "agent_r1_core/learning/scoring.py"
GROUPS = "agent_r1_core/learning/groups.py"

MUTATIONS: tuple[Mutation, ...] = (
    Mutation(
        1,
        "action-encoded-again",
        CONVERSATION,
        "start, stop = self.segments[-1].append_action(ids, logprobs)",
        "ids = self._tokenizer.encode(self._tokenizer.decode(ids))\n"
        "        start, stop = self.segments[-1].append_action(ids, [*logprobs, *[0.0] * len(ids)][: len(ids)])",
        "spelling_that_no_tokenizer",
    ),
    Mutation(
        1,
        "closing-ids-as-actions",
        CONVERSATION,
        "        self.segments[-1].append_context(ids)\n",
        "        self.segments[-1].append_context(ids)\n"
        "        if before and ids and ids[0] in self._tokenizer.eos_ids:\n"
        "            self.segments[-1].mask[before] = 1\n",
        "close_a_cut_action",
    ),
    Mutation(
        1,
        "rewritten-history-in-one-segment",
        CONVERSATION,
        "        if known is None:\n            self.segments.append(Segment())",
        "        if not self.segments:\n            self.segments.append(Segment())",
        "drops_thinking",
    ),
    Mutation(
        1,
        "nobody-on-guard",
        EPISODE,
        "            self._stage.guard.check_trajectory(self.trajectory, self._sampled)\n",
        "",
        "saw_other_ids",
    ),
    Mutation(
        1,
        "guard-believes-the-request",
        "agent_r1_core/chat/drift.py",
        "if context_digest(kept) != generation.digest:",
        "if context_digest(kept) != context_digest(generation.sent):",
        "saw_other_ids",
    ),
    Mutation(
        2,
        "learner-forgets-the-temperature",
        "agent_r1_core/learning/head.py",
        "        logits = logits if temperature == 1.0 else logits / temperature\n",
        "",
        "gap_is_nothing",
    ),
    Mutation(
        2,
        "engine-forgets-the-temperature",
        "plugins/agent_r1_transformers/sampling.py",
        "        logits = logits / temperatures[:, None]\n",
        "",
        "gap_is_nothing",
    ),
    Mutation(
        2,
        "read-one-token-late",
        "agent_r1_core/learning/policy.py",
        "packed.place[tokens - 1])",
        "packed.place[tokens])",
        "gap_is_nothing",
    ),
    Mutation(
        2,
        "engine-computes-with-a-copy",
        "plugins/agent_r1_transformers/lean.py",
        "        part.weight.data = weight[start:stop]\n",
        "",
        "gap_is_nothing",
    ),
    Mutation(
        2,
        "tied-output-weights-not-sent",
        "plugins/agent_r1_transformers/lean.py",
        "        self._head: Any = module.get_output_embeddings()",
        "        from copy import deepcopy\n\n        self._head: Any = deepcopy(module.get_output_embeddings())",
        "gap_is_nothing",
    ),
    Mutation(
        2,
        "vllm-keeps-its-tied-head",
        "plugins/agent_r1_vllm/extension.py",
        "        refresh_tied_head(worker.model_runner.get_model())\n",
        "",
        "vllm_agrees",
    ),
    Mutation(
        2,
        "vllm-forgets-the-temperature",
        "plugins/agent_r1_vllm/arguments.py",
        '"logprobs_mode": "processed_logprobs"',
        '"logprobs_mode": "raw_logprobs"',
        "vllm_agrees",
    ),
    Mutation(
        2,
        "gap-not-measured",
        SCORING,
        "(logprobs - sampler_logprobs).abs().double().sum()",
        "0.0 * logprobs.sum()",
        "would_be_seen",
    ),
    Mutation(
        3,
        "credit-through-tool-text",
        "plugins/agent_r1_ppo/ppo.py",
        "mask = batch.action_mask if config.advantage_mask else batch.response_mask",
        "mask = batch.response_mask",
        "numbers_at_masked",
    ),
    Mutation(
        3,
        "environment-tokens-discount",
        "agent_r1_core/learning/credit.py",
        "        advantage = torch.where(here, delta + gamma * lam * advantage, advantage)",
        "        distance = (index[:, k + 1] - index[:, k]).clamp(min=1) if k + 1 < value.shape[1] else 1\n"
        "        advantage = torch.where(here, delta + (gamma * lam) ** distance * advantage, advantage)",
        "neither_earn_nor_discount",
    ),
    Mutation(
        3,
        "value-knows-its-token",
        SCORING,
        "torch.cat([at - 1, lasts])",
        "torch.cat([at, lasts])",
        "first_action_token",
    ),
    Mutation(
        3,
        "bootstrap-lost",
        "agent_r1_core/learning/credit.py",
        "last_value = following if bootstrap is None else bootstrap.to(values.dtype)",
        "last_value = following",
        "bootstrap",
    ),
    Mutation(
        4,
        "outcome-on-the-last-id",
        BATCH,
        "batch.rewards[row, actions[-1]] += trajectory.reward",
        "batch.rewards[row, trajectory.tokens - 1] += trajectory.reward",
        "tools_answer",
    ),
    Mutation(
        4,
        "outcome-masked-after-a-tools-answer",
        BATCH,
        "batch.rewards[row, actions[-1]] += trajectory.reward",
        "batch.rewards[row, actions[-1]] += trajectory.reward * (int(actions[-1]) == trajectory.tokens - 1)",
        "tools_answer",
    ),
    Mutation(
        4,
        "process-reward-on-the-first-token",
        BATCH,
        "        return stop - 1\n",
        "        return start\n",
        "process_rewards",
    ),
    Mutation(
        4,
        "no-score-without-an-answer",
        EPISODE,
        "            await self._stage.scorer.score_episode(self.trajectory)\n",
        "            if self.trajectory.status is EndStatus.TERMINATED:\n"
        "                await self._stage.scorer.score_episode(self.trajectory)\n",
        "runs_out_of_budget",
    ),
    Mutation(
        5,
        "budgets-bootstrap",
        EPISODE,
        'self._end(EndStatus.TRUNCATED, "max_turns", messages)',
        'self._end(EndStatus.TRUNCATED, "max_turns", messages, bootstrap=True)',
        "only_the_clock",
    ),
    Mutation(
        5,
        "an-outer-limit-is-an-end",
        EPISODE,
        'self._end(EndStatus.TRUNCATED, "env", messages, bootstrap=True)',
        'self._end(EndStatus.TERMINATED, "env", messages)',
        "three_ways",
    ),
    Mutation(
        5,
        "failed-trains-as-zero",
        BATCH,
        " for t in g.trajectories if t.status != EndStatus.FAILED]",
        " for t in g.trajectories]",
        "never_trains",
    ),
    Mutation(
        5,
        "failed-stays-in-its-group",
        COLLECTOR,
        "kept = [trajectory for trajectory in own if trajectory.status is not EndStatus.FAILED]",
        "kept = own",
        "goes_on_breaking",
    ),
    Mutation(
        5,
        "one-retry-too-few",
        COLLECTOR,
        "if episode.error is not None and attempt <= retries:",
        "if episode.error is not None and attempt < retries:",
        "played_again",
    ),
    Mutation(
        6,
        "normaliser-of-what-is-left",
        LEARNER,
        "work.weigh(rows, self.algorithm.config)",
        "work.weigh(work.with_advantage(rows) or rows, self.algorithm.config)",
        "by_the_book and dapo",
    ),
    Mutation(
        6,
        "skips-in-spite-of-a-kl",
        LEARNER,
        " and not self.algorithm.needs_every_trajectory()",
        "",
        "under_a_kl",
    ),
    Mutation(
        6,
        "normaliser-per-micro-batch",
        LEARNER,
        "        terms = self.algorithm.loss(tokens)\n",
        "        work.weigh(packed.rows.tolist(), self.algorithm.config)\n"
        "        tokens = self._loss_tokens(work, packed, chosen, learns, meter)\n"
        "        terms = self.algorithm.loss(tokens)\n",
        "micro_batches and dapo",
    ),
    Mutation(
        6,
        "packed-neighbours-see-each-other",
        "agent_r1_core/learning/prefixes.py",
        "tuple(one.number for one in above)",
        "tuple(range(len(spans)))",
        "by_the_book and dapo",
    ),
    Mutation(
        6,
        "shared-prefix-scores-its-token-after-another-one",
        "agent_r1_core/learning/policy.py",
        ".scatter_(0, shared, packed.place[tokens - 1])",
        ".add_(packed.place[tokens - 1].min())",
        "by_the_book and dapo",
    ),
    Mutation(
        6,
        "groups-share-across-tasks-by-their-length",
        "agent_r1_core/learning/prefixes.py",
        "            if common < len(child.ids):\n                _split(child, common)\n",
        "            common = min(len(child.ids), len(sequence))\n"
        "            if common < len(child.ids):\n                _split(child, common)\n",
        "sharing and dapo",
    ),
    Mutation(
        7,
        "a-lone-trajectory-keeps-its-reward",
        GROUPS,
        "    return torch.where(found.informative, advantage, torch.zeros_like(advantage)).to(returns.dtype)",
        "    return torch.where(found.size > 1, advantage, returns.double()).to(returns.dtype)",
        "group_of_one",
    ),
    Mutation(
        7,
        "one-baseline-for-all-groups",
        BATCH,
        "group=torch.tensor([number for number, _ in rows], dtype=torch.long)",
        "group=torch.zeros(len(rows), dtype=torch.long)",
        "without_spread",
    ),
    Mutation(
        7,
        "equal-returns-divided-by-zero",
        GROUPS,
        "(highest > lowest)[group]",
        "(size > 1)[group]",
        "without_spread",
    ),
    Mutation(
        8,
        "unknown-keys-ignored",
        "agent_r1_core/config/blocks.py",
        'model_config = ConfigDict(extra="forbid", ',
        'model_config = ConfigDict(extra="ignore", ',
        "unknown_key",
    ),
    Mutation(
        8,
        "unknown-options-ignored",
        "agent_r1_core/contracts/component.py",
        'model_config = ConfigDict(extra="forbid", ',
        'model_config = ConfigDict(extra="ignore", ',
        "unknown_option",
    ),
    Mutation(
        8,
        "idle-options-accepted",
        "agent_r1_core/config/checks.py",
        "        if self.user_set(key):\n",
        "        if False:\n",
        "no_effect",
    ),
    Mutation(
        8,
        "malformed-call-ends-the-episode",
        "plugins/agent_r1_tool_calling/env.py",
        "        errors = list(parsed.errors)\n",
        "        errors = list(parsed.errors)\n        if errors:\n            return Step(terminated=True)\n",
        "malformed_call",
    ),
    Mutation(
        8,
        "nothing-to-learn-goes-unsaid",
        "agent_r1_core/training/health.py",
        'if metrics.get("health/groups_without_spread") == 1.0:',
        'if metrics.get("health/groups_without_spread", 0.0) > 1.0:',
        "no_reward_varies",
    ),
    Mutation(
        9,
        "a-tools-exception-escapes",
        RUNNER,
        ' seconds.", True\n        except Exception as error:\n            return error_text(call.name, error), True\n',
        ' seconds.", True\n',
        "whatever_a_tool_raises and ValueError",
    ),
    Mutation(
        9,
        "cancellation-by-a-tool-is-ours",
        THREADS,
        "        except BaseException as raised:\n            error = _ordinary(raised)\n",
        "        except BaseException as raised:\n            error = raised\n",
        "whatever_a_tool_raises and CancelledError",
    ),
    Mutation(
        9,
        "no-time-out",
        THREADS,
        "await asyncio.wait({future}, timeout=timeout)",
        "await asyncio.wait({future})",
        "costs_its_own and not async",
    ),
    Mutation(
        9,
        "one-thread-for-all-tools",
        RUNNER,
        "ThreadPool(max_concurrency * CALLS_PER_EPISODE)",
        "ThreadPool(1)",
        "as_wide_as",
    ),
    Mutation(
        9,
        "hung-threads-used-again",
        THREADS,
        "        if not future.done():\n            self._leave()\n",
        "        if not future.done():\n",
        "replaced_and_counted",
    ),
    Mutation(
        9,
        "exit-waits-for-hung-threads",
        THREADS,
        "daemon=True",
        "daemon=False",
        "delay_the_exit",
    ),
    Mutation(
        9,
        "spinning-process-left-alone",
        "agent_r1_core/rollout/isolated.py",
        "            self._all.discard(process)\n            process.kill()\n",
        "            self._all.discard(process)\n",
        "keeps_the_interpreter and integers",
    ),
    Mutation(
        9,
        "a-broken-world-ends-the-rollout",
        COLLECTOR,
        "        except Exception as error:\n            episode.fail(error)\n",
        "        except OSError as error:\n            episode.fail(error)\n",
        "whatever_an_environment_raises and ValueError",
    ),
    Mutation(
        10,
        "checkpoint-written-in-place",
        "agent_r1_core/runs/files.py",
        "        shutil.rmtree(temporary, ignore_errors=True)\n        temporary.mkdir(parents=True)\n",
        "        shutil.rmtree(path, ignore_errors=True)\n        path.mkdir(parents=True)\n        write(path)\n"
        "        return\n",
        "wherever_its_writer_dies and again",
    ),
    Mutation(
        10,
        "half-a-checkpoint-is-one",
        "agent_r1_core/runs/checkpoints.py",
        '        if any((path / name).stat().st_size != size for name, size in record["files"].items()):\n'
        "            return None\n",
        "",
        "half_there",
    ),
    Mutation(
        10,
        "resume-keeps-later-metrics",
        "agent_r1_core/runs/run.py",
        "        self._metrics.truncate_after(step)\n",
        "",
        "done_again",
    ),
    Mutation(
        10,
        "optimiser-begins-anew",
        LEARNER,
        '        self.optimiser.load_state_dict(state["optimiser"])\n',
        "",
        "bit_for_bit and grpo",
    ),
    Mutation(
        10,
        "resume-skips-a-step",
        "agent_r1_core/training/api.py",
        "done = checkpoint.step if checkpoint else 0",
        "done = checkpoint.step + 1 if checkpoint else 0",
        "bit_for_bit and grpo",
    ),
    Mutation(
        11,
        "one-seed-for-all-turns",
        EPISODE,
        'seed=derive_seed(self.trajectory.seed, "turn", len(self.trajectory.turns))',
        "seed=self.trajectory.seed",
        "seed_of_its_own",
    ),
    Mutation(
        11,
        "one-seed-for-all-samples",
        COLLECTOR,
        "own = derive_seed(seed, round, task.id, number)",
        "own = derive_seed(seed, round, task.id)",
        "seed_of_its_own",
    ),
    Mutation(
        11,
        "seed-by-order-of-arrival",
        COLLECTOR,
        "own = derive_seed(seed, round, task.id, number)",
        "own = derive_seed(seed, round, len(places))",
        "depends_on_no_order",
    ),
    Mutation(
        11,
        "global-random-numbers",
        "plugins/agent_r1_transformers/sampling.py",
        "numbers = torch.from_numpy(uniforms([request.seed for request in requests], positions))",
        "numbers = torch.rand(len(requests), dtype=torch.float64)",
        "two_deterministic_runs",
    ),
    Mutation(
        11,
        "unrepeatable-and-silent",
        "agent_r1_core/training/trainer.py",
        "            if not config.deterministic:\n",
        "            if False:\n",
        "says_so",
    ),
    Mutation(
        12,
        "substring-sold-as-exact-match",
        "agent_r1_core/evaluation/scorers.py",
        "float(normalize_answer(prediction) in accepted)",
        "float(any(answer in normalize_answer(prediction) for answer in accepted))",
        "substring",
    ),
    Mutation(
        12,
        "tools-know-the-answers",
        EPISODE,
        "    return replace(task, answers=(), metadata={})\n",
        "    return replace(task)\n",
        "no_tool_knows",
    ),
    Mutation(
        12,
        "no-width-where-nothing-was-seen",
        "agent_r1_core/evaluation/intervals.py",
        "    half = Z * math.sqrt(share * (1 - share) / n + Z**2 / (4 * n**2)) / scale\n",
        "    centre, half = share, Z * math.sqrt(share * (1 - share) / n)\n",
        "nothing_seen",
    ),
    Mutation(
        12,
        "failures-scored-as-wrong",
        "agent_r1_core/evaluation/report.py",
        "[[t for t in group.trajectories if t.status is not EndStatus.FAILED] for group in groups]",
        "[list(group.trajectories) for group in groups] + [[t] for t in dropped]",
        "failed_episodes",
    ),
)
