// Where an episode stands: the other samples of its group with their returns, and its neighbours in the step and in time.

import { ApiError, get } from "viewer/lib/api.js";
import { fill, h } from "viewer/lib/dom.js";
import { number } from "viewer/lib/format.js";
import { carrier, episodeParts, groupParts, neighbour, stepParts } from "viewer/lib/places.js";

/** {element, keys, links} for the episode at `parts`; `query()` is what the address keeps from episode to episode. */
export function episodePlaces(run, episode, parts, query) {
  const links = carrier(query);
  const inStep = parts[2] === "steps";
  const at = (row) => (row >= 0 && row < episode.rows ? [...parts.slice(0, -1), String(row)] : null);
  const [previous, next] = [at(episode.row - 1), at(episode.row + 1)];
  const keys = {
    j: ["next episode", () => links.visit(next)],
    k: ["previous episode", () => links.visit(previous)],
  };
  const inside = inStep ? stepPlaces(run, episode, links) : { keys: {}, group: null, steps: null };
  const element = h(
    "nav",
    { class: "row places", "aria-label": "Other episodes" },
    inside.group,
    h(
      "span",
      { class: "row end" },
      inside.steps,
      neighbour(links, previous, "previous", "k", "previous episode"),
      h("span", { class: "number" }, `episode ${number(episode.row + 1)} of ${number(episode.rows)}`),
      neighbour(links, next, "next", "j", "next episode"),
    ),
  );
  return { element, links, keys: { ...keys, ...inside.keys } };
}

function stepPlaces(run, episode, links) {
  const step = orNull(get(stepParts(run, episode.step)));
  const rows = episode.group_rows;
  const here = rows.indexOf(episode.row);
  const sample = (by) => (rows.length ? episodeParts(run, episode.step, rows[(here + by + rows.length) % rows.length]) : null);
  const group = episode.group === null ? null : groupParts(run, episode.step, episode.group);
  const before = ["sample before in the group", () => links.visit(sample(-1))];
  const after = ["next sample in the group", () => links.visit(sample(1))];
  return {
    group: group && samples(run, episode, links, step, group),
    steps: steps(links, step, run, episode),
    keys: {
      h: before,
      l: after,
      "[": before,
      "]": after,
      g: ["the group, side by side", () => links.visit(group)],
      n: ["the same place in the next step", () => otherStep("next")],
      p: ["the same place in the step before", () => otherStep("previous")],
    },
  };

  async function otherStep(which) {
    const number = (await step)?.[which];
    if (number === null || number === undefined) return;
    const other = await orNull(get(stepParts(run, number)));
    const rows = other ? [...other.groups.flatMap((one) => one.rows), ...other.dropped.map((one) => one.row)] : [];
    const row = rows.includes(episode.row) ? episode.row : rows.at(-1);
    links.visit(row === undefined ? stepParts(run, number) : episodeParts(run, number, row));
  }
}

/** What is promised, or null where it cannot be had: an export may hold an episode and not its step. */
function orNull(promise) {
  return promise.catch((error) => {
    if (error instanceof ApiError) return null;
    throw error;
  });
}

/** A chip per sample; the returns come with the step. */
function samples(run, episode, links, step, group) {
  const chips = episode.group_rows.map((row, index) => {
    const place = h("b", { class: "number" }, " ");
    const current = row === episode.row;
    const chip = links.link(
      episodeParts(run, episode.step, row),
      { class: "chip", "aria-current": current && "page" },
      String(index),
      " ",
      place,
    );
    return { row, chip, place };
  });
  step.then((found) => {
    const about = found?.groups.find((one) => one.group === episode.group);
    for (const { row, chip, place } of chips) {
      const index = about?.rows.indexOf(row) ?? -1;
      if (index >= 0) fill(place, number(about.returns[index], 2));
      chip.title = row === about?.baseline ? "greedy baseline" : "sample of the same task, and its return";
    }
  });
  const title = "the samples of this task side by side";
  return h(
    "span",
    { class: "row chips" },
    links.link(group, { title }, "group ", h("kbd", {}, "g")),
    chips.map(({ chip }) => chip),
  );
}

function steps(links, step, run, episode) {
  const place = h("span", { class: "row step-links" }, h("span", { class: "number" }, `step ${episode.step}`));
  step.then((found) => {
    const link = (number, label, key) =>
      neighbour(links, number === null ? null : stepParts(run, number), label, key, `${label} step`);
    if (found)
      fill(
        place,
        link(found.previous, "←", "p"),
        links.link(stepParts(run, episode.step), {}, `step ${episode.step}`),
        link(found.next, "→", "n"),
      );
  });
  return place;
}
