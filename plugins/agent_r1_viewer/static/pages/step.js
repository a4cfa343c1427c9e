// A training step: its groups in a table, and the episodes that were dropped.

import { get } from "viewer/lib/api.js";
import { fill, h } from "viewer/lib/dom.js";
import { plural, seconds } from "viewer/lib/format.js";
import { groupColumns } from "viewer/lib/group_columns.js";
import { carrier, crumbs, episodeParts, groupParts, neighbour, stepParts } from "viewer/lib/places.js";
import { refresher } from "viewer/lib/refresh.js";
import { remember, to } from "viewer/lib/router.js";
import { slot } from "viewer/lib/slot.js";
import { moveRow, table } from "viewer/lib/table.js";
import { beginning } from "viewer/lib/visible.js";

export async function show(place, { parts, query }) {
  const run = parts[1];
  let found = await get(parts);
  const { step } = found;
  const sort = sortOf(query.sort);
  const address = () => ({ sort: sortText(sort.chosen) });
  let links;
  let list;
  const nav = slot(places);
  const body = slot(({ groups, dropped }) => {
    list = groups.length ? groupTable(groups) : h("p", { class: "empty" }, "This step has no groups.");
    return [h("p", { class: "muted" }, summary(groups, dropped)), list, droppedTable(run, step, dropped)];
  });
  // A run that trains on gets a next step; a run that was resumed may have played this one again.
  const read = refresher(async () => {
    found = await get(parts);
    draw();
  });
  fill(place, nav, h("h1", {}, `Step ${step}`), body);
  draw();
  const keys = {
    n: ["next step", () => links.visit(found.next === null ? null : stepParts(run, found.next))],
    p: ["step before", () => links.visit(found.previous === null ? null : stepParts(run, found.previous))],
    j: ["next group", () => moveRow(list, 1)],
    k: ["group before", () => moveRow(list, -1)],
  };
  return { title: `step ${step}, ${run}`, crumbs: crumbs(run, [`step ${step}`, to(parts)]), runs: [run], changed, keys };

  function changed({ what }) {
    if (what === "episodes") read();
  }

  function draw() {
    const { previous, next, groups, dropped } = found;
    nav.update({ previous, next });
    body.update({ groups, dropped });
  }

  function groupTable(groups) {
    return table({
      label: "Groups",
      columns: groupColumns(run, step, groups),
      rows: groups,
      sort: sort.chosen,
      onsort: (chosen) => {
        sort.chosen = chosen;
        remember(parts, address());
        links.update();
      },
      link: (row) => to(groupParts(run, step, row.group)),
    });
  }

  function places({ previous, next }) {
    links = carrier(address);
    const link = (one, label, key) => neighbour(links, one === null ? null : stepParts(run, one), label, key, `${label} step`);
    return h(
      "nav",
      { class: "row places", "aria-label": "Other steps" },
      h(
        "span",
        { class: "row end" },
        link(previous, "previous", "p"),
        h("span", { class: "number" }, `step ${step}`),
        link(next, "next", "n"),
      ),
    );
  }
}

function summary(groups, dropped) {
  const flat = groups.filter((one) => one.returns.length > 1 && one.std === 0).length;
  const without = flat ? `; ${flat} of them without spread, which a group baseline learns nothing from` : "";
  return `${plural(groups.length, "group")}${without}${dropped.length ? `; ${plural(dropped.length, "episode")} dropped` : ""}.`;
}

function droppedTable(run, step, dropped) {
  if (!dropped.length) return null;
  const rows = table({
    label: "Dropped episodes",
    columns: [
      { key: "task", label: "task", value: (row) => row.task, show: (row) => beginning(row.task, 80) },
      { key: "sample", label: "sample", number: true, value: (row) => row.sample },
      { key: "reason", label: "reason", value: (row) => row.reason, show: (row) => beginning(row.reason, 300) },
      { key: "turns", label: "turns", number: true, value: (row) => row.turns },
      { key: "seconds", label: "time", number: true, value: (row) => row.seconds, show: (row) => seconds(row.seconds) },
    ],
    rows: dropped,
    link: (row) => to(episodeParts(run, step, row.row)),
  });
  return h(
    "section",
    {},
    h("h2", {}, "Dropped"),
    h(
      "p",
      { class: "muted" },
      "These episodes failed, were played again as often as the run allows, and were dropped; nothing was trained on them.",
    ),
    rows,
  );
}

function sortOf(text) {
  const [key, way] = (text ?? "").split(" ");
  return { chosen: key && (way === "up" || way === "down") ? [key, way] : null };
}

function sortText(sort) {
  return sort ? sort.join(" ") : null;
}
