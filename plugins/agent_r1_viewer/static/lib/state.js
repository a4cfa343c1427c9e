// How a run or an episode stands: a sign, a word and a colour.

import { h } from "viewer/lib/dom.js";

const SIGNS = {
  training: ["▶", "good"],
  finished: ["✓", "muted"],
  interrupted: ["‖", "warn"],
  failed: ["✕", "bad"],
  terminated: ["✓", "muted"],
  truncated: ["…", "warn"],
  unreadable: ["✕", "bad"],
};

/** A badge for a run's state or an episode's status; `sentence` says more. */
export function state(kind, sentence = null) {
  const [sign, tone] = SIGNS[kind] ?? ["·", "muted"];
  return h("span", { class: `badge ${tone}`, title: sentence }, h("span", { "aria-hidden": "true" }, `${sign} `), kind);
}
