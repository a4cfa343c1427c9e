// The page of a run, or of several over one another: curves of all metrics, and what else its files say.

import { ApiError } from "viewer/lib/api.js";
import { compared } from "viewer/lib/comparison.js";
import { configuration } from "viewer/lib/configuration.js";
import { curves } from "viewer/lib/curves.js";
import { fill, h } from "viewer/lib/dom.js";
import { eventNotes, healthNotes } from "viewer/lib/notes.js";
import { swatch } from "viewer/lib/palette.js";
import { refresher } from "viewer/lib/refresh.js";
import { remember, to } from "viewer/lib/router.js";
import { runData } from "viewer/lib/run_data.js";
import { evaluationList } from "viewer/lib/run_evaluations.js";
import { episodeSteps, problems, runHead } from "viewer/lib/run_head.js";
import { state } from "viewer/lib/state.js";

export async function show(place, { parts, query }) {
  const several = parts[0] === "compare";
  const ids = several ? [...new Set(compared(query.runs))] : [parts[1]];
  if (!ids.length) throw new ApiError("No runs are named; tick two runs or more in the list of runs.");
  const runs = await Promise.all(ids.map(runData));
  const charts = curves({
    runs,
    catalogue: catalogueOf(runs),
    query,
    onquery: (changed) => remember(parts, { runs: query.runs, ...changed }),
    open: openStep,
  });
  const head = h("div");
  const rest = h("div");
  let shown = null;
  fill(place, head, charts, rest);
  draw();

  function draw() {
    const now = JSON.stringify(runs.map((run) => [run.detail, run.metrics.steps.length]));
    if (now === shown) return;
    if (shown !== null) charts.update();
    shown = now;
    fill(head, several ? comparedHead(runs) : runHead(runs[0]));
    if (several)
      fill(
        rest,
        configuration(runs),
        evaluationList(runs),
        runs.map((run) => [h("h2", {}, run.label), healthNotes(run.detail), eventNotes(run.detail)]),
      );
    else
      fill(
        rest,
        healthNotes(runs[0].detail),
        eventNotes(runs[0].detail),
        evaluationList(runs),
        episodeSteps(runs[0]),
        configuration(runs),
      );
  }

  const news = new Map(runs.map((run) => [run.id, refresher(() => read(run))]));

  async function read(run) {
    await run.readMetrics();
    await run.readDetail();
    draw();
  }

  const names = runs.map((run) => run.label).join(", ");
  const last = runs[0].detail.episode_steps.at(-1);
  return {
    title: names,
    crumbs: [
      ["runs", to([])],
      [several ? `Compare ${names}` : names, to(parts)],
    ],
    runs: ids,
    changed: ({ run }) => news.get(run)?.(),
    close: charts.close,
    keys: {
      "/": ["filter metrics", charts.filter],
      ...(!several && last !== undefined ? { e: ["episodes of the last step", () => openStep(runs[0], last)] } : {}),
      ...(!several ? { v: ["evaluations", () => (location.hash = to(["runs", runs[0].id, "evaluations"]))] } : {}),
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

function catalogueOf(runs) {
  return [...new Map(runs.flatMap((run) => run.detail.catalogue).map((one) => [one.name, one])).values()];
}
