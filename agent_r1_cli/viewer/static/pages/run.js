// The page of a run, or of several over one another: curves of all metrics, and what else its files say.

import { ApiError } from "viewer/lib/api.js";
import { compared } from "viewer/lib/comparison.js";
import { configuration } from "viewer/lib/configuration.js";
import { curves } from "viewer/lib/curves.js";
import { fill, h } from "viewer/lib/dom.js";
import { drawing } from "viewer/lib/assets.js";
import { eventNotes, healthNotes } from "viewer/lib/notes.js";
import { swatch } from "viewer/lib/palette.js";
import { refresher } from "viewer/lib/refresh.js";
import { remember, to } from "viewer/lib/router.js";
import { runData } from "viewer/lib/run_data.js";
import { evaluationList } from "viewer/lib/run_evaluations.js";
import { episodeSteps, problems, runHead } from "viewer/lib/run_head.js";
import { slot } from "viewer/lib/slot.js";
import { state } from "viewer/lib/state.js";

export async function show(place, { parts, query }) {
  const several = parts[0] === "compare";
  const ids = several ? [...new Set(compared(query.runs))] : [parts[1]];
  if (!ids.length) throw new ApiError("No runs are named; tick two runs or more in the list of runs.");
  const [runs] = await Promise.all([Promise.all(ids.map(runData)), drawing()]);
  const charts = curves({
    runs,
    query,
    onquery: (changed) => remember(parts, { runs: query.runs, ...changed }),
    open: openStep,
  });
  const updates = [];
  const settings = part(
    ({ detail }) => [detail.config, detail.sources],
    () => configuration(runs),
  );
  const evaluated = part(
    ({ detail }) => detail.evaluations,
    () => evaluationList(runs),
  );
  const notes = runs.map((run) => [
    several && h("h2", {}, run.label),
    part(
      () => [run.detail.health, run.detail.alarms],
      () => healthNotes(run.detail),
    ),
    part(
      () => run.detail.events,
      () => eventNotes(run.detail),
    ),
  ]);
  const steps = part(
    ({ detail }) => detail.episode_steps,
    () => !several && episodeSteps(runs[0]),
  );
  const head = part(
    ({ detail }) => detail,
    () => (several ? comparedHead(runs) : runHead(runs[0])),
  );
  let shown = null;
  let closed = false;
  fill(place, head, charts, several ? [settings, evaluated, notes] : [notes, evaluated, steps, settings]);
  draw();

  /** A part of the page, drawn anew when what `about` says of the runs changes. */
  function part(about, build) {
    const element = slot(build);
    updates.push(() => element.update(runs.map(about)));
    return element;
  }

  function draw() {
    updates.forEach((update) => update());
    const now = JSON.stringify(runs.map((run) => [run.detail, run.metrics.steps.length]));
    if (shown !== null && now !== shown) charts.update();
    shown = now;
  }

  const news = new Map(runs.map((run) => [run.id, refresher(() => read(run))]));

  async function read(run) {
    await run.readMetrics();
    await run.readDetail();
    if (!closed) draw();
  }

  const names = runs.map((run) => run.label).join(", ");
  return {
    title: names,
    crumbs: [
      ["runs", to([])],
      [several ? `Compare ${names}` : names, to(parts)],
    ],
    runs: ids,
    changed: ({ run }) => news.get(run)?.(),
    close: () => {
      closed = true;
      charts.close();
    },
    keys: {
      "/": ["filter metrics", charts.filter],
      ...(!several && {
        e: ["episodes of the last step", () => openStep(runs[0], runs[0].detail.episode_steps.at(-1))],
        v: ["evaluations", () => (location.hash = to(["runs", runs[0].id, "evaluations"]))],
      }),
    },
  };
}

/** A click on a step leads to its episodes, if they were recorded. */
function openStep(run, step) {
  if (run.detail.episode_steps.includes(step)) location.hash = to(["runs", run.id, "steps", step]);
}

function comparedHead(runs) {
  const entry = (run, index) =>
    h(
      "div",
      { class: "row" },
      swatch(index),
      h("a", { href: to(["runs", run.id]) }, run.label),
      state(run.detail.summary.state ?? "unreadable", run.detail.summary.sentence),
      h("span", { class: "muted" }, run.detail.summary.sentence),
    );
  return h(
    "section",
    { class: "panel", "data-part": "head" },
    h("h1", {}, `Compare ${runs.length} runs`),
    runs.map(entry),
    runs.map((run) => problems(run.detail)),
  );
}
