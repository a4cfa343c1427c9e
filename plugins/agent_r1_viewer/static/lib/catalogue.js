// Which metrics there are, in which groups, and what each means.

import { line } from "viewer/lib/series.js";

const GROUPS = [
  ["reward", ["reward", "train"]],
  ["evaluation", ["eval"]],
  ["episodes", ["episode", "rollout", "baseline"]],
  ["health", ["health", "logprob_gap", "prob_gap"]],
  ["update", ["update"]],
  ["time", ["time"]],
  ["tools", ["tools"]],
];

/** The groups before and after those of the prefixes: what a reader looks at first, and what says the same at every step. */
export const FIRST = "important";
const CONSTANT = "constant";
const LOOKED_AT = ["health/groups_without_spread", "episode/turns", "update/entropy", "prob_gap", "time/step"];

/** What runs declare of their metrics, each name once: [{name, unit, better, meaning}]. */
export function catalogueOf(runs) {
  return [...new Map(runs.flatMap((run) => run.detail.catalogue).map((one) => [one.name, one])).values()];
}

/**
 * The metrics of several runs by group: [[group, [names]], ...]. First come reward, the headline's score, a few that tell how training
 * goes and whatever a monitor gave an alarm about; groups of other prefixes and constant metrics come last.
 */
export function grouped(names, runs, catalogue) {
  const order = new Map(catalogue.map(({ name }, index) => [name, index]));
  const place = (name) => order.get(name) ?? order.get(declared(name, catalogue)?.name) ?? Infinity;
  const shown = names.filter((one) => !isEnd(one, names));
  const first = important(shown, runs);
  const groups = new Map(GROUPS.map(([group]) => [group, []]));
  const constant = [];
  for (const name of shown.filter((one) => !first.includes(one))) {
    const group = groupOf(name);
    if (isConstant(name, runs)) constant.push(name);
    else groups.set(group, [...(groups.get(group) ?? []), name]);
  }
  for (const members of [...groups.values(), constant])
    members.sort((a, b) => place(a) - place(b) || a.localeCompare(b, "en", { numeric: true }));
  return [[FIRST, first], ...groups, [CONSTANT, constant]].filter(([, members]) => members.length);
}

function important(names, runs) {
  const headlines = runs.map(({ detail }) => `eval/${detail.evaluations.at(-1)?.headline.split(" ")[0]}`);
  const alarmed = runs.flatMap((run) => run.spans.map(({ metric }) => metric));
  return [...new Set(["reward/mean", ...headlines, ...LOOKED_AT, ...alarmed])].filter((name) => names.includes(name));
}

/** Whether a metric has one value at all steps of all runs, of which there are several; one that is no number is news. */
function isConstant(name, runs) {
  const lines = runs.map((run) => line(run, name, "step"));
  const values = lines.flatMap(({ raw }) => raw);
  const several = lines.some(({ steps }) => steps.length > 1);
  return several && values.every((value) => value !== null && value === values[0]);
}

/** The declaration {name, unit, better, meaning} of a metric, or of the family that it belongs to; null: undeclared. */
export function declared(name, catalogue) {
  return (
    catalogue.find((one) => one.name === name) ??
    catalogue.find((one) => one.name.includes("<") && pattern(one.name).test(name)) ??
    null
  );
}

/** The group of a metric's prefix. */
export function groupOf(name) {
  const prefix = name.split("/")[0];
  return GROUPS.find(([, prefixes]) => prefixes.includes(prefix))?.[0] ?? prefix;
}

/** Whether this is the end of an interval, which its score draws as a band. */
function isEnd(name, names) {
  const score = name.replace(/_(low|high)$/, "");
  return score !== name && name.startsWith("eval/") && names.includes(score);
}

function pattern(name) {
  const parts = name
    .split(/(<.*?>)/)
    .map((part) => (part.startsWith("<") ? "[^/]+" : part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")));
  return new RegExp(`^${parts.join("")}$`);
}
