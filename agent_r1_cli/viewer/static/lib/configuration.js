// The configuration of runs: where each value comes from, and where several differ.

import { fill, h } from "viewer/lib/dom.js";
import { plural } from "viewer/lib/format.js";

/** One run's configuration with the source of each value, or that of several side by side, differences first. */
export function configuration(runs) {
  const flat = runs.map((run) => flatten(run.detail.config ?? {}));
  const keys = [...new Set(flat.flatMap((one) => [...one.keys()]))];
  const differing = keys.filter((key) => new Set(flat.map((one) => one.get(key))).size > 1);
  if (runs.length === 1)
    return h(
      "details",
      { class: "panel", "data-part": "configuration", open: true },
      h("summary", {}, "Configuration"),
      listing(keys, flat, runs),
    );
  const heading = differing.length
    ? `Configuration: ${plural(differing.length, "value")} differ${differing.length === 1 ? "s" : ""}`
    : "Configuration: no value differs";
  return h(
    "section",
    { class: "panel", "data-part": "configuration" },
    h("h2", {}, heading),
    differing.length > 0 && values(differing, flat, runs),
    h("details", {}, h("summary", {}, `All ${keys.length} values`), listing(keys, flat, runs)),
  );
}

/** Nested settings as "training.steps" -> the value's text. */
function flatten(config, prefix = "") {
  const flat = new Map();
  for (const [key, value] of Object.entries(config)) {
    const name = prefix + key;
    if (holdsMore(value)) {
      for (const [inner, text] of flatten(value, `${name}.`)) flat.set(inner, text);
    } else flat.set(name, typeof value === "string" ? value : JSON.stringify(value));
  }
  return flat;
}

/** Sections and lists of sections go on; a list of plain values is one value. */
function holdsMore(value) {
  if (value === null || typeof value !== "object" || !Object.keys(value).length) return false;
  return !Array.isArray(value) || value.some((one) => one !== null && typeof one === "object");
}

function listing(keys, flat, runs) {
  const place = h("div");
  const filter = h("input", {
    type: "search",
    placeholder: "key, value or source",
    "aria-label": "Filter the configuration",
  });
  const draw = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const text = (key) =>
      [key, ...flat.map((one) => one.get(key)), ...runs.map((run) => source(run, key))].join(" ").toLowerCase();
    fill(
      place,
      values(
        keys.filter((key) => words.every((word) => text(key).includes(word))),
        flat,
        runs,
      ),
    );
  };
  filter.addEventListener("input", draw);
  draw();
  return [h("p", {}, filter), place];
}

function values(keys, flat, runs) {
  const single = runs.length === 1;
  const heads = single ? ["key", "value", "from"] : ["key", ...runs.map((run) => run.label)];
  const row = (key) =>
    h(
      "tr",
      {},
      h("td", { class: "mono" }, key),
      flat.map((one, index) =>
        h("td", { class: "mono value", title: single ? null : source(runs[index], key) }, one.get(key) ?? "–"),
      ),
      single && h("td", { class: "muted" }, source(runs[0], key)),
    );
  return h(
    "div",
    { class: "table scrolls" },
    h(
      "table",
      { class: "settings" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          heads.map((label) => h("th", { scope: "col" }, label)),
        ),
      ),
      h("tbody", {}, keys.map(row)),
    ),
  );
}

/** Where a value comes from; a list or a section may have one source for all that it holds, and defaults are not noted. */
function source(run, key) {
  const { sources } = run.detail;
  const parts = key.split(".");
  for (let length = parts.length; length > 0; length -= 1) {
    const found = sources[parts.slice(0, length).join(".")];
    if (found) return found;
  }
  return Object.keys(sources).length ? "default" : "";
}
