// Charts of a few metrics of one run, or of several over one another, and nothing else: what a notebook shows inline.

import { ApiError } from "viewer/lib/api.js";
import { catalogueOf, declared } from "viewer/lib/catalogue.js";
import { chart } from "viewer/lib/chart.js";
import { compared } from "viewer/lib/comparison.js";
import { fill, h } from "viewer/lib/dom.js";
import { drawing } from "viewer/lib/assets.js";
import { swatch } from "viewer/lib/palette.js";
import { to } from "viewer/lib/router.js";
import { runData } from "viewer/lib/run_data.js";
import { onTheme } from "viewer/lib/theme.js";

export async function show(place, { parts, query }) {
  const ids = compared(query.runs);
  const names = (query.metrics ?? "").split(",").filter(Boolean);
  if (!ids.length || !names.length) throw new ApiError("This address names no runs, or no metrics of them.");
  const [runs] = await Promise.all([Promise.all(ids.map(runData)), drawing()]);
  const catalogue = catalogueOf(runs);
  const view = { by: "step", smooth: 0, zoom: null, hidden: new Set(), zoomed, open: () => {} };
  const cards = names.map((name) => chart(name, declared(name, catalogue), runs, view));
  const legend = h("p", { class: "row" }, runs.map((run, index) => h("span", {}, swatch(index), run.label)));
  const style = names.length === 1 ? { gridTemplateColumns: "1fr" } : {};
  fill(place, h("section", { class: "panel", "aria-label": "Curves" }, runs.length > 1 && legend, h("div", { class: "charts", style }, cards)));

  const sized = new ResizeObserver((entries) => entries.forEach(({ target }) => target.resize()));
  const unheard = onTheme(() => cards.forEach((card) => card.restyle()));
  const title = runs.map((run) => run.label).join(", ");
  return { title, crumbs: [["runs", to([])], [title, to(parts, query)]], shown, close };

  function shown() {
    for (const card of cards) {
      card.draw();
      sized.observe(card);
    }
  }

  function zoomed(zoom) {
    view.zoom = zoom;
    cards.forEach((card) => card.zoom());
  }

  function close() {
    unheard();
    sized.disconnect();
    cards.forEach((card) => card.destroy());
  }
}
