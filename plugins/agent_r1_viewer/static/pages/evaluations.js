// Questions by evaluations: what the policy learnt and what it forgot, with links to the episodes.

import { get, getOrNull } from "viewer/lib/api.js";
import { fill, h } from "viewer/lib/dom.js";
import { isNumber, plural } from "viewer/lib/format.js";
import { CHANGES, reading } from "viewer/lib/learnt.js";
import { matrix } from "viewer/lib/matrix.js";
import { refresher } from "viewer/lib/refresh.js";
import { remember, to } from "viewer/lib/router.js";
import { sorted } from "viewer/lib/table.js";

const BY_MEAN = { value: (one) => one.mean };

/** Orders of questions; the first shows what fails now, and of that what failed from the beginning. */
const ORDERS = {
  failing: ["failing first", (all) => sorted(sorted(all, BY_MEAN, "up"), { value: (one) => one.cells.findLast(isNumber) }, "up")],
  asked: ["as they were asked", (all) => all],
  low: ["lowest scores first", (all) => sorted(all, BY_MEAN, "up")],
  high: ["highest scores first", (all) => sorted(all, BY_MEAN, "down")],
};

export async function show(place, { parts, query }) {
  const id = parts[1];
  const chosen = {
    score: query.score ?? "",
    text: query.text ?? "",
    set: query.set ?? "",
    change: query.change ?? "",
    order: query.order in ORDERS ? query.order : "failing",
  };
  let answer = await get(parts, { score: chosen.score });
  let questions = [];
  let grid = null;
  let closed = false;
  const read = refresher(async () => {
    const before = JSON.stringify(answer);
    answer = await get(parts, { score: chosen.score });
    if (!closed && JSON.stringify(answer) !== before) redraw();
  });

  const text = h("input", {
    type: "search",
    value: chosen.text,
    placeholder: "question, answer or task",
    "aria-label": "Filter questions",
  });
  text.addEventListener("input", () => keep({ text: text.value }));
  const score = select("Score", async (value) => {
    keep({ score: value });
    await read();
    score.value = answer.score; // what the matrix shows, if the other one could not be had
  });
  const sets = select("Set", (value) => keep({ set: value }));
  const order = select("Order", (value) => keep({ order: value }));
  const buttons = h("div", {
    class: "row changes",
    role: "group",
    "aria-label": "From the first to the last evaluation",
  });
  const body = h("div");
  fill(
    place,
    h(
      "div",
      { class: "panel" },
      h("div", { class: "row" }, h("h1", {}, "Evaluations"), score, sets, order, text),
      buttons,
    ),
    body,
  );
  redraw();

  /** Take a new answer over: other evaluations may mean other columns. */
  function redraw() {
    const { share, change } = reading(answer.cells);
    questions = answer.questions.map((question, row) => ({
      ...question,
      cells: answer.cells[row],
      rows: answer.rows[row],
      predictions: answer.predictions[row],
      change: change(answer.cells[row]),
      mean: mean(answer.cells[row]),
    }));
    const scrolled = grid ? [grid.scrollTop, grid.scrollLeft] : null;
    grid?.close();
    grid = matrix({ evaluations: answer.evaluations, share, link });
    fill(
      score,
      answer.scores.map((one) => option(one, one, answer.score)),
    );
    fill(
      sets,
      ["", ...new Set(questions.map((one) => one.set))].map((one) => option(one, one || "all sets", chosen.set)),
    );
    sets.hidden = new Set(questions.map((one) => one.set)).size < 2;
    fill(
      order,
      Object.entries(ORDERS).map(([one, [label]]) => option(one, label, chosen.order)),
    );
    const problems = (answer.problems ?? []).map((problem) => h("p", { class: "problem" }, problem));
    fill(body, problems, answer.questions.length ? grid : !problems.length && nothing(id));
    arrange();
    if (scrolled) [grid.scrollTop, grid.scrollLeft] = scrolled;
  }

  function arrange() {
    const words = chosen.text.toLowerCase().split(/\s+/).filter(Boolean);
    const asked = questions.filter(
      (one) => (!chosen.set || one.set === chosen.set) && words.every((word) => textOf(one).includes(word)),
    );
    const count = (change) => asked.filter((one) => one.change === change).length;
    const button = (change, label, title) =>
      h(
        "button",
        {
          "aria-pressed": String(chosen.change === change),
          title,
          "data-change": change || "all",
          onclick: () => keep({ change: chosen.change === change ? "" : change }),
        },
        label,
      );
    fill(
      buttons,
      button("", plural(asked.length, "question"), "all of them"),
      Object.entries(CHANGES).map(([change, [sign, meaning]]) =>
        button(change, `${sign} ${change} ${count(change)}`, meaning),
      ),
    );
    const shown = asked.filter((one) => !chosen.change || one.change === chosen.change);
    grid.update(
      ORDERS[chosen.order][1](shown),
      answer.evaluations.map((_, column) => meanOfSets(asked, column, answer.chooser)),
    );
  }

  function keep(change) {
    Object.assign(chosen, change);
    remember(parts, { ...chosen, order: chosen.order === "failing" ? "" : chosen.order });
    arrange();
  }

  function link(question, column) {
    const row = question.rows[column];
    return row === null
      ? null
      : to([...parts, answer.evaluations[column].name, "episodes", row], { set: question.set });
  }

  return {
    title: `Evaluations of ${id}`,
    crumbs: [
      ["runs", to([])],
      [id, to(["runs", id])],
      ["evaluations", to(parts)],
    ],
    runs: [id],
    changed: read,
    shown: () => grid.shown(),
    close: () => {
      closed = true;
      grid.close();
    },
    keys: {
      "/": ["filter questions", () => text.focus()],
      l: ["learnt", () => keep({ change: chosen.change === "learnt" ? "" : "learnt" })],
      f: ["forgotten", () => keep({ change: chosen.change === "forgotten" ? "" : "forgotten" })],
      g: ["to the cells; arrows lead on", () => grid.querySelector("tbody a")?.focus()],
    },
  };
}

function select(label, changed) {
  const element = h("select", { "aria-label": label });
  element.addEventListener("change", () => changed(element.value));
  return element;
}

function option(value, label, chosen) {
  return h("option", { value, selected: value === chosen }, label);
}

function textOf({ question, task, answers }) {
  return [question, task, ...answers].join(" ").toLowerCase();
}

/** In place of the matrix: why it is empty, and what fills it. */
function nothing(id) {
  const place = h("p", { class: "empty" });
  getOrNull(["runs", id]).then((run) => {
    const trains = run?.summary.state === "training";
    const command = h("code", {}, `agent-r1 eval ${run?.summary.path ?? id}`);
    fill(place, trains ? "This run has no evaluations yet." : ["This run has no evaluations; ", command, " makes one."]);
  });
  return place;
}

/** Of the scores that are numbers. */
/** The unweighted mean of the sets' means, as runs report it: without the set that chooses checkpoints, if others are shown. */
function meanOfSets(questions, column, chooser) {
  const others = questions.filter((one) => one.set !== chooser);
  const counted = others.length ? others : questions;
  const sets = [...new Set(counted.map((one) => one.set))];
  return mean(sets.map((set) => mean(counted.filter((one) => one.set === set).map((one) => one.cells[column]))));
}

function mean(values) {
  const known = values.filter(isNumber);
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
}
