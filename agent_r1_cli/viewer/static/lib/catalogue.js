// Which metrics there are, in which groups, and what each means.

const GROUPS = [
  ["reward", ["reward", "train"]],
  ["evaluation", ["eval"]],
  ["episodes", ["episode", "rollout", "baseline"]],
  ["health", ["health", "logprob_gap", "prob_gap"]],
  ["update", ["update"]],
  ["time", ["time"]],
  ["tools", ["tools"]],
];

/** What runs declare of their metrics, each name once: [{name, unit, better, meaning}]. */
export function catalogueOf(runs) {
  return [...new Map(runs.flatMap((run) => run.detail.catalogue).map((one) => [one.name, one])).values()];
}

/** The metrics of several runs by group: [[group, [names]], ...]; groups of other prefixes come last. */
export function grouped(names, catalogue) {
  const order = new Map(catalogue.map(({ name }, index) => [name, index]));
  const place = (name) => order.get(name) ?? order.get(declared(name, catalogue)?.name) ?? Infinity;
  const groups = new Map(GROUPS.map(([group]) => [group, []]));
  for (const name of names.filter((one) => !isEnd(one, names))) {
    const group = groupOf(name);
    groups.set(group, [...(groups.get(group) ?? []), name]);
  }
  for (const members of groups.values())
    members.sort((a, b) => place(a) - place(b) || a.localeCompare(b, "en", { numeric: true }));
  return [...groups].filter(([, members]) => members.length);
}

/** The declaration {name, unit, better, meaning} of a metric, or of the family that it belongs to; null: undeclared. */
export function declared(name, catalogue) {
  return (
    catalogue.find((one) => one.name === name) ??
    catalogue.find((one) => one.name.includes("<") && pattern(one.name).test(name)) ??
    null
  );
}

/** The group in which a metric is shown. */
export function groupOf(name) {
  const prefix = name.split("/")[0];
  return GROUPS.find(([, prefixes]) => prefixes.includes(prefix))?.[0] ?? prefix;
}

/** Whether this is the end of an interval, which its score draws as a band. */
function isEnd(name, names) {
  const score = name.replace(/_(low|high)$/, "");
  return score !== name && name.startsWith("eval/") && names.includes(score);
}

function pattern(name) {
  const parts = name
    .split(/(<.*?>)/)
    .map((part) => (part.startsWith("<") ? "[^/]+" : part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")));
  return new RegExp(`^${parts.join("")}$`);
}
