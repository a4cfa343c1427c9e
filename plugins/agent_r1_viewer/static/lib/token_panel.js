// Everything known about one token, in a panel that keeps its size.

import { gap } from "viewer/lib/colour.js";
import { fill, h } from "viewer/lib/dom.js";
import { isNumber, number, outOf } from "viewer/lib/format.js";
import { signed } from "viewer/lib/rewards.js";
import { visibleToken } from "viewer/lib/visible.js";

const KINDS = { text: "text", control: "control token", part: "piece of a character" };
const HINT = "Point at a token, tap it, or go through them with the arrow keys.";

/** A panel for the tokens of an episode; the element has `show({segment, index} | null)`. */
export function tokenPanel(episode) {
  const text = h("p", { class: "shown-token", "aria-live": "polite" });
  const facts = h("dl", { class: "facts" });
  const element = h("aside", { class: "panel token-panel", "aria-label": "The token" }, text, facts);
  element.show = (token) => {
    const tokens = token && episode.segments[token.segment].tokens;
    element.classList.toggle("empty", !token);
    fill(text, token ? h("bdi", { class: "mono" }, spelled(tokens, token.index)) : h("span", { class: "muted" }, HINT));
    fill(
      facts,
      rows(episode, token, tokens).map(([name, value]) => [h("dt", {}, name), h("dd", { "data-name": name }, value)]),
    );
  };
  element.show(null);
  return element;
}

/** The text of a token on one line. */
function spelled(tokens, index) {
  return visibleToken(tokens.text[index] ?? "").replaceAll("\n", "");
}

function rows(episode, token, tokens) {
  const index = token?.index;
  const sampled = token !== null && tokens.mask[index] === 1;
  const turn = token && turnAt(episode, token);
  const of = (name) => (sampled ? exact(tokens[name][index]) : "–");
  return [
    ["id", token ? exact(tokens.id[index]) : "–"],
    ["kind", token ? KINDS[tokens.kind[index]] : "–"],
    ["place", token ? where(episode, token) : "–"],
    ["turn", turn ? String(turn.index) : "–"],
    ["action mask", token ? (sampled ? "1, sampled" : "0, given") : "–"],
    ["probability", sampled && isNumber(tokens.logprob[index]) ? number(Math.exp(tokens.logprob[index]), 4) : "–"],
    ["log-prob", of("logprob")],
    ["learner's log-prob", of("learner")],
    ["gap", sampled ? exact(gap(tokens, index)) : "–"],
    ["advantage", of("advantage")],
    ...(episode.known.replayed ? [[`by ${episode.known.replayed}`, of("replayed")]] : []),
    ["value", of("value")],
    ["version", of("version")],
    ["reward here", turn && index === turn.stop - 1 ? reward(episode, turn) : "–"],
  ];
}

/** A number to be read, with the exact one in its `value`. */
function exact(value) {
  return value === null || value === undefined
    ? "–"
    : h("data", { value: String(value), title: String(value) }, number(value, 5));
}

function where(episode, { segment, index }) {
  const at = outOf(index, episode.segments[segment].length);
  return episode.segments.length > 1 ? `${at}, segment ${segment}` : at;
}

/** The turn whose action the token belongs to. */
function turnAt(episode, { segment, index }) {
  return episode.turns.find((turn) => turn.segment === segment && turn.start <= index && index < turn.stop) ?? null;
}

function reward(episode, turn) {
  const outcome = turn === episode.turns.at(-1) ? `outcome ${signed(episode.reward)}` : null;
  const process = Object.keys(turn.rewards).length || turn.reward ? `process ${signed(turn.reward)}` : null;
  return [process, outcome].filter(Boolean).join(", ") || "–";
}
