// The list of all runs: sorted, filtered, and several chosen to be compared.

import { get, isExport } from "viewer/lib/api.js";
import { comparison } from "viewer/lib/comparison.js";
import { fill, h } from "viewer/lib/dom.js";
import { ago, moment, number, plural, seconds } from "viewer/lib/format.js";
import { best } from "viewer/lib/interval.js";
import { refresher } from "viewer/lib/refresh.js";
import { remarkLine } from "viewer/lib/remark.js";
import { remember, to } from "viewer/lib/router.js";
import { sparkline } from "viewer/lib/sparkline.js";
import { state } from "viewer/lib/state.js";
import { moveRow, table } from "viewer/lib/table.js";

const STATES = ["training", "finished", "interrupted", "failed", "unreadable"];

export async function show(place, { query }) {
  let answer = await get(["runs"]);
  const picked = new Set();
  const chosen = { text: query.text ?? "", state: query.state ?? "", sort: query.sort ?? "updated.down" };

  const text = h("input", {
    type: "search",
    value: chosen.text,
    placeholder: "name, recipe, algorithm, model, tag",
    "aria-label": "Filter runs",
  });
  const kind = h(
    "select",
    { "aria-label": "State" },
    ["", ...STATES].map((one) => h("option", { value: one, selected: one === chosen.state }, one || "any state")),
  );
  const count = h("span", { class: "muted", role: "status" });
  const compare = h("button", { onclick: openComparison }, "Compare");
  const list = table({
    columns: columns(picked, selected),
    rows: [],
    sort: chosen.sort.split("."),
    onsort: (sort) => keep({ sort: sort.join(".") }),
    link: (run) => (run.state ? to(["runs", run.id]) : null),
    note: (run) => [run.problem && h("p", { class: "problem" }, run.problem), remarkLine(run.remark)].filter(Boolean),
    label: "Runs",
  });
  const body = h("div");
  text.addEventListener("input", () => keep({ text: text.value }));
  kind.addEventListener("change", () => keep({ state: kind.value }));
  fill(
    place,
    h(
      "div",
      { class: "row panel" },
      h("h1", {}, "Runs"),
      text,
      kind,
      count,
      !isExport && h("span", { class: "end" }, compare),
    ),
    body,
  );
  draw();

  function draw() {
    const shown = answer.runs.filter((run) => fits(run, chosen));
    list.update(shown);
    fill(
      count,
      shown.length === answer.runs.length
        ? plural(shown.length, "run")
        : `${shown.length} of ${plural(answer.runs.length, "run")}`,
    );
    const current = body.firstChild;
    const next = answer.runs.length ? list : current?.className === "empty" ? current : nothing(answer.folders);
    if (current !== next) fill(body, next);
    selected();
  }

  function keep(change) {
    Object.assign(chosen, change);
    remember([], { ...chosen, sort: chosen.sort === "updated.down" ? "" : chosen.sort });
    draw();
  }

  function selected() {
    compare.disabled = picked.size < 2;
    compare.title = picked.size < 2 ? "Tick two runs or more" : `Draw ${picked.size} runs over one another`;
    fill(compare, picked.size < 2 ? "Compare" : `Compare ${picked.size}`);
  }

  function openComparison() {
    if (picked.size > 1) location.hash = comparison([...picked]);
  }

  function tick() {
    document.activeElement?.closest("tr")?.querySelector("input[type=checkbox]")?.click();
  }

  return {
    title: "Runs",
    crumbs: [["runs", to([])]],
    runs: [],
    changed: refresher(async () => {
      answer = await get(["runs"]);
      const there = new Set(answer.runs.map((run) => run.id));
      for (const id of picked) if (!there.has(id)) picked.delete(id);
      const focused = document.activeElement?.closest("tr")?.dataset.href;
      const ticking = document.activeElement?.type === "checkbox";
      draw();
      if (focused) refocus(list, focused, ticking);
    }),
    keys: {
      j: ["next run", () => moveRow(list, 1)],
      k: ["previous run", () => moveRow(list, -1)],
      x: ["tick the run", tick],
      c: ["compare the ticked runs", openComparison],
      "/": ["filter", () => text.focus()],
    },
  };
}

function columns(picked, selected) {
  const pick = (run) => {
    const box = h("input", { type: "checkbox", "aria-label": `Compare ${run.id}`, disabled: !run.state });
    box.checked = picked.has(run.id);
    box.addEventListener("change", () => {
      if (box.checked) picked.add(run.id);
      else picked.delete(run.id);
      selected();
    });
    return box;
  };
  const plain = (key, label, width) => ({
    key,
    label,
    value: (run) => run[key],
    show: (run) => run[key] ?? "–",
    width,
  });
  return [
    { key: "pick", label: "", show: pick },
    { key: "name", label: "name", value: (run) => run.id, width: "120px" },
    {
      key: "state",
      label: "state",
      value: kindOf,
      show: (run) => state(kindOf(run), run.problem ?? run.sentence),
      width: "96px",
    },
    plain("recipe", "recipe"),
    plain("algorithm", "algorithm"),
    { ...plain("model", "model"), show: (run) => h("span", { title: run.model }, run.model?.split("/").at(-1) ?? "–") },
    {
      key: "best",
      label: "best score",
      number: true,
      value: (run) => run.best?.value,
      show: (run) => best(run.best),
      width: "180px",
    },
    { key: "curve", label: "reward/mean", show: (run) => sparkline(run.curve ?? [], curveLabel(run)), width: "106px" },
    { key: "step", label: "steps", number: true, value: (run) => run.step, show: steps, width: "70px" },
    {
      key: "seconds",
      label: "time",
      number: true,
      value: (run) => run.seconds,
      show: (run) => seconds(run.seconds),
      width: "72px",
    },
    {
      key: "updated",
      label: "changed",
      number: true,
      value: (run) => run.updated,
      show: (run) => h("span", { title: moment(run.updated) }, ago(run.updated)),
      width: "88px",
    },
  ];
}

function steps(run) {
  return run.step === null ? "–" : run.steps ? `${number(run.step)} / ${number(run.steps)}` : number(run.step);
}

function curveLabel(run) {
  const values = (run.curve ?? []).map(([, value]) => value).filter((value) => typeof value === "number");
  return values.length ? `reward/mean from ${number(values[0])} to ${number(values.at(-1))}` : "no curve of reward/mean";
}

function kindOf(run) {
  return run.state ?? "unreadable";
}

function fits(run, { text, state: wanted }) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const { tags = [], note = "" } = run.remark ?? {};
  const about = [run.id, run.name, run.recipe, run.algorithm, run.model, ...tags, note].join(" ").toLowerCase();
  return (!wanted || kindOf(run) === wanted) && words.every((word) => about.includes(word));
}

function refocus(list, address, ticking) {
  const row = [...list.querySelectorAll("tr[data-href]")].find((one) => one.dataset.href === address);
  row?.querySelector(ticking ? "input" : "a.first")?.focus({ preventScroll: true });
}

function nothing(folders) {
  return h(
    "div",
    { class: "empty" },
    h(
      "p",
      {},
      "There are no runs here yet: ",
      h("code", {}, "agent-r1 train"),
      " makes one, and it appears as soon as it begins.",
    ),
    folders?.length && h("p", {}, `Looked in: ${folders.join(", ")}`),
  );
}
