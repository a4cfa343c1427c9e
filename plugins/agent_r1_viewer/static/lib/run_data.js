// What the page of a run reads of it, kept up to date.

import { get } from "viewer/lib/api.js";
import { position } from "viewer/lib/series.js";

/** The run `id`: {id, label, detail, metrics, evaluations, spans, across(by), readDetail(), readMetrics()}. */
export async function runData(id) {
  const run = { id, label: id, metrics: { steps: [], values: {} }, across: (by) => position(run.metrics, by) };

  run.readDetail = async () => {
    run.detail = await get(["runs", id]);
    // Evaluations that training made; one that `agent-r1 eval` added later belongs to no step of the curve.
    run.evaluations = run.detail.evaluations.filter(({ name, step }) => step !== null && /^step_\d+$/.test(name));
    run.spans = spans(run.detail.alarms);
  };

  run.readMetrics = async () => {
    const { edition, steps } = run.metrics;
    const found = await get(["runs", id, "metrics"], { after: steps.at(-1), edition });
    // A resume takes steps back that were recorded after its checkpoint: then all of them have come.
    if (found.edition === edition) append(run.metrics, found);
    else run.metrics = found;
  };

  await Promise.all([run.readDetail(), run.readMetrics()]);
  return run;
}

/** Add later columns to those that are there; a metric that is new has no value before. */
function append(metrics, later) {
  const before = metrics.steps.length;
  metrics.steps.push(...later.steps);
  for (const name of new Set([...Object.keys(metrics.values), ...Object.keys(later.values)])) {
    const column = (metrics.values[name] ??= new Array(before).fill(null));
    column.push(...(later.values[name] ?? new Array(later.steps.length).fill(null)));
  }
}

/** Alarms as spans of steps; one that stands has no end yet. */
function spans(alarms) {
  const found = [];
  for (const alarm of alarms) {
    const open = found.find((span) => span.monitor === alarm.monitor && span.to === Infinity);
    if (alarm.event === "begins") found.push({ ...alarm, from: alarm.since, to: Infinity });
    else if (open) open.to = alarm.step;
  }
  return found;
}
