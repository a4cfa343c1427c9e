// One chart of one metric: a line per run, smoothed and raw, with bands where an interval is known.

import { groupOf } from "viewer/lib/catalogue.js";
import { h } from "viewer/lib/dom.js";
import { number, plural } from "viewer/lib/format.js";
import { colourClass, colourOf, dashOf } from "viewer/lib/palette.js";
import { aligned, gapped, line } from "viewer/lib/series.js";
import { colour } from "viewer/lib/theme.js";
import { visible } from "viewer/lib/visible.js";

const HEIGHT = 180;
const WHOLE = Array.from({ length: 12 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat(); // there is no half step
const FINE = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, ...WHOLE];
const PER_RUN = 4; // series of a run: low, high, raw, smoothed

/**
 * The card of a metric. `view` is shared by all charts of a page: {by, smooth, zoom: [from, to] | null, hidden: Set of run indices,
 * zoomed(zoom), open(run, step)}; a run's `spans` of alarms are {from, to, severe, sentence, metric}; those of other metrics are
 * left out.
 * The element has draw() (also after its data changed), restyle(), inSight(now) and destroy().
 */
export function chart(name, declaration, runs, view) {
  let plot = null;
  let data = null;
  // Evaluations are few and have intervals, so that smoothing would only hide them.
  const weight = () => (name.startsWith("eval/") ? 0 : view.smooth);
  const readout = h("p", { class: "readout number" });
  const place = h("div", { class: "plot", onclick: clicked });
  const unit = declaration?.unit ? ` (${declaration.unit})` : "";
  const better = { higher: "; higher is better", lower: "; lower is better" }[declaration?.better] ?? "";
  const meaning = declaration ? `${declaration.meaning}${better}` : "";
  const element = h(
    "figure",
    { class: "chart", "data-metric": name },
    h(
      "figcaption",
      { title: meaning + unit },
      h("h3", {}, name, h("span", { class: "muted" }, unit)),
      h("p", { class: "meaning muted" }, meaning),
    ),
    readout,
    place,
  );

  element.draw = () => {
    data = aligned(
      runs.map((run) => line(run, name, view.by)),
      weight(),
    );
    const parts = (one) => [one.low, one.high, one.raw, one.smoothed ?? one.raw];
    const columns = data.lines.flatMap((one) => parts(one).map((values) => gapped(values, one.breaks)));
    if (!plot) plot = new uPlot(options(), [data.xs, ...columns], place);
    else plot.setData([data.xs, ...columns], false);
    plot.series.slice(1).forEach((series, index) => (series.show = shows(index)));
    range();
    read();
  };
  element.restyle = () => plot?.redraw(false);
  element.resize = () => plot?.setSize({ width: place.clientWidth, height: HEIGHT });
  element.inSight = (now) => {
    // A cursor that eighty charts follow is slow; those that nobody sees do not follow it.
    const cursors = uPlot.sync("run");
    if (plot && now !== cursors.plots.includes(plot)) cursors[now ? "sub" : "unsub"](plot);
  };
  element.destroy = () => plot?.destroy();
  element.zoom = range;
  return element;

  function range() {
    if (!plot || !data.xs.length) return;
    const [min, max] = view.zoom ?? extent(data.xs);
    plot.setScale("x", { min, max });
  }

  function shows(index) {
    if (view.hidden.has(Math.floor(index / PER_RUN))) return false;
    return index % PER_RUN !== 3 || weight() > 0;
  }

  function options() {
    const axis = {
      stroke: () => colour("--muted"),
      grid: { stroke: () => colour("--line"), width: 1 },
      ticks: { show: false },
      font: "11px system-ui, sans-serif",
    };
    const values = (_, splits) => splits.map((value) => number(value, 4));
    return {
      width: place.clientWidth,
      height: HEIGHT,
      padding: [8, 16, 0, 0],
      legend: { show: false },
      scales: { x: { time: false }, y: { range: spread } },
      axes: [
        { ...axis, size: 22, gap: 2, values, incrs: () => (view.by === "step" ? WHOLE : FINE) },
        { ...axis, size: 52, gap: 4, values },
      ],
      cursor: {
        sync: {
          key: "run",
          scales: ["x", null],
          filters: { pub: (kind) => kind === "mousemove" || kind === "mouseleave" },
        },
        drag: { x: true, y: false, setScale: false },
        bind: { dblclick: () => () => view.zoomed(null) },
        points: { size: 5 },
        y: false,
      },
      series: [{}, ...runs.flatMap((_, index) => seriesOf(index))],
      bands: runs.map((_, index) => ({
        series: [PER_RUN * index + 2, PER_RUN * index + 1],
        fill: () => faint(index, 0.18),
      })),
      hooks: { setCursor: [read], setSelect: [selected], drawClear: [marks] },
    };
  }

  function seriesOf(index) {
    const end = { stroke: null, points: { show: false } };
    const line = { dash: dashOf(index) };
    const points = (stroke) => ({
      show: (self, series) => self.data[series].filter(Number.isFinite).length <= 25,
      size: 4,
      stroke,
      fill: stroke,
    });
    const raw = () => (weight() ? faint(index, 0.3) : colourOf(index));
    return [
      end,
      end,
      { ...line, stroke: raw, width: 1.5, points: points(raw) },
      { ...line, stroke: () => colourOf(index), width: 2, points: { show: false } },
    ];
  }

  /** What the lines say under the cursor, or at their ends. */
  function read() {
    if (!data) return;
    const here = plot?.cursor.idx;
    const parts = runs.map((run, index) => {
      if (view.hidden.has(index)) return null;
      const { steps, raw, low, high, odd } = data.lines[index];
      const at = lastKnown(steps, here ?? steps.length - 1);
      if (at < 0) return null;
      const ends = low[at] === null || runs.length > 1 ? "" : ` [${number(low[at])}, ${number(high[at])}]`;
      const before = runs.length > 1 ? `${run.label} ` : `step ${steps[at]}: `;
      return h(
        "span",
        { class: colourClass(index), title: `${run.label}, step ${steps[at]}` },
        before,
        odd[at] === null ? h("b", {}, number(raw[at], 4)) : h("b", { class: "bad" }, number(odd[at])),
        ends,
      );
    });
    const alarms = here === null || here === undefined ? [] : alarmsAt(here);
    readout.replaceChildren(...parts.filter(Boolean).flatMap((part) => [part, " "]));
    if (alarms.length) readout.append(h("span", { class: "warn" }, `⚠ ${alarms[0].monitor}`));
    place.title = alarms.length
      ? `${plural(alarms.length, "alarm")}: ${visible(alarms.map((one) => one.sentence).join("\n"))}`
      : "";
  }

  function alarmsAt(index) {
    return runs.flatMap((run, number) => {
      const step = data.lines[number].steps[lastKnown(data.lines[number].steps, index)];
      return spansOf(run, number).filter((span) => span.from <= step && step <= span.to);
    });
  }

  /** An alarm whose monitor this version does not know may be about any metric of health; a hidden run has none. */
  function spansOf(run, index) {
    if (view.hidden.has(index)) return [];
    return run.spans.filter(({ metric }) => (metric ? metric === name : groupOf(name) === "health"));
  }

  function selected(self) {
    const { left, width } = self.select;
    if (width < 4) return;
    self.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    view.zoomed([self.posToVal(left, "x"), self.posToVal(left + width, "x")]);
  }

  function clicked() {
    const { idx, top } = plot?.cursor ?? {};
    if (idx === null || idx === undefined) return;
    const distances = runs.map((_, index) => {
      const at = lastKnown(data.lines[index].raw, idx);
      return at < 0 || view.hidden.has(index)
        ? [Infinity]
        : [Math.abs(plot.valToPos(data.lines[index].raw[at], "y") - top), index, at];
    });
    const [distance, index, at] = distances.sort((a, b) => a[0] - b[0])[0];
    if (distance < Infinity) view.open(runs[index], data.lines[index].steps[at]);
  }

  /** Alarms as a strip along the bottom, and a line where each began; values that are no numbers as ticks at the top. */
  function marks(self) {
    const { ctx, bbox } = self;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    runs.forEach((run, index) => {
      for (const { from, to, severe } of spansOf(run, index)) {
        const [left, right] = [from, Math.min(to, run.metrics.steps.at(-1) ?? from)].map((step) =>
          self.valToPos(run.across(view.by)(step), "x", true),
        );
        ctx.fillStyle = colour(severe ? "--bad" : "--warn");
        const edge = bbox.left + bbox.width;
        const start = left > edge ? left : Math.min(left, edge - 3); // one that begins with the newest step is seen, too
        ctx.fillRect(start, bbox.top + bbox.height - 4 * index - 4, Math.max(3, right - start), 3);
        if (runs.length === 1) ctx.fillRect(start, bbox.top, 1, bbox.height);
      }
    });
    ctx.fillStyle = colour("--bad");
    for (const { odd } of data.lines) {
      odd.forEach(
        (value, index) => value !== null && ctx.fillRect(self.valToPos(data.xs[index], "x", true) - 1, bbox.top, 3, 10),
      );
    }
    ctx.restore();
  }
}

function lastKnown(values, index) {
  let at = Math.min(index, values.length - 1);
  while (at >= 0 && values[at] === null) at -= 1;
  return at;
}

/** From the first to the last x; a single point gets room on both sides. */
function extent(xs) {
  const [low, high] = [xs[0], xs.at(-1)];
  return low < high ? [low, high] : [low - 0.5, high + 0.5];
}

/** Room above and below the lines; a constant is drawn in the middle. */
function spread(_, low, high) {
  if (low === null || high === null) return [0, 1];
  if (high - low < 1e-12 * Math.max(1, Math.abs(low)))
    return [low - (Math.abs(low) || 1) * 0.5, high + (Math.abs(high) || 1) * 0.5];
  const room = 0.06 * (high - low);
  return [low - room, high + room];
}

function faint(index, strength) {
  return colourOf(index).replace("rgb(", "rgba(").replace(")", `, ${strength})`);
}
