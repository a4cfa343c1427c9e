// Where an episode stands: the other samples of its group with their returns, and its neighbours in the step and in time.

import { getOrNull } from "viewer/lib/api.js";
import { fill, h } from "viewer/lib/dom.js";
import { number, outOf } from "viewer/lib/format.js";
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
      h("span", { class: "number" }, `episode ${outOf(episode.row, episode.rows)}`),
      neighbour(links, next, "next", "j", "next episode"),
    ),
  );
  return { element, links, keys: { ...keys, ...inside.keys } };
}

function stepPlaces(run, episode, links) {
  // An export may hold an episode and not its step.
  const step = getOrNull(stepParts(run, episode.step));
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
    const here = location.hash;
    const number = (await step)?.[which];
    if (number === null || number === undefined) return;
    const other = await getOrNull(stepParts(run, number));
    if (location.hash !== here) return; // the reader has gone elsewhere
    const { groups = [], dropped = [] } = other ?? {};
    const baselines = groups.map((one) => one.baseline).filter((one) => one !== null);
    const rows = [...groups.flatMap((one) => one.rows), ...baselines, ...dropped.map((one) => one.row)];
    const row = rows.includes(episode.row) ? episode.row : rows.at(-1);
    links.visit(row === undefined ? stepParts(run, number) : episodeParts(run, number, row));
  }
}

/** A chip per sample; the returns come with the step. */
function samples(run, episode, links, step, group) {
  const chips = episode.group_rows.map((row, index) => {
    const place = h("b", { class: "number" }, " ");
    const current = row === episode.row;
    const sample = episode.group_samples[index];
    const greedy = sample === undefined;
    const chip = links.link(
      episodeParts(run, episode.step, row),
      {
        class: "chip",
        "aria-current": current && "page",
        title: greedy ? "greedy baseline" : `sample ${sample} of the same task, and its return`,
      },
      greedy ? "greedy" : [sample, " ", place],
    );
    return { chip, place };
  });
  step.then((found) => {
    const about = found?.groups.find((one) => one.group === episode.group);
    about?.returns.forEach((one, index) => fill(chips[index].place, number(one, 2)));
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
  const place = h("span", { class: "row" }, h("span", { class: "number" }, `step ${episode.step}`));
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
