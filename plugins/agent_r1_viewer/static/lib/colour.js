// What tokens can be coloured by, and the scale of each. The colours themselves stand in episode.css, light and dark: one
// hue from pale to strong, or blue above zero and orange below it, all of them under text that keeps its own colour.

import { isNumber, number } from "viewer/lib/format.js";

/** [key, label, what it means, value of a token, kind of scale] */
export const COLOURINGS = [
  ["mask", "action mask", "Sampled by the policy, and so trained; the other tokens were given to it.", null, "mask"],
  ["logprob", "log-prob", "How likely the engine held the token that it sampled.", (t, i) => t.logprob[i], "surprise"],
  ["advantage", "advantage", "What the update credited the token with.", (t, i) => t.advantage[i], "diverging"],
  ["replayed", "both advantages", "Left what the update credited the token with, right what a replay derived.", (t, i) => t.replayed[i], "diverging"],
  ["value", "value", "The return that the critic expected at the token.", (t, i) => t.value[i], "sequential"],
  ["gap", "gap to the learner", "The learner's log-prob less the engine's, before the update.", gap, "diverging"],
  ["version", "weights' version", "Which weights sampled the token.", (t, i) => t.version[i], "sequential"],
].map(([key, label, meaning, value, kind]) => ({ key, label, meaning, value, kind }));

/** The learner's log-prob less the engine's, or null. */
export function gap(tokens, index) {
  const [learner, engine] = [tokens.learner[index], tokens.logprob[index]];
  return isNumber(learner) && isNumber(engine) ? learner - engine : null;
}

/** Why an episode cannot be coloured so; null: it can. */
export function missing(key, episode) {
  const { known } = episode;
  if (key === "advantage" && !known.advantages) return "it was not trained on, so it has no advantages";
  if (key === "replayed" && !known.replayed) return "`agent-r1 replay RUN --step N KEY=VALUE --keep` derives others";
  if (key === "value" && !known.values) return "the run has no critic, or did not record its values";
  if (key === "gap" && !known.learner) return "the learner's log-probs were not recorded for it";
  if (key === "version" && !known.version) return "the run did not record which weights sampled its tokens";
  return null;
}

/** The scale of a colouring over all tokens of an episode: {at(value) -> -1 ... 1 or null, marks: [[place, label]]}. */
export function scale(colouring, segments) {
  if (colouring.kind === "mask") return { at: () => null, marks: [] };
  if (colouring.kind === "surprise") return { at: (value) => (isNumber(value) ? 1 - Math.exp(value) : null), marks: SURPRISE };
  const shown = ["advantage", "replayed"].includes(colouring.key) ? [(t, i) => t.advantage[i], (t, i) => t.replayed[i]] : [colouring.value];
  const values = segments.flatMap(({ tokens }) =>
    tokens.id.flatMap((_, index) => (tokens.mask[index] ? shown.map((value) => value(tokens, index)) : [])).filter(isNumber),
  );
  if (colouring.kind === "diverging") return diverging(values);
  return sequential(values);
}

const SURPRISE = [
  [0, "0 (certain)"],
  [0.5, "−0.69 (1 in 2)"],
  [1, "−∞ (never)"],
];

function diverging(values) {
  const end = round(values.reduce((most, value) => Math.max(most, Math.abs(value)), 0));
  const at = (value) => (isNumber(value) ? (end ? value / end : 0) : null);
  return {
    at,
    marks: end
      ? [
          [-1, number(-end)],
          [0, "0"],
          [1, `+${number(end)}`],
        ]
      : [[0, "0"]],
  };
}

function sequential(values) {
  const low = values.reduce((least, value) => Math.min(least, value), Infinity);
  const high = values.reduce((most, value) => Math.max(most, value), -Infinity);
  const at = (value) => (isNumber(value) ? (high > low ? (value - low) / (high - low) : 0.5) : null);
  if (!values.length) return { at, marks: [] };
  return {
    at,
    marks:
      high > low
        ? [
            [0, number(low)],
            [1, number(high)],
          ]
        : [[0.5, number(low)]],
  };
}

/** The next of 1, 2, 5, 10, ... that is not smaller, so that neighbouring episodes mostly share a scale. */
function round(value) {
  if (!value) return 0;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((end) => end >= value * (1 - 1e-9));
}
