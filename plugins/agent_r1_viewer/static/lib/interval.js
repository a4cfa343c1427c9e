// A score with its interval, its number of tasks and where it comes from.

import { h } from "viewer/lib/dom.js";
import { number, score } from "viewer/lib/format.js";

/** 0.789 [0.700, 0.856] as text. */
export function interval({ value, low, high }) {
  return low === null || low === undefined ? score(value) : `${score(value)} [${score(low)}, ${score(high)}]`;
}

/** The tasks of a score: 100, or "71 of 100" where the episodes of the others failed. */
export function count({ n, asked }) {
  return asked ? `${number(n)} of ${number(asked)}` : number(n);
}

/** The best score of a run with the name of the metric, n and step. */
export function best(found) {
  if (!found) return "–";
  const about = `n = ${count(found)}, step ${number(found.step)}`;
  return h(
    "span",
    { title: `${found.metric}, 95 % interval, ${about}` },
    interval(found),
    h("span", { class: "muted" }, ` ${found.metric}`),
  );
}
