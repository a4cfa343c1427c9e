// Which colouring tokens have, the choice between them, and the scale with its ends in numbers.

import { COLOURINGS, missing } from "viewer/lib/colour.js";
import { fill, h } from "viewer/lib/dom.js";

/** Colourings that can be chosen for an episode; the weights' version only where it varies, a replay's only where one is kept. */
export function choices(episode) {
  const versions = new Set(episode.segments.flatMap(({ tokens }) => tokens.version.filter((one) => one !== null)));
  return COLOURINGS.filter(({ key }) => (key !== "version" || versions.size > 1) && (key !== "replayed" || episode.known.replayed));
}

/** Buttons and scale; `choose(key)` hears of a choice, `show(colouring, scale)` draws one. */
export function legend(episode, choose) {
  const buttons = choices(episode).map(({ key, label, meaning }) => {
    const why = missing(key, episode);
    return h("button", { "data-key": key, disabled: why !== null, title: why ?? meaning, onclick: () => choose(key) }, label);
  });
  const bar = h("div", { class: "scale" });
  const meaning = h("span", { class: "muted" });
  const element = h(
    "div",
    { class: "legend" },
    h("div", { class: "row", role: "group", "aria-label": "Colour of the tokens" }, buttons),
    bar,
    meaning,
  );
  element.show = (colouring, scale) => {
    for (const button of buttons) button.setAttribute("aria-pressed", button.dataset.key === colouring.key);
    fill(bar, colouring.kind === "mask" ? mask() : ramp(colouring, scale));
    fill(meaning, colouring.meaning);
  };
  return element;
}

function mask() {
  return [
    h("span", { class: "sample", "data-colour": "mask" }, h("span", { class: "token sampled" }, "sampled")),
    h("span", { class: "token given" }, "given"),
    h("span", { class: "token control" }, "<control>"),
  ];
}

function ramp(colouring, { marks }) {
  if (!marks.length) return h("span", { class: "muted" }, "no token has a known number");
  const low = colouring.kind === "diverging" ? -1 : 0;
  const labels = marks.map(([at, label]) => {
    const share = marks.length === 1 ? 0.5 : (at - low) / (1 - low);
    return h("span", { class: "number", style: { left: `${100 * share}%`, transform: `translateX(-${100 * share}%)` } }, label);
  });
  return [
    h("div", { class: `ramp ${colouring.kind}` }, h("div", { class: "colours" }), h("div", { class: "labels" }, labels)),
    h("span", { class: "token given" }, "given"),
    h("span", { class: "sample" }, h("span", { class: "token sampled unknown" }, "not known")),
  ];
}
