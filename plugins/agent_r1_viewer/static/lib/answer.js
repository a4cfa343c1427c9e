// The answer of an episode and the gold answers of its task.

import { h } from "viewer/lib/dom.js";
import { folded } from "viewer/lib/folded.js";

const FOLD = { letters: 200, lines: 3 };

/** The answer that an episode gave, with a sign where exact match says whether it is right. */
export function answer({ answer: given, rewards }) {
  if (given === null) return h("em", { class: "bad" }, "none");
  const right = "exact_match" in rewards ? rewards.exact_match === 1 : null;
  const sign = right !== null && h("span", { "aria-label": right ? "right" : "wrong" }, right ? "✓ " : "✕ ");
  return h("bdi", { class: `answer ${right === null ? "" : right ? "good" : "bad"}` }, sign, folded(given, FOLD));
}

/** The gold answers of a task; null where it has none. */
export function goldAnswers({ answers }) {
  if (!answers.length) return null;
  const label = answers.length === 1 ? "gold answer " : "gold answers ";
  return h(
    "span",
    {},
    label,
    answers.map((one, index) => [index ? ", " : "", h("bdi", { class: "answer" }, folded(one, FOLD))]),
  );
}
