// The configuration of runs: where each value comes from, and where several differ.

import { fill, h } from "viewer/lib/dom.js";
import { plural } from "viewer/lib/format.js";
import { membersOf } from "viewer/lib/seeds.js";
import { flatten } from "viewer/lib/settings.js";

/** How many settings there are, or of several runs, how many differ. */
export function configurationTitle(runs) {
  const { keys, differing } = settingsOf(runs);
  if (runs.length === 1) return ["Configuration: ", h("span", { class: "muted" }, plural(keys.length, "value"))];
  const many = differing.length === 1 ? "1 value differs" : `${differing.length || "no"} values differ`;
  return ["Configuration: ", h("span", { class: "muted" }, many)];
}

/** One run's configuration with the source of each value, or that of several side by side, differences first. */
export function configuration(runs) {
  const { flat, keys, differing } = settingsOf(runs);
  if (!keys.length) return null;
  if (runs.length === 1) return listing(keys, flat, runs);
  return [
    differing.length > 0 && values(differing, flat, runs),
    h("details", {}, h("summary", {}, `All ${keys.length} values`), listing(keys, flat, runs)),
  ];
}

/** The settings of runs: {flat: a map from key to text for each, keys: of all, differing: those with several values}. */
export function settingsOf(runs) {
  const each = runs.map((run) => membersOf(run).map(({ detail }) => flatten(detail.config ?? {})));
  const flat = each.map(together);
  const keys = [...new Set(flat.flatMap((one) => [...one.keys()]))];
  const differing = keys.filter((key) => new Set(each.flat().map((one) => one.get(key))).size > 1);
  return { flat, keys, differing };
}

/** Of runs that are drawn as one: each value once. */
function together(maps) {
  if (maps.length === 1) return maps[0];
  const keys = [...new Set(maps.flatMap((one) => [...one.keys()]))];
  return new Map(keys.map((key) => [key, [...new Set(maps.map((one) => one.get(key) ?? "–"))].join(", ")]));
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

/**
 * Where a value comes from; a list or a section may have one source for all that it holds, or one for each part, and
 * defaults are not noted.
 */
function source(run, key) {
  const sources = Object.fromEntries(
    Object.entries(run.detail.sources).map(([name, place]) => [name.replace(/\[(\d+)\]/g, ".$1"), place]),
  );
  const within = Object.keys(sources).filter((name) => name.startsWith(`${key}.`));
  if (within.length && !sources[key]) return [...new Set(within.map((name) => sources[name]))].join("; ");
  const parts = key.split(".");
  for (let length = parts.length; length > 0; length -= 1) {
    const found = sources[parts.slice(0, length).join(".")];
    if (found) return found;
  }
  return Object.keys(sources).length ? "default" : "";
}
