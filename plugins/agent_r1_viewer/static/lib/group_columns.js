// The columns of a step's table of groups: task, returns and spread, length, how the samples ended.

import { h } from "viewer/lib/dom.js";
import { number } from "viewer/lib/format.js";
import { episodeParts } from "viewer/lib/places.js";
import { to } from "viewer/lib/router.js";
import { state } from "viewer/lib/state.js";
import { beginning } from "viewer/lib/visible.js";

export function groupColumns(run, step, groups) {
  const prompts = groups.map((one) => one.prompt);
  const again = new Set(prompts.filter((prompt, place) => prompts.indexOf(prompt) !== place));
  return [
    { key: "task", label: "task", value: (row) => row.prompt, show: (row) => named(row, again), width: "220px" },
    {
      key: "returns",
      label: "returns",
      show: (row) =>
        h(
          "span",
          { class: "returns-list" },
          row.returns.map((one, index) => dot(run, step, row, one, index)),
          baseline(run, step, row),
        ),
    },
    {
      key: "mean",
      label: "mean",
      number: true,
      value: (row) => row.mean,
      show: (row) => number(row.mean),
      title: "mean return of the group",
    },
    {
      key: "std",
      label: "spread",
      number: true,
      value: (row) => row.std,
      show: (row) => number(row.std),
      title: "standard deviation of the returns; without spread a group has no advantage",
    },
    {
      key: "turns",
      label: "turns",
      number: true,
      value: (row) => row.turns,
      show: (row) => number(row.turns),
      title: "mean per episode",
    },
    {
      key: "tokens",
      label: "tokens",
      number: true,
      value: (row) => row.tokens,
      show: (row) => number(row.tokens, 4),
      title: "mean per episode",
    },
    { key: "status", label: "ended", value: (row) => -(row.statuses.terminated ?? 0), show: (row) => statuses(row.statuses) },
    {
      key: "tool_errors",
      label: "tool errors",
      number: true,
      value: (row) => row.tool_errors,
      show: (row) => number(row.tool_errors),
    },
  ];
}

/** The return of a sample as a link to it: the number itself, so that no colour has to be told apart. */
function dot(run, step, row, value, index) {
  return h(
    "a",
    {
      class: `return ${value > 0 ? "up" : value < 0 ? "down" : "none"}`,
      href: to(episodeParts(run, step, row.rows[index])),
      title: `sample ${row.samples[index]}`,
    },
    number(value, 2),
  );
}

function baseline(run, step, { baseline: row }) {
  return row === null
    ? null
    : h("a", { class: "return", href: to(episodeParts(run, step, row)), title: "greedy baseline" }, "greedy");
}

function statuses(counts) {
  return h(
    "span",
    { class: "statuses" },
    Object.entries(counts).map(([status, count]) => [state(status), String(count)]),
  );
}

/** The beginning of the task's prompt, with the task's id where several tasks ask the same. */
function named(row, again) {
  return [beginning(row.prompt, 90), again.has(row.prompt) && h("span", { class: "muted" }, ` ${beginning(row.task, 40)}`)];
}
