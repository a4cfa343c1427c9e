// Runs that differ in nothing but their seed, drawn as one: their mean, and a band from the lowest to the highest.

import { plural } from "viewer/lib/format.js";
import { flatten } from "viewer/lib/settings.js";

const OWN = new Set(["seed", "run.name", "run.dir"]);

/**
 * The runs as they are drawn: those of one configuration, but for `OWN`, as one with `members` in place of metrics of its own.
 * One whose configuration cannot be read stays alone.
 */
export function drawn(runs) {
  const groups = new Map();
  for (const run of runs) {
    const key = run.detail.config ? recipe(run) : run.id;
    groups.set(key, [...(groups.get(key) ?? []), run]);
  }
  return [...groups.values()].map((members) => (members.length > 1 ? together(members) : members[0]));
}

/** The runs that a line is made of. */
export function membersOf(run) {
  return run.members ?? [run];
}

function recipe(run) {
  const settings = [...flatten(run.detail.config)].filter(([key]) => !OWN.has(key));
  return JSON.stringify(settings.sort(([a], [b]) => (a < b ? -1 : 1)));
}

function together(members) {
  const [first] = members;
  const seeds = new Set(members.map((run) => run.detail.config.seed)).size;
  const many = seeds === members.length ? plural(seeds, "seed") : plural(members.length, "run");
  return {
    id: first.id,
    label: `${first.label} (${many})`,
    members,
    across: first.across,
    get detail() {
      return first.detail;
    },
    get metrics() {
      const steps = [...new Set(members.flatMap((run) => run.metrics.steps))].sort((a, b) => a - b);
      return { steps, values: Object.assign({}, ...members.map((run) => run.metrics.values)) };
    },
    get evaluations() {
      return members.flatMap((run) => run.evaluations);
    },
    get spans() {
      return members.flatMap((run) => run.spans);
    },
  };
}
