// What became of questions from the first evaluation to the last.

import { isNumber } from "viewer/lib/format.js";

export const CHANGES = {
  learnt: ["↗", "wrong at first, right at last"],
  forgotten: ["↘", "right at first, wrong at last"],
  right: ["=", "right at first and at last"],
  wrong: ["=", "wrong at first and at last"],
};

/**
 * How a matrix of scores is read: {share(value), change(row)}. A score counts as right from the middle of its range on: 0 to 1,
 * or the lowest to the highest that occurs where it leaves that.
 */
export function reading(cells) {
  const known = cells.flat().filter(isNumber);
  const low = known.reduce((a, b) => Math.min(a, b), 0);
  const high = known.reduce((a, b) => Math.max(a, b), low < 0 ? low : 1);
  const share = (value) => (high > low ? (value - low) / (high - low) : 1);
  const isRight = (value) => share(value) >= 0.5;
  return {
    share,
    change(row) {
      const scores = row.filter(isNumber);
      if (!scores.length) return null;
      const [first, last] = [isRight(scores[0]), isRight(scores.at(-1))];
      return first === last ? (last ? "right" : "wrong") : last ? "learnt" : "forgotten";
    },
  };
}
