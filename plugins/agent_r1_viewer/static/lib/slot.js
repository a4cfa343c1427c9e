// A part of a page that news leave alone unless they change it: what was typed, chosen and scrolled in it stays.

import { fill, h } from "viewer/lib/dom.js";

/** An element that holds `draw(data)` after `update(data)`, drawn anew only where the data has changed. */
export function slot(draw) {
  const element = h("div");
  element.update = onChange((data) => fill(element, draw(data)));
  return element;
}

/** A function that calls `act(data)` only where the data has changed since its last call. */
export function onChange(act) {
  let shown = null;
  return (data) => {
    const now = JSON.stringify(data);
    if (now === shown) return;
    shown = now;
    act(data);
  };
}
