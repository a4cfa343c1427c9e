// Why an episode went as it did, in sentences: what a reader wants to know first.

import { h } from "viewer/lib/dom.js";
import { plural } from "viewer/lib/format.js";
import { beginning, visible } from "viewer/lib/visible.js";

const BUDGETS = {
  max_turns: "It ran out of turns before it came to an end.",
  max_tokens: "It ran out of tokens before it came to an end.",
};

// Letters of a gold answer that is not found in a text by chance, as "no" would be.
const TELLING = 4;

/** Sentences about an episode, each with the turns it speaks of: [{tone, text, turns: [index]}]. */
export function verdict(episode) {
  const { status, reason, turns } = episode;
  const found = [];
  const say = (tone, text, of = []) => found.push({ tone, text, turns: of.map((turn) => turn.index) });
  if (status === "failed")
    say(
      "bad",
      `The episode failed and was dropped; nothing was trained on it: ${reason ? beginning(reason, 1000) : "no reason was recorded"}`,
    );
  if (status === "truncated") say("warn", BUDGETS[reason] ?? `It was cut: ${visible(reason)}.`);
  answered(episode, say);
  read(episode, say);
  const broken = turns.filter((turn) => turn.errors.length);
  if (broken.length)
    say("bad", `${plural(broken.length, "action")} could not be read: “${beginning(broken[0].errors[0], 160)}”`, broken);
  const failing = turns.filter((turn) => turn.calls.some((call) => call.error !== null));
  const errors = failing.flatMap((turn) => turn.calls.filter((call) => call.error !== null));
  if (errors.length)
    say("bad", `${plural(errors.length, "tool call")} ended in an error: “${beginning(errors[0].error, 160)}”`, failing);
  const cut = turns.filter((turn) => turn.finish === "length");
  if (cut.length) say("warn", `${plural(cut.length, "action")} cut by a token budget.`, cut);
  return found;
}

function answered({ status, reason, answer, task, turns }, say) {
  const success = turns.filter((turn) => turn.purpose === "action").at(-1)?.success ?? null;
  if (success !== null)
    say(
      success ? "good" : "bad",
      success ? "The environment says that the goal was reached." : "The environment says that the goal was not reached.",
    );
  if (status !== "terminated" || answer !== null || !task.answers.length) return;
  say("bad", `It ended without an answer${reason ? ` (${visible(reason)})` : ""}.`);
}

/** Of an episode whose answer is wrong: whether the gold answer stood in what the policy read. */
function read({ status, answer, task, rewards, turns }, say) {
  const wrong = "exact_match" in rewards ? rewards.exact_match === 0 : answer === null;
  const gold = task.answers.map((one) => one.toLowerCase()).filter((one) => one.length >= TELLING);
  const whole = turns.every((turn) => turn.observation?.every((message) => !message.cut));
  if (status === "failed" || !wrong || !gold.length || gold.length < task.answers.length || !whole) return;
  const holds = (turn) => turn.observation.some(({ content }) => gold.some((one) => content.toLowerCase().includes(one)));
  const found = turns.slice(1).filter(holds).slice(0, 1);
  if (found.length) say("muted", "The policy read the gold answer, first before", found);
  else say("muted", "Nothing that the policy read after the question holds the gold answer.");
}

/** The verdict as a list; `goTo(turn)` opens the turns that a sentence speaks of. */
export function verdictList(episode, goTo) {
  const items = verdict(episode).map(({ tone, text, turns }) =>
    h(
      "li",
      { class: tone },
      text,
      turns.slice(0, 8).map((turn) => [" ", h("button", { onclick: () => goTo(turn) }, `turn ${turn + 1}`)]),
    ),
  );
  return items.length ? h("ul", { class: "verdict" }, items) : null;
}
