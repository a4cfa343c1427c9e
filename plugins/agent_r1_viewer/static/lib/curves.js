// All charts of a page with their controls: the few that tell most, then the others, folded by group. They are drawn when they come
// near the window, since a run has eighty of them.

import { FIRST, catalogueOf, declared, grouped } from "viewer/lib/catalogue.js";
import { chart } from "viewer/lib/chart.js";
import { fill, h } from "viewer/lib/dom.js";
import { fold } from "viewer/lib/fold.js";
import { plural } from "viewer/lib/format.js";
import { swatch } from "viewer/lib/palette.js";
import { AXES } from "viewer/lib/series.js";
import { onTheme } from "viewer/lib/theme.js";

/**
 * runs: as run_data.js reads them, which declare their metrics from the first step on, or as seeds.js joins them. `view` is what the
 * reader chose, `keep()` hears of its changes; `open(run, step)` is called when a step is clicked. The element has update(), after
 * the runs' data changed, filter(), which begins typing, and close().
 */
export function curves({ runs, view, keep, open, seeds = null }) {
  const cards = new Map();
  const visible = new Set();
  const dirty = new Set();
  const groups = h("div");
  const shown = h("span", { class: "muted", role: "status" });
  const filter = h("input", {
    type: "search",
    value: view.filter,
    placeholder: "metrics",
    "aria-label": "Filter metrics",
  });
  const smoothing = h("input", {
    type: "range",
    min: 0,
    max: 0.99,
    step: 0.01,
    value: view.smooth,
    "aria-label": "Smoothing",
  });
  const weight = h("span", { class: "number", style: { minWidth: "2.5em", display: "inline-block" } });
  const axis = h(
    "select",
    { "aria-label": "x axis" },
    Object.entries(AXES).map(([key, label]) => h("option", { value: key, selected: key === view.by }, label)),
  );
  const whole = h(
    "button",
    { onclick: () => view.zoomed(null), title: "Show all steps again; a double click does the same" },
    "Zoom out",
  );
  const element = h("section", { "aria-label": "Curves" }, controls(), groups);

  view.open = open;
  view.zoomed = (zoom) => change({ zoom }, (card) => card.zoom());
  filter.addEventListener("input", () => change({ filter: filter.value }, () => {}));
  smoothing.addEventListener("input", () => change({ smooth: Number(smoothing.value) }));
  axis.addEventListener("change", () => change({ by: axis.value, zoom: null }));

  const seen = new IntersectionObserver(
    (entries) => entries.forEach(({ target, isIntersecting }) => appear(target, isIntersecting)),
    { rootMargin: "300px" },
  );
  const sized = new ResizeObserver((entries) => entries.forEach(({ target }) => target.resize()));
  const unheard = onTheme(() => visible.forEach((card) => card.restyle()));
  let all = []; // the metrics by group
  element.update = () => {
    all = grouped(metricNames(runs), runs, catalogueOf(runs));
    arrange();
    redraw();
  };
  element.filter = () => filter.focus();
  element.close = () => {
    unheard();
    seen.disconnect();
    sized.disconnect();
    cards.forEach((card) => card.destroy());
  };
  element.update();
  return element;

  function controls() {
    const legend =
      runs.length > 1 &&
      h(
        "div",
        { class: "lines" },
        runs.map((run, index) => entry(run, index)),
      );
    return h(
      "div",
      { class: "panel controls" },
      h(
        "div",
        { class: "row" },
        filter,
        shown,
        h("label", {}, "smoothing ", smoothing, weight),
        h("label", {}, "x ", axis),
        h("span", { class: "end" }, whole),
      ),
      legend,
      seeds,
    );
  }

  function entry(run, index) {
    const box = h("input", { type: "checkbox" });
    box.checked = !view.hidden.has(index);
    box.addEventListener("change", () => {
      if (box.checked) view.hidden.delete(index);
      else view.hidden.add(index);
      change({});
    });
    return h("label", {}, box, swatch(index), run.label);
  }

  /** Take a change of the controls over, into the charts and into the address. */
  function change(changes, act = (card) => card.draw()) {
    Object.assign(view, changes);
    redraw(act);
    arrange();
    keep();
  }

  function redraw(act = (card) => card.draw()) {
    for (const card of cards.values()) {
      if (visible.has(card)) act(card);
      else dirty.add(card);
    }
  }

  /** Draw what comes into sight, if it is new or out of date. */
  function appear(card, now) {
    if (now) visible.add(card);
    else visible.delete(card);
    if (now && dirty.delete(card)) card.draw();
    card.inSight(now);
  }

  /** Show the groups and cards of the metrics that there are now and that the filter lets through. */
  function arrange() {
    fill(weight, view.smooth ? view.smooth.toFixed(2) : "off");
    whole.disabled = !view.zoom;
    const words = view.filter.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (name) => words.every((word) => name.toLowerCase().includes(word));
    const wanted = all.map(([group, members]) => [group, members.filter(fits)]).filter(([, members]) => members.length);
    const [count, most] = [wanted, all].map((groups) => groups.flatMap(([, members]) => members).length);
    fill(shown, words.length ? `${plural(count, "chart")} of ${most}` : plural(count, "chart"));
    // Nothing is drawn before the first step, so that nothing that is drawn moves when it comes.
    const begun = runs.some((run) => run.metrics.steps.length);
    const signature = JSON.stringify([begun && wanted, words.length > 0]);
    if (signature === groups.signature) return;
    groups.signature = signature;
    const catalogue = catalogueOf(runs);
    const section = ([group, members]) => sectionOf(group, members, catalogue, words.length > 0);
    fill(groups, begun ? wanted.map(section) : waiting());
  }

  function waiting() {
    const trains = runs.some((run) => run.detail.summary.state === "training");
    const sentence = trains
      ? "No step is recorded yet; the curves appear with the first one."
      : "No step was recorded, so there are no curves.";
    return h("p", { class: trains ? "empty waiting" : "empty" }, sentence);
  }

  /** What a filter lets through is shown at once. */
  function sectionOf(group, members, catalogue, forced) {
    const body = h(
      "div",
      { class: "charts" },
      members.map((name) => card(name, catalogue)),
    );
    const heading = [`${group} `, h("span", { class: "muted" }, members.length)];
    return fold(`curves ${group}`, { view, keep, open: group === FIRST, forced, "data-group": group }, heading, body);
  }

  function card(name, catalogue) {
    if (!cards.has(name)) {
      const made = chart(name, declared(name, catalogue), runs, view);
      cards.set(name, made);
      dirty.add(made);
      seen.observe(made);
      sized.observe(made);
    }
    return cards.get(name);
  }
}

function metricNames(runs) {
  return [
    ...new Set(runs.flatMap((run) => [...Object.keys(run.metrics.values), ...run.evaluations.flatMap(scoreNames)])),
  ];
}

function scoreNames({ scores }) {
  return Object.entries(scores).flatMap(([set, metrics]) =>
    Object.keys(metrics).map((name) => (set ? `eval/${set}/${name}` : `eval/${name}`)),
  );
}
