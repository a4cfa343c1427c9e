// Several runs as a table: how each stands, and a column for every setting in which they differ.

import { settingsOf } from "viewer/lib/configuration.js";
import { h } from "viewer/lib/dom.js";
import { isNumber, number, score, seconds } from "viewer/lib/format.js";
import { best } from "viewer/lib/interval.js";
import { swatch } from "viewer/lib/palette.js";
import { to } from "viewer/lib/router.js";
import { problems } from "viewer/lib/run_head.js";
import { membersOf } from "viewer/lib/seeds.js";
import { onChange, slot } from "viewer/lib/slot.js";
import { state } from "viewer/lib/state.js";
import { table } from "viewer/lib/table.js";

// The row has the name already.
const NAMED = new Set(["run.name", "run.dir"]);

/**
 * `lines` are runs, or those that seeds.js joins. After `update(data)` the element shows how they stand now; the table keeps its
 * order and its place as long as its columns are the same.
 */
export function comparedRuns(lines) {
  const all = lines.flatMap(membersOf);
  let list = null;
  const place = slot((differing) => (list = table({ label: "Compared runs", columns: columnsOf(differing), rows: [] })));
  const unread = slot(() => all.map((run) => problems(run.detail)));
  const element = h("div", {}, h("h1", {}, `Compare ${all.length} runs`), place, unread);
  element.update = onChange((data) => {
    const { flat, differing } = settingsOf(lines);
    place.update(differing.filter((key) => !NAMED.has(key)));
    list.update(lines.map((run, index) => ({ run, index, settings: flat[index], all: membersOf(run) })));
    unread.update(data);
  });
  return element;
}

function columnsOf(differing) {
  return [
    { key: "run", label: "run", value: ({ run }) => run.label, show: nameOf, width: "140px" },
    { key: "state", label: "state", value: (row) => each(row, (one) => one.state).join(), show: states },
    { key: "best", label: "best score", number: true, value: (row) => mean(scores(row)), show: bestOf },
    {
      key: "step",
      label: "steps",
      number: true,
      value: (row) => Math.min(...summaries(row).map((one) => one.step ?? 0)),
      show: (row) => each(row, (one) => number(one.step)).join(", "),
    },
    {
      key: "seconds",
      label: "time",
      number: true,
      value: (row) => mean(summaries(row).map((one) => one.seconds)),
      show: (row) => seconds(mean(summaries(row).map((one) => one.seconds))),
    },
    ...differing.map((key) => ({ key, label: key, value: ({ settings }) => valueOf(settings.get(key)), width: "70px" })),
  ];
}

function summaries({ all }) {
  return all.map((run) => run.detail.summary);
}

function each(row, of) {
  return [...new Set(summaries(row).map(of))];
}

function scores(row) {
  return summaries(row).map((one) => one.best?.value);
}

function states(row) {
  const kinds = new Map(summaries(row).map((summary) => [summary.state ?? "unreadable", summary.sentence]));
  return [...kinds].map(([kind, sentence]) => state(kind, sentence));
}

/** Of several seeds: the mean of their best scores, the lowest and the highest. */
function bestOf(row) {
  const known = scores(row).filter(isNumber);
  if (row.all.length === 1 || !known.length) return best(summaries(row)[0].best);
  const { metric } = summaries(row).find((one) => one.best).best;
  const range = `${score(mean(known))} (${score(Math.min(...known))} to ${score(Math.max(...known))})`;
  return h("span", { title: `mean, lowest and highest of ${known.length}` }, range, h("span", { class: "muted" }, ` ${metric}`));
}

function nameOf({ run, index, all }) {
  const link = (one, label) => h("a", { href: to(["runs", one.id]) }, label);
  if (all.length === 1) return [swatch(index), link(run, run.label)];
  return [swatch(index), run.label, h("div", {}, all.map((one, place) => [place > 0 && ", ", link(one, one.label)]))];
}

/** A setting as it sorts: numbers by size. */
function valueOf(text) {
  return text !== undefined && text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
}

function mean(values) {
  const known = values.filter(isNumber);
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
}
