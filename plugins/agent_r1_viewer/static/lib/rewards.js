// Rewards in words: what an episode got, of which components, and where.

import { h } from "viewer/lib/dom.js";
import { number } from "viewer/lib/format.js";

/** "exact_match 1 · format 0.5": components as they are before weighting. */
export function components(rewards) {
  return Object.entries(rewards ?? {})
    .map(([name, value]) => `${name} ${number(value)}`)
    .join(" · ");
}

/** The sum of the process rewards of an episode's turns, as the run weighted them. */
export function process(turns) {
  return turns.reduce((sum, turn) => sum + Number(turn.reward), 0);
}

/** A turn's reward as a mark: the weighted sum, its components in the title; null where nothing scores the turn. */
export function turnReward(turn) {
  if (!Object.keys(turn.rewards ?? {}).length && !turn.reward) return null;
  const title = `process reward of turn ${turn.index}, weighted; before weighting: ${components(turn.rewards) || "none"}`;
  return h("span", { class: `mark ${sign(turn.reward)}`, title }, `process reward ${signed(turn.reward)}`);
}

/** +0.5, −1, 0. */
export function signed(value) {
  return typeof value === "number" && value > 0 ? `+${number(value)}` : number(value).replace("-", "−");
}

export function sign(value) {
  return value > 0 ? "up" : value < 0 ? "down" : "none";
}
