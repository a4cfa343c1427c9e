// A part of a page under its heading, folded at first unless it is among the few that a reader wants at once.

import { h } from "viewer/lib/dom.js";

/**
 * A panel called `name`; `view.toggled` holds the names of those that the reader folded or unfolded, and `keep()` hears of a change.
 * `forced`: it is open for now, whatever the reader chose.
 */
export function fold(name, { view, keep, open = false, forced = false, ...attributes }, summary, body) {
  const element = h(
    "details",
    { class: "panel fold", open: forced || open !== view.toggled.has(name), ...attributes },
    h("summary", {}, summary),
    body,
  );
  element.addEventListener("toggle", () => {
    if (forced) return;
    const changed = element.open === open ? view.toggled.delete(name) : !view.toggled.has(name) && view.toggled.add(name);
    if (changed) keep();
  });
  return element;
}

/** Unfold all parts of a page, or fold them if all are open. */
export function unfoldAll(place) {
  const parts = [...place.querySelectorAll("details.fold")];
  const open = parts.some((part) => !part.open);
  parts.forEach((part) => (part.open = open));
}
