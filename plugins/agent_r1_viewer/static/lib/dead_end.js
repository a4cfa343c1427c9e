// What is shown in place of a page that does not exist or cannot be read: why, and the ways on from there.

import { ApiError, getOrNull, isExport } from "viewer/lib/api.js";
import { fill, h } from "viewer/lib/dom.js";
import { carrier, neighbour, stepParts } from "viewer/lib/places.js";
import { to } from "viewer/lib/router.js";

const NAMES = { runs: "run", steps: "step", groups: "group", episodes: "episode" };

/**
 * Fill `place`; the result is what a page's `show` resolves to, with crumbs to what exists of its address. `inside`: there is a
 * page to go back to.
 */
export async function deadEnd(place, { parts, query }, error, inside) {
  const links = carrier(() => query);
  const run = parts[0] === "runs" && parts[1] ? await getOrNull(["runs", parts[1]]) : null;
  const below = run !== null && parts.length > 2;
  const step = below && parts[2] === "steps" ? await around(run, parts) : null;
  const name = label(parts);
  const crumbs = [
    ["runs", to([])],
    below && [parts[1], to(parts.slice(0, 2))],
    step?.exists && [`step ${parts[3]}`, to(parts.slice(0, 4))],
    [name, to(parts, query)],
  ].filter(Boolean);
  const ways = [
    step?.exists && links.link(parts.slice(0, 4), {}, `Step ${parts[3]}`),
    step?.previous && neighbour(links, step.previous, `Step ${step.previous.at(-1)}`, "p", "the step before with episodes"),
    step?.next && neighbour(links, step.next, `Step ${step.next.at(-1)}`, "n", "the next step with episodes"),
    below && run.evaluations.length > 0 && h("a", { href: to([...parts.slice(0, 2), "evaluations"]) }, "Evaluations"),
    below && h("a", { href: to(parts.slice(0, 2)) }, `Run ${parts[1]}`),
    !isExport && h("a", { href: to([]) }, "All runs"),
    inside && h("button", { onclick: () => history.back() }, "Back"),
  ].filter(Boolean);
  fill(
    place,
    h("h1", {}, name),
    h("p", { class: "problem", role: "alert" }, error instanceof ApiError ? error.message : String(error)),
    ways.length > 0 && h("nav", { class: "row", "aria-label": "Ways on" }, ways),
  );
  const keys = {
    ...(step?.next && { n: ["the next step with episodes", () => links.visit(step.next)] }),
    ...(step?.previous && { p: ["the step before with episodes", () => links.visit(step.previous)] }),
  };
  return { title: below ? `${name}, ${parts[1]}` : name, crumbs, keys };
}

/** Whether the step itself can be shown, where its group or episode cannot, and the nearest steps with episodes. */
async function around(run, parts) {
  const step = Number(parts[3]);
  const exists = parts.length > 4 && (await getOrNull(parts.slice(0, 4))) !== null;
  const [before, after] = [
    run.episode_steps.filter((one) => one < step).at(-1),
    run.episode_steps.find((one) => one > step),
  ];
  const address = (one) => (one === undefined ? null : stepParts(parts[1], one));
  return { exists, previous: address(before), next: address(after) };
}

/** What an address names last: "step 9" of #/runs/a/steps/9. */
function label(parts) {
  const [kind, one] = parts.length % 2 ? [] : parts.slice(-2);
  return Object.hasOwn(NAMES, kind) ? `${NAMES[kind]} ${one}` : (parts.at(-1) ?? "runs");
}
