// The evaluations of runs as a table: when, on what, and the headline's score with its interval.

import { h } from "viewer/lib/dom.js";
import { number } from "viewer/lib/format.js";
import { count, interval } from "viewer/lib/interval.js";
import { to } from "viewer/lib/router.js";
import { table } from "viewer/lib/table.js";

/** How many evaluations there are, and the newest one of a single run. */
export function evaluationTitle(runs) {
  const many = runs.reduce((sum, run) => sum + run.detail.evaluations.length, 0);
  const last = runs.length === 1 && runs[0].detail.evaluations.at(-1)?.headline;
  return ["Evaluations: ", h("span", { class: "muted" }, `${number(many)}${last ? `, the last: ${last}` : ""}`)];
}

export function evaluationList(runs) {
  const rows = runs.flatMap((run) =>
    run.detail.evaluations.flatMap((one) =>
      Object.entries(one.scores).map(([set, scores]) => ({ ...one, run, set, ...main(one, scores) })),
    ),
  );
  if (!rows.length) return null;
  const several = runs.length > 1;
  const sets = rows.some((row) => row.set);
  const list = table({
    columns: [
      several && { key: "run", label: "run", value: (row) => row.run.label },
      { key: "name", label: "evaluation", value: (row) => row.name, width: "110px" },
      { key: "step", label: "step", number: true, value: (row) => row.step, show: (row) => number(row.step) },
      sets && { key: "set", label: "set", value: (row) => row.set || "all" },
      { key: "metric", label: "score", value: (row) => row.metric },
      {
        key: "value",
        label: "value [95 % interval]",
        number: true,
        value: (row) => row.score?.value,
        show: (row) => (row.score ? interval(row.score) : "–"),
      },
      { key: "n", label: "n", number: true, value: (row) => row.score?.n, show: (row) => count(row.score ?? {}) },
    ].filter(Boolean),
    rows,
    sort: ["step", "up"],
    link: (row) => to(["runs", row.run.id, "evaluations"]),
    label: "Evaluations",
  });
  list.classList.add("scrolls");
  return list;
}

/** The score that an evaluation's headline begins with, or its first one. */
function main({ headline }, scores) {
  const metric = Object.keys(scores).find((name) => headline.startsWith(`${name} `)) ?? Object.keys(scores)[0];
  return { metric, score: scores[metric] };
}
