// From columns of metrics to the lines of a chart: the x axis, smoothing, and several runs over one x.

import { isNumber } from "viewer/lib/format.js";

export const AXES = {
  step: "step",
  time: "wall time (s)",
  tokens: "sampled tokens",
};

/**
 * A run's data for charts: {id, label, metrics: {steps, values}, evaluations: [{step, scores}], episodes: Set of steps}.
 * Its line of one metric as {xs, steps, raw, low, high, odd, breaks}: points without a value are left out; one that is "NaN" or
 * infinite is null in `raw` and a text in `odd`; `breaks` are the x between which and its neighbours nothing is known. Of a run with
 * `members` it is their mean, with the lowest and the highest of them, at the steps that all have.
 */
export function line(run, name, by) {
  if (run.members) return mean(run.members.map((one) => line(one, name, by)).filter(({ steps }) => steps.length));
  const found = points(run, name);
  const across = position(run.metrics, by);
  const steps = [...found.keys()].sort((a, b) => a - b);
  const column = (key) => steps.map((step) => found.get(step)[key] ?? null);
  return {
    xs: steps.map(across),
    steps,
    raw: column("value"),
    low: column("low"),
    high: column("high"),
    odd: column("odd"),
    breaks: name.startsWith("eval/") ? [] : breaks(run.metrics.steps, across, steps),
  };
}

function mean(lines) {
  const places = lines.map(({ steps }) => new Map(steps.map((step, place) => [step, place])));
  const steps = (lines[0]?.steps ?? []).filter((step) => places.every((known) => known.has(step)));
  const column = (key, of) => steps.map((step) => of(lines.map((one, index) => one[key][places[index].get(step)])));
  const average = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const known = (of) => (values) => (values.includes(null) ? null : of(values));
  return {
    xs: column("xs", average),
    steps,
    raw: column("raw", known(average)),
    low: column("raw", known((values) => Math.min(...values))),
    high: column("raw", known((values) => Math.max(...values))),
    odd: column("odd", (values) => values.find((odd) => odd !== null) ?? null),
    breaks: [],
  };
}

/** Every step has its metrics; where some lack, their lines were lost, and half way between those beside them there is a break. */
function breaks(recorded, across, [first, ...rest]) {
  const last = rest.at(-1) ?? first;
  return recorded.flatMap((step, row) => {
    const before = recorded[row - 1];
    return row > 0 && step > before + 1 && first <= before && step <= last ? [(across(before) + across(step)) / 2] : [];
  });
}

/** Exponential smoothing, corrected for its start: each value counts 1 - weight, those before it decay. */
export function smooth(values, weight) {
  let mean = 0;
  let counted = 0;
  return values.map((value) => {
    if (value === null) return null;
    mean = weight * mean + (1 - weight) * value;
    counted = weight * counted + (1 - weight);
    return mean / counted;
  });
}

/**
 * Several lines over the union of their x: {xs, lines: [{steps, raw, low, high, odd, smoothed, breaks}]}, with null where a line has no
 * point; `breaks` is a set of places in xs.
 */
export function aligned(lines, weight) {
  const xs = [...new Set(lines.flatMap((one) => [...one.xs, ...one.breaks]))].sort((a, b) => a - b);
  const index = new Map(xs.map((x, place) => [x, place]));
  const spread = (one, values) => {
    const row = new Array(xs.length).fill(null);
    values.forEach((value, place) => (row[index.get(one.xs[place])] = value));
    return row;
  };
  const spreadAll = (one) => ({
    steps: spread(one, one.steps),
    raw: spread(one, one.raw),
    low: spread(one, one.low),
    high: spread(one, one.high),
    odd: spread(one, one.odd),
    smoothed: weight ? spread(one, smooth(one.raw, weight)) : null,
    breaks: new Set(one.breaks.map((x) => index.get(x))),
  });
  return { xs, lines: lines.map(spreadAll) };
}

/** Values as they are drawn: uPlot joins what is on both sides of undefined, and not of null. */
export function gapped(values, breaks) {
  return values.map((value, place) => value ?? (breaks.has(place) ? null : undefined));
}

/** Where a step stands on the x axis: a function of steps, also of those between and before the recorded ones. */
export function position({ steps, values }, by) {
  if (by === "step") return (step) => step;
  let sum = 0;
  const ends = steps.map((_, row) => (sum += amount(values, row, by)));
  return (step) => {
    const row = lastUpTo(steps, step);
    return row < 0 ? 0 : ends[row];
  };
}

/** What a step adds: its seconds, or the tokens that the policy sampled in it. */
function amount(values, row, by) {
  const at = (name) => numeric(values[name]?.[row]) ?? 0;
  if (by === "time") return at("time/step");
  return at("rollout/episodes") * at("episode/action_tokens");
}

/** The steps that have a number for a metric. Evaluations also know the interval, and the score before training. */
function points(run, name) {
  const found = new Map();
  const column = run.metrics.values[name] ?? [];
  run.metrics.steps.forEach((step, row) => {
    const value = column[row] ?? null;
    if (value !== null) found.set(step, numeric(value) === null ? { value: null, odd: String(value) } : { value });
  });
  if (!name.startsWith("eval/")) return found;
  for (const { step, scores } of run.evaluations) {
    for (const [set, metrics] of Object.entries(scores)) {
      const prefix = set ? `eval/${set}/` : "eval/";
      const score = name.startsWith(prefix) ? metrics[name.slice(prefix.length)] : null;
      const value = numeric(score?.value);
      if (value !== null) found.set(step, { value, low: numeric(score.low), high: numeric(score.high) });
    }
  }
  return found;
}

function numeric(value) {
  return isNumber(value) ? value : null;
}

function lastUpTo(steps, step) {
  let low = 0;
  let high = steps.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps[middle] <= step) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
