// The samples of one task side by side: what each earned, and where their texts part.

import { goldAnswers } from "viewer/lib/answer.js";
import { get } from "viewer/lib/api.js";
import { fill, h } from "viewer/lib/dom.js";
import { folded } from "viewer/lib/folded.js";
import { outOf, plural } from "viewer/lib/format.js";
import { parting, pieces } from "viewer/lib/parting.js";
import { carrier, crumbs, episodeParts, groupParts, neighbour, stepParts } from "viewer/lib/places.js";
import { to } from "viewer/lib/router.js";
import { sampleColumn } from "viewer/lib/sample_column.js";
import { sorted } from "viewer/lib/table.js";
import { question } from "viewer/lib/visible.js";

const NOTHING = { piece: -1, offset: 0 };

export async function show(place, { parts, query }) {
  const run = parts[1];
  const { step, group, groups, task, episodes: sampled } = await get(parts);
  const episodes = failingFirst(sampled);
  const links = carrier(() => ({ view: query.view, colour: query.colour }));
  const [previous, next] = [group - 1, group + 1].map((one) => (one >= 0 && one < groups ? groupParts(run, step, one) : null));
  const texts = episodes.map(pieces);
  const at = parting(texts.filter((_, index) => !episodes[index].baseline));
  // A baseline is compared with none of the samples, so that it shares nothing.
  const columns = episodes.map((one, index) =>
    sampleColumn(one, task, texts[index], one.baseline ? NOTHING : at, links, episodeParts(run, step, one.row)),
  );
  const samples = h("div", { class: "samples", tabindex: 0, role: "group", "aria-label": "Samples side by side" }, columns);
  // A head, the turns, and what followed the last action: rows that all columns share.
  samples.style.setProperty("--rows", Math.max(...episodes.map((one) => one.turns.length)) + 2);
  fill(
    place,
    h(
      "nav",
      { class: "row places", "aria-label": "Other groups" },
      links.link(stepParts(run, step), {}, `step ${step}`, " ", h("kbd", {}, "s")),
      h(
        "span",
        { class: "row end" },
        neighbour(links, previous, "previous", "k", "previous group"),
        h("span", { class: "number" }, `group ${outOf(group, groups)}`),
        neighbour(links, next, "next", "j", "next group"),
      ),
    ),
    h(
      "section",
      { class: "panel" },
      h(
        "div",
        { class: "question", role: "heading", "aria-level": 1 },
        folded(question(task.prompt), { letters: 400, lines: 5 }),
      ),
      h("p", { class: "answers" }, goldAnswers(task)),
      h("p", { class: "muted" }, sentence(at, texts, episodes)),
    ),
    samples,
  );
  const keys = {
    j: ["next group", () => links.visit(next)],
    k: ["previous group", () => links.visit(previous)],
    s: ["the step", () => links.visit(stepParts(run, step))],
  };
  const way = crumbs(run, [`step ${step}`, to(stepParts(run, step))], [`group ${group}`, to(parts)]);
  return { title: `group ${group} of step ${step}, ${run}`, crumbs: way, keys };
}

/** The samples that earned least, which a reader asks about, before the others and the baseline. */
function failingFirst(episodes) {
  const samples = episodes.filter((one) => !one.baseline);
  return [...sorted(samples, { value: (one) => one.return }, "up"), ...episodes.filter((one) => one.baseline)];
}

function sentence(at, texts, episodes) {
  const samples = episodes.filter((one) => !one.baseline).length;
  if (samples < 2) return "There is one sample, so there is nothing to compare it with.";
  if (at === null) return `All ${plural(samples, "sample")} say the same from beginning to end.`;
  const { kind, turn } = texts.find((one) => one[at.piece])[at.piece];
  const where = kind === "action" ? `in the action of turn ${turn}` : `in what they read before turn ${turn}`;
  return `The ${plural(samples, "sample")} say the same until they part ${where}; what they share is muted.`;
}
