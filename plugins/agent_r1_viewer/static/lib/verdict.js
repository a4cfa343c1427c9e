// Why an episode went as it did, in sentences: what a reader wants to know first.

import { h } from "viewer/lib/dom.js";
import { plural } from "viewer/lib/format.js";
import { beginning } from "viewer/lib/visible.js";

const BUDGETS = {
  max_turns: "It ran out of turns before it came to an end.",
  max_tokens: "It ran out of tokens before it came to an end.",
};

// Letters of a gold answer that is not found in a text by chance, as "no" would be.
const TELLING = 4;
// Turns that a sentence names.
const NAMED = 8;

/** Sentences about an episode: [{tone, parts: [text or {turn}]}]. */
function verdict(episode) {
  const { status, reason, turns } = episode;
  const found = [];
  const say = (tone, ...parts) => found.push({ tone, parts: parts.flat(Infinity) });
  if (status === "failed")
    say(
      "bad",
      `The episode failed and was dropped; nothing was trained on it: ${reason ? beginning(reason, 1000) : "no reason was recorded"}`,
    );
  if (status === "truncated") say("warn", BUDGETS[reason] ?? `It was cut: ${reason || "no reason was recorded"}.`);
  answered(episode, say);
  read(episode, say);
  const broken = turns.filter((turn) => turn.errors.length);
  const reasons = broken.flatMap((turn) => turn.errors);
  if (broken.length) say("bad", `${plural(broken.length, "action")} could not be read`, first(broken, reasons));
  const failing = turns.filter((turn) => turn.calls.some((call) => call.error !== null));
  const errors = failing.flatMap((turn) => turn.calls.map((call) => call.error)).filter((error) => error !== null);
  if (failing.length) say("bad", `${plural(errors.length, "tool call")} ended in an error`, first(failing, errors));
  const cut = turns.filter((turn) => turn.finish === "length");
  if (cut.length) say("warn", `${plural(cut.length, "action")} ${cut.length === 1 ? "was" : "were"} cut by a token budget, in `, named(cut), ".");
  return found;
}

/** The first of some reasons with its turn, how many differ, and where the others are. */
function first([turn, ...others], reasons) {
  const kinds = new Set(reasons).size;
  return [
    kinds > 1 ? `, for ${kinds} different reasons` : "",
    others.length ? ", first in " : ", in ",
    { turn: turn.index },
    `: “${beginning(reasons[0], 160)}”`,
    others.length ? ["; then in ", named(others)] : "",
  ];
}

function named(turns) {
  const links = turns.slice(0, NAMED).map(({ index }, place) => [place ? ", " : "", { turn: index }]);
  return [links, turns.length > NAMED ? ` and ${turns.length - NAMED} more` : ""];
}

function answered({ status, reason, answer, task, turns }, say) {
  const success = turns.filter((turn) => turn.purpose === "action").at(-1)?.success ?? null;
  if (success !== null)
    say(
      success ? "good" : "bad",
      success ? "The environment says that the goal was reached." : "The environment says that the goal was not reached.",
    );
  if (status !== "terminated" || answer !== null || !task.answers.length) return;
  say("bad", `It ended without an answer${reason ? ` (${reason})` : ""}.`);
}

/** Of an episode whose answer is wrong: whether the gold answer stood in what the policy read. */
function read({ status, answer, task, rewards, turns }, say) {
  const wrong = "exact_match" in rewards ? rewards.exact_match === 0 : answer === null;
  const gold = task.answers.map((one) => one.toLowerCase()).filter((one) => one.length >= TELLING);
  const whole = turns.every((turn) => turn.observation?.every((message) => !message.cut));
  if (status === "failed" || !wrong || !gold.length || gold.length < task.answers.length || !whole) return;
  const holds = (turn) => turn.observation.some(({ content }) => gold.some((one) => content.toLowerCase().includes(one)));
  const found = turns.slice(1).find(holds);
  if (found) say("muted", "The policy had read the gold answer before ", { turn: found.index }, ".");
  else say("muted", "Nothing that the policy read after the question holds the gold answer.");
}

/** The verdict as a list; `goTo(turn)` opens the turns that a sentence names, without it they are text. */
export function verdictList(episode, goTo = null) {
  const shown = ({ turn }) => (goTo ? h("button", { onclick: () => goTo(turn) }, `turn ${turn}`) : `turn ${turn}`);
  const items = verdict(episode).map(({ tone, parts }) =>
    h(
      "li",
      { class: tone },
      parts.map((part) => (typeof part === "string" ? part : shown(part))),
    ),
  );
  return items.length ? h("ul", { class: "verdict" }, items) : null;
}
