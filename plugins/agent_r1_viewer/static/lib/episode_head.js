// The head of an episode: how it ended, what it answered and should have, and how its return adds up.

import { answer, goldAnswers } from "viewer/lib/answer.js";
import { h } from "viewer/lib/dom.js";
import { folded } from "viewer/lib/folded.js";
import { number, plural, seconds, turnsAndSummaries } from "viewer/lib/format.js";
import { components, process, signed } from "viewer/lib/rewards.js";
import { state } from "viewer/lib/state.js";
import { verdictList } from "viewer/lib/verdict.js";
import { question } from "viewer/lib/visible.js";

/** Task, verdict, answer, return and facts; `goTo(turn)` opens a turn. */
export function episodeHead(episode, goTo) {
  const why = verdictList(episode, goTo);
  const failed = episode.status === "failed";
  return h(
    "section",
    { class: "panel episode-head" },
    failed && why,
    h(
      "div",
      { class: "question", role: "heading", "aria-level": 1 },
      folded(question(episode.task.prompt), { letters: 400, lines: 5 }),
    ),
    h(
      "div",
      { class: "row" },
      state(episode.status, episode.reason || null),
      episode.reason && episode.status !== "failed" && h("span", { class: "muted" }, `ended by: ${episode.reason}`),
      answers(episode),
    ),
    !failed && why,
    returns(episode),
    facts(episode),
  );
}

function answers({ answer: given, rewards, task }) {
  if (!task.answers.length && given === null) return null;
  return h("span", { class: "answers" }, h("span", {}, "answer ", answer({ answer: given, rewards })), goldAnswers(task));
}

/** "return 0.9 = outcome 0.9 + process 0", and the components that are behind both sums. */
function returns(episode) {
  const total = h("strong", { class: "number" }, h("data", { value: String(episode.return) }, number(episode.return, 4)));
  const parts = [`outcome ${number(episode.reward, 4)}`];
  const scored = episode.turns.filter((turn) => Object.keys(turn.rewards).length || turn.reward);
  if (scored.length) parts.push(`process ${signed(process(episode.turns))}`);
  const outcome = components(episode.rewards);
  return h(
    "p",
    { class: "returns" },
    "return ",
    total,
    ` = ${parts.join(" + ")}`,
    h("span", { class: "muted" }, " (weighted)"),
    outcome &&
      h("span", { class: "muted" }, ` — before weighting: ${outcome}`, scored.length ? `; by turn: ${names(scored)}` : ""),
  );
}

/** Sums of the process rewards by component, before weighting. */
function names(turns) {
  const sums = {};
  for (const [name, value] of turns.flatMap((turn) => Object.entries(turn.rewards)))
    sums[name] = (sums[name] ?? 0) + Number(value);
  return components(sums);
}

function facts(episode) {
  const total = (of) => episode.segments.reduce((sum, segment) => sum + segment[of], 0);
  const segments = episode.segments.length > 1 ? ` in ${episode.segments.length} segments` : "";
  const tools = episode.tool_seconds ? `, tools ${seconds(episode.tool_seconds)}` : "";
  const items = [
    turnsAndSummaries(episode.turns),
    `${plural(total("length"), "token")}${segments}, ${number(total("sampled"))} sampled`,
    `${seconds(episode.seconds)}${tools}`,
    versions(episode),
    `seed ${episode.seed}`,
    episode.attempts > 1 && `${episode.attempts} attempts`,
    h("bdi", {}, `task ${episode.task.id}`),
    episode.player > 0 && `player ${episode.player} of a game against itself`,
    episode.examples > 0 && `after ${plural(episode.examples, "example")}, which are among its tokens`,
    episode.repeated_turns > 0 && `branches off from sample ${episode.branched_from} after ${plural(episode.repeated_turns, "turn")}`,
    episode.baseline && "greedy baseline, never trained on",
    episode.bootstrap && "the critic's value continues it",
  ];
  return h(
    "ul",
    { class: "inline muted" },
    items.filter(Boolean).map((one) => h("li", {}, one)),
  );
}

function versions({ turns, policy_version: first }) {
  const seen = [...new Set(turns.flatMap((turn) => (turn.versions ?? []).map(([version]) => version)))].sort((a, b) => a - b);
  return seen.length > 1 ? `sampled by weights of versions ${seen.join(", ")}` : `weights' version ${seen[0] ?? first}`;
}
