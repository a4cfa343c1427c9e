// The page of a run, or of several over one another: what its files say, each part under its heading, and the curves of all metrics.

import { ApiError } from "viewer/lib/api.js";
import { drawing } from "viewer/lib/assets.js";
import { comparedRuns } from "viewer/lib/compared_runs.js";
import { compared } from "viewer/lib/comparison.js";
import { configuration, configurationTitle } from "viewer/lib/configuration.js";
import { curves } from "viewer/lib/curves.js";
import { fill, h } from "viewer/lib/dom.js";
import { fold, unfoldAll } from "viewer/lib/fold.js";
import { plural } from "viewer/lib/format.js";
import { eventNotes, eventTitle, healthNotes, healthTitle } from "viewer/lib/notes.js";
import { refresher } from "viewer/lib/refresh.js";
import { remarkOf } from "viewer/lib/remark.js";
import { remember, to } from "viewer/lib/router.js";
import { runData } from "viewer/lib/run_data.js";
import { evaluationList, evaluationTitle } from "viewer/lib/run_evaluations.js";
import { episodeSteps, runHead } from "viewer/lib/run_head.js";
import { addressOf, viewOf } from "viewer/lib/run_view.js";
import { drawn, membersOf } from "viewer/lib/seeds.js";
import { slot } from "viewer/lib/slot.js";

export async function show(place, { parts, query }) {
  const several = parts[0] === "compare";
  const ids = several ? [...new Set(compared(query.runs))] : [parts[1]];
  if (!ids.length) throw new ApiError("No runs are named; tick two runs or more in the list of runs.");
  const [runs] = await Promise.all([Promise.all(ids.map(runData)), drawing()]);
  const apart = query.seeds === "apart";
  const lines = apart ? runs : drawn(runs);
  const view = viewOf(query);
  const keep = () => remember(parts, { runs: query.runs, seeds: query.seeds, ...addressOf(view) });
  const seeds = several && drawn(runs).length < runs.length && seedsLine(query, apart);
  const charts = curves({ runs: lines, view, keep, open: openStep, seeds });
  const updates = [];
  const remark = several ? null : remarkOf(ids[0]);
  updates.push(() => remark?.update(runs[0].detail.summary.remark));
  const head = several ? comparedRuns(lines) : slot(() => runHead(runs[0]));
  updates.push(() => head.update(runs.map(({ detail }) => detail)));
  const health = section(
    "health",
    ({ detail }) => [detail.health, detail.alarms],
    () => (several ? "Health" : healthTitle(runs[0].detail)),
    () => ofEach(healthNotes),
  );
  const events = section(
    "events",
    ({ detail }) => detail.events,
    () => (several ? "Events" : eventTitle(runs[0].detail)),
    () => ofEach(eventNotes),
  );
  const evaluated = section(
    "evaluations",
    ({ detail }) => detail.evaluations,
    () => evaluationTitle(runs),
    () => evaluationList(runs),
  );
  const steps = section(
    "steps",
    ({ detail }) => detail.episode_steps,
    () => `Episodes of ${plural(runs[0].detail.episode_steps.length, "step")}`,
    () => episodeSteps(runs[0]),
  );
  const settings = section(
    "configuration",
    ({ detail }) => [detail.config, detail.sources],
    () => configurationTitle(lines),
    () => configuration(lines),
  );
  let shown = null;
  let closed = false;
  const top = h("section", { class: "panel", "data-part": "head" }, head, remark);
  fill(place, top, h("div", { class: "folds" }, health, events, evaluated, !several && steps, settings), charts);
  draw();

  /** A part of the page under its heading, drawn anew when what `about` says of the runs changes. */
  function section(name, about, title, body) {
    const nothing = () => h("p", { class: "muted" }, "There is nothing yet.");
    const [heading, inside] = [slot(title), slot(() => body() || nothing())];
    const element = fold(name, { view, keep, "data-part": name }, heading, inside);
    updates.push(() => {
      const data = runs.map(about);
      heading.update(data);
      inside.update(data);
    });
    return element;
  }

  function ofEach(build) {
    return runs.map((run) => [several && h("h3", {}, run.label), build(run.detail)]);
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
      o: ["unfold everything, or fold it", () => unfoldAll(place)],
      ...(!several && {
        e: ["episodes of the last step", () => openStep(runs[0], runs[0].detail.episode_steps.at(-1))],
        v: ["evaluations", () => (location.hash = to(["runs", runs[0].id, "evaluations"]))],
        t: ["tags and note", remark.edit],
      }),
    },
  };
}

/** A click on a step leads to its episodes, if they were recorded. */
function openStep(line, step) {
  const run = membersOf(line).find(({ detail }) => detail.episode_steps.includes(step));
  if (run) location.hash = to(["runs", run.id, "steps", step]);
}

/** What a line of several seeds is, and the way to see each. */
function seedsLine(query, apart) {
  const link = (label, seeds) => h("a", { href: to(["compare"], { runs: query.runs, seeds }) }, label);
  if (apart) return h("p", {}, link("Draw seeds as one", null));
  const meaning = "Runs that differ only in their seed are one line, their mean, in a band from the lowest to the highest. ";
  return h("p", { class: "muted" }, meaning, link("Draw seeds apart", "apart"));
}
