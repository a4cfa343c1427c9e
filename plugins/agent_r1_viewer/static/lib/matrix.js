// Questions by evaluations as a table whose head and first column stay in sight.

import { fill, h } from "viewer/lib/dom.js";
import { isNumber, number, score } from "viewer/lib/format.js";
import { CHANGES } from "viewer/lib/learnt.js";

const ROWS = 200; // that are added at a time

/**
 * evaluations: [{name, step, n}]; link(question, column): the address of an episode or null. The element has
 * update(questions, means), [{question, set, task, answers, cells, predictions, change}] and the mean of each column, which keeps
 * the place that it was scrolled to.
 */
export function matrix({ evaluations, share, link }) {
  let questions = [];
  const body = h("tbody");
  const means = evaluations.map(() => h("div"));
  const end = h("div", { "aria-hidden": "true" });
  const element = h(
    "div",
    { class: "table matrix", role: "region", "aria-label": "Scores", tabindex: 0 },
    h("table", {}, h("thead", {}, h("tr", {}, heads(evaluations, means))), body),
    end,
  );
  const near = new IntersectionObserver((entries) => entries.at(-1).isIntersecting && more(), {
    root: element,
    rootMargin: "1500px 0px",
  });
  near.observe(end);
  element.addEventListener("keydown", moved);
  // Back from an episode: to the questions that were in sight.
  element.addEventListener("scrollend", () =>
    history.replaceState({ ...history.state, matrix: [element.scrollLeft, element.scrollTop] }, ""),
  );
  element.shown = () => {
    const [left, top] = history.state?.matrix ?? [0, 0];
    while (body.rows.length < questions.length && element.scrollHeight < top + element.clientHeight) more();
    element.scrollTo(left, top);
  };

  function more() {
    const from = body.rows.length;
    if (from >= questions.length) return;
    body.append(...questions.slice(from, from + ROWS).map(line));
    // Ask again: the end may still be in sight.
    near.unobserve(end);
    near.observe(end);
  }

  function line(question) {
    const gold = question.answers.length ? ` → ${question.answers.join(" | ")}` : "";
    const of = question.set ? `${question.set}: ` : "";
    const cells = question.cells.map((value, column) => cell(question, value, column));
    const [sign, meaning] = CHANGES[question.change] ?? ["", ""];
    return h(
      "tr",
      {},
      h(
        "th",
        { scope: "row", title: `${of}${question.question}${gold}\n${question.task}` },
        of && h("span", { class: "muted" }, of),
        h("bdi", {}, question.question),
        h("bdi", { class: "muted" }, gold),
      ),
      h("td", { class: "change", title: meaning }, question.change ? `${sign} ${question.change}` : ""),
      cells,
    );
  }

  function cell(question, value, column) {
    if (value === null) return h("td", { class: "muted" }, h("span", {}, "·"));
    const given = question.predictions[column];
    const about = `${nameOf(evaluations[column])}: ${score(value)}, ${given === null ? "no answer" : `answered ${given}`}`;
    const address = link(question, column);
    const text = value === 1 ? "✓" : value === 0 ? "✕" : number(value, 2);
    return h(
      "td",
      { class: isNumber(value) ? tone(share(value)) : null, title: about },
      h(address ? "a" : "span", { href: address, tabindex: address && -1, "aria-label": about }, text),
    );
  }

  element.update = (newQuestions, newMeans) => {
    means.forEach((place, column) => fill(place, score(newMeans[column])));
    const rows = Math.max(ROWS, body.rows.length);
    questions = newQuestions;
    const top = element.scrollTop;
    fill(body, questions.slice(0, rows).map(line));
    element.scrollTop = top;
    const first = body.querySelector("a");
    if (first) first.tabIndex = 0;
    more();
  };
  element.close = () => near.disconnect();
  return element;
}

/** Arrow keys lead from cell to cell. */
function moved(event) {
  const cell = event.target.closest("td");
  const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  if (!cell || !step) return;
  event.preventDefault();
  const row = cell.parentElement;
  const next = row.parentElement.rows[row.sectionRowIndex + step[0]]?.cells[cell.cellIndex + step[1]];
  next?.querySelector("a")?.focus();
}

function heads(evaluations, means) {
  const column = (one, index) =>
    h("th", { scope: "col", title: `${one.name}, n = ${one.n}` }, nameOf(one).replace("step ", ""), means[index]);
  return [
    h("th", { scope: "col" }, "question → accepted answers"),
    h("th", { scope: "col", class: "number" }, "after step", h("div", {}, "mean")),
    evaluations.map(column),
  ];
}

function nameOf({ name, step }) {
  return step === null || !/^step_\d+$/.test(name) ? name : `step ${step}`;
}

function tone(part) {
  return part >= 0.999 ? "right" : part >= 0.5 ? "mostly" : part > 0.001 ? "hardly" : "wrong";
}
