// One sample of a group as a column: how it ended, what it earned, and its texts turn by turn.

import { answer } from "viewer/lib/answer.js";
import { h } from "viewer/lib/dom.js";
import { folded, wholeText } from "viewer/lib/folded.js";
import { number, plural, seconds, turnsAndSummaries } from "viewer/lib/format.js";
import { components, process, signed, turnReward } from "viewer/lib/rewards.js";
import { state } from "viewer/lib/state.js";
import { verdictList } from "viewer/lib/verdict.js";
import { beginning } from "viewer/lib/visible.js";

const FOLD = { letters: 900, lines: 16 };

/** `at` is where the samples part ({piece, offset} or null), `parts` the address of the episode, to which `links` lead. */
export function sampleColumn(sample, task, pieces, at, links, parts) {
  const turns = pieces.filter((piece) => piece.kind === "action");
  const text = (content, cut, part, from = 0) => {
    const whole = async () => (await wholeText(parts, {}, part)).slice(from);
    return folded(content.slice(from), { ...FOLD, cut: cut ? cut - from : null, whole });
  };
  return h(
    "article",
    { class: `sample-column ${sample.baseline ? "baseline" : ""}`, "data-row": sample.row },
    h(
      "header",
      {},
      head(sample, task, (name) => links.link(parts, {}, name)),
    ),
    turns.map(({ turn }) => cell(sample, pieces, turn, at, text)),
    end(pieces, at, text),
  );
}

function head(sample, task, link) {
  const outcome = components(sample.rewards);
  const paid = sample.turns.filter((turn) => Object.keys(turn.rewards ?? {}).length || turn.reward);
  const turns = sample.turns.map((turn, index) => ({ index, finish: "stop", ...turn }));
  return [
    h(
      "h2",
      {},
      link(sample.baseline ? "greedy baseline" : `sample ${sample.sample}${sample.player ? `, player ${sample.player}` : ""}`),
      h("span", { class: "number", title: "return" }, number(sample.return, 4)),
    ),
    h(
      "p",
      {},
      state(sample.status, sample.reason || null),
      h(
        "span",
        { class: "muted" },
        ` ${turnsAndSummaries(sample.turns)}, ${plural(sample.action_tokens, "sampled token")}, ${seconds(sample.seconds)}`,
      ),
    ),
    h("p", {}, "answer ", answer(sample)),
    h(
      "p",
      { class: "muted" },
      `outcome ${number(sample.reward, 4)}${outcome ? ` (${outcome})` : ""}`,
      paid.length ? `, process ${signed(process(sample.turns))}` : "",
    ),
    verdictList({ ...sample, task, turns }),
  ];
}

/** A turn: what the tools answered, folded, and the action with the part that all samples share muted. */
function cell(sample, pieces, turn, at, text) {
  const action = pieces.findIndex((piece) => piece.kind === "action" && piece.turn === turn);
  const about = sample.turns[turn];
  return h(
    "section",
    { class: "cell", "data-turn": turn },
    h(
      "h3",
      { class: "row" },
      about.purpose === "action" ? `turn ${turn}` : `turn ${turn}: ${about.purpose}`,
      h("span", { class: "end" }, turnReward({ ...about, index: turn })),
    ),
    read(pieces[action - 1], action - 1, at, text),
    h("div", { class: "did" }, parted(pieces[action], action, at, text)),
    (about.errors ?? []).map((error) => h("p", { class: "problem" }, beginning(error, 300))),
    (about.calls ?? [])
      .filter((call) => call.error !== null)
      .map((call) => h("p", { class: "problem" }, `${call.name}: ${beginning(call.error, 300)}`)),
  );
}

/** The messages before an action; the task itself stands above all columns. */
function read({ kind, messages, turn }, piece, at, text) {
  if (turn === 0 || !messages.length) return partsHere(piece, at) && mark("the samples read different texts from here on");
  return [
    partsHere(piece, at) && mark("the samples read different answers from here on"),
    h(
      "details",
      { class: "read" },
      h("summary", {}, messages.map((one) => `${one.name ?? one.role}: ${beginning(one.content, 60)}`).join(" · ")),
      messages.map((one, index) =>
        text(one.content, one.cut, kind === "closing" ? `closing.${index}` : `turns.${turn}.observation.${index}`),
      ),
    ),
  ];
}

function parted({ text: said, cut, turn }, piece, at, text) {
  const part = `turns.${turn}.text`;
  if (said === "") return h("p", { class: "muted" }, "(an action without text)");
  if (at === null || piece < at.piece) return h("div", { class: "shared" }, text(said, cut, part));
  if (!partsHere(piece, at)) return text(said, cut, part);
  return [
    at.offset > 0 && h("pre", { class: "text shared" }, said.slice(0, at.offset)),
    mark("the samples part here"),
    h("div", { class: "rest" }, text(said, cut, part, at.offset)),
  ];
}

function end(pieces, at, text) {
  const piece = pieces.findIndex((one) => one.kind === "closing");
  if (piece < 0) return null;
  return h("section", { class: "cell" }, h("h3", {}, "after the last action"), read(pieces[piece], piece, at, text));
}

function partsHere(piece, at) {
  return at !== null && at.piece === piece;
}

function mark(title) {
  return h("p", { class: "parts", title }, h("span", {}, "≠ parts here"));
}
