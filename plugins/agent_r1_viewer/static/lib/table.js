// A table that is sorted by a click or a key on the head of a column; its rows may lead to a page.

import { fill, h } from "viewer/lib/dom.js";

/**
 * columns: [{key, label, title, number, value(row), show(row), width}]. `value` sorts (numbers or text; without it the
 *   column does not sort), `show` is an element or a text (default: the value).
 * sort: [key, "up" | "down"] at the beginning or null; onsort(sort) hears of changes.
 * note(row): elements in a line of their own below the row.
 * link(row): the address that a click on the row opens, or null; the first column with a label holds it as a link, and stays
 *   in sight while the others scroll.
 * The element has `update(rows)`, which keeps the order that was chosen.
 */
export function table({ columns, rows, sort = null, onsort = () => {}, link = null, note = () => [], label = null }) {
  const body = h("tbody");
  const names = Math.max(
    0,
    columns.findIndex((column) => column.label),
  );
  const heads = columns.map((column, index) => head(column, index === names, () => choose(column)));
  const element = h(
    "div",
    { class: "table" },
    h("table", { "aria-label": label }, h("thead", {}, h("tr", {}, heads)), body),
  );
  element.addEventListener("click", open);

  function choose(column) {
    const same = sort?.[0] === column.key;
    const first = column.number ? "down" : "up";
    sort = [column.key, same ? (sort[1] === "up" ? "down" : "up") : first];
    draw();
    onsort(sort);
  }

  function draw() {
    columns.forEach((column, index) => {
      const direction = sort?.[0] === column.key ? { up: "ascending", down: "descending" }[sort[1]] : null;
      if (direction) heads[index].setAttribute("aria-sort", direction);
      else heads[index].removeAttribute("aria-sort");
    });
    fill(
      body,
      sorted(
        rows,
        columns.find((column) => column.key === sort?.[0]),
        sort?.[1],
      ).map(line),
    );
  }

  function line(row) {
    const address = link?.(row);
    const cells = columns.map((column, index) => cell(column, row, index === names, address));
    const said = note(row);
    return [
      h("tr", { class: address && "link", "data-href": address }, cells),
      said.length > 0 && h("tr", { class: "note" }, h("td", { colspan: columns.length }, said)),
    ];
  }

  element.update = (newRows) => {
    rows = newRows;
    draw();
  };
  draw();
  return element;
}

/** Move the focus to the next or the one before of a table's rows: by = 1 or -1. */
export function moveRow(element, by) {
  const links = [...element.querySelectorAll("tbody tr.link a.first")];
  if (!links.length) return;
  const here = links.findIndex((one) => one.closest("tr").contains(document.activeElement));
  const next = here < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, here + by));
  links[next].focus();
}

/** Rows in order; those without a value come last, both ways. */
export function sorted(rows, column, direction) {
  if (!column?.value) return rows;
  const sign = direction === "down" ? -1 : 1;
  const keyed = rows.map((row) => [column.value(row), row]);
  keyed.sort(([a], [b]) => missing(a) - missing(b) || sign * compare(a, b));
  return keyed.map(([, row]) => row);
}

function head(column, names, choose) {
  const text = column.value ? h("button", { onclick: choose, title: column.title }, column.label) : column.label;
  // On a phone the column that stays leaves room for the others.
  const style = column.width ? { minWidth: names ? `min(${column.width}, 36vw)` : column.width } : null;
  return h("th", { scope: "col", class: classOf(column, names), title: column.title, style }, text);
}

function cell(column, row, names, address) {
  const shown = column.show ? column.show(row) : column.value(row);
  return h("td", { class: classOf(column, names) }, names && address ? h("a", { class: "first", href: address }, shown) : shown);
}

function classOf(column, names) {
  return [column.number && "number", names && "stays"].filter(Boolean).join(" ") || null;
}

function open(event) {
  const row = event.target.closest("tr[data-href]");
  if (!row || event.target.closest("a, button, input, label, summary") || String(getSelection())) return;
  if (event.ctrlKey || event.metaKey) window.open(row.dataset.href);
  else location.hash = row.dataset.href;
}

function missing(value) {
  return value === null || value === undefined || value === "NaN" || Number.isNaN(value) ? 1 : 0;
}

function compare(a, b) {
  if (missing(a)) return 0;
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}
