// The top of a run's page: how it stands, its score, and the ways on.

import { h } from "viewer/lib/dom.js";
import { ago, moment, number, seconds } from "viewer/lib/format.js";
import { best } from "viewer/lib/interval.js";
import { to } from "viewer/lib/router.js";
import { state } from "viewer/lib/state.js";

export function runHead({ id, detail }) {
  const { summary, episode_steps: steps, evaluations } = detail;
  const facts = [
    ["recipe", [summary.recipe, summary.algorithm].filter(Boolean).join(", ") || "–"],
    ["model", summary.model ?? "–"],
    ["best score", best(summary.best)],
    ["steps", summary.steps ? `${number(summary.step)} of ${number(summary.steps)}` : number(summary.step)],
    ["time", seconds(summary.seconds)],
    ["begun", moment(summary.created)],
    ["changed", ago(summary.updated)],
    ["folder", h("span", { class: "mono" }, summary.path)],
  ];
  const ways = [
    steps.length > 0 && h("a", { href: to(["runs", id, "steps", steps.at(-1)]) }, `Episodes of step ${steps.at(-1)}`),
    evaluations.length > 0 && h("a", { href: to(["runs", id, "evaluations"]) }, `Evaluations (${evaluations.length})`),
  ];
  return [
    h(
      "div",
      { class: "row" },
      h("h1", {}, id),
      state(summary.state ?? "unreadable", summary.sentence),
      h("span", { class: "muted" }, summary.sentence),
      h("span", { class: "end row" }, ways),
    ),
    h(
      "dl",
      { class: "facts columns" },
      facts.map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, value))),
    ),
    problems(detail),
  ];
}

/** A sentence for every file of the run that cannot be read. */
export function problems({ problems = [] }) {
  return problems.map((problem) => h("p", { class: "problem" }, problem));
}

/** The steps whose episodes were recorded, as links. */
export function episodeSteps({ id, detail }) {
  const steps = detail.episode_steps;
  if (!steps.length) return null;
  return h(
    "div",
    { class: "steps" },
    steps.map((step) => h("a", { href: to(["runs", id, "steps", step]) }, step)),
  );
}
