// A hit of a search: which episode, how it ended, and the text around what was found.

import { h } from "viewer/lib/dom.js";
import { number, plural } from "viewer/lib/format.js";
import { episodeParts } from "viewer/lib/places.js";
import { to } from "viewer/lib/router.js";
import { state } from "viewer/lib/state.js";
import { visible } from "viewer/lib/visible.js";

export function hitItem(run, hit) {
  const name = hit.baseline ? "greedy baseline" : `sample ${hit.sample}`;
  return h(
    "li",
    {},
    h(
      "div",
      { class: "row" },
      h("a", { href: to(episodeParts(run, hit.step, hit.row)) }, `step ${hit.step}, episode ${hit.row}`),
      state(hit.status, hit.reason || null),
      h("span", { class: "number" }, `return ${number(hit.return)}`),
      h(
        "span",
        { class: "muted" },
        plural(hit.turns, "turn"),
        hit.tool_errors ? `, ${plural(hit.tool_errors, "tool error")}` : "",
        `, ${name} of `,
        h("bdi", {}, hit.task),
      ),
    ),
    hit.snippet && snippet(hit.snippet),
  );
}

function snippet([before, match, after]) {
  const line = (text) => visible(text).replace(/\s+/g, " ");
  return h("p", { class: "snippet mono" }, h("bdi", {}, "…", line(before), h("mark", {}, line(match)), line(after), "…"));
}
