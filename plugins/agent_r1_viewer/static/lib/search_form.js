// What a search asks for: text, status, return, tool errors, turns.

import { h } from "viewer/lib/dom.js";

/** Names of the fields, as in addresses and in the API. */
export const FIELDS = ["text", "status", "tool_error", "low", "high", "turns_low", "turns_high"];

/** The form, filled from an address; `begin()` is called when it is sent. */
export function searchForm(query, begin) {
  const send = (event) => {
    event.preventDefault();
    begin();
  };
  return h(
    "form",
    { class: "row", onsubmit: send },
    h("input", {
      type: "search",
      name: "text",
      value: query.text,
      placeholder: "text of messages and answers",
      "aria-label": "Text",
    }),
    choice("status", "ended", query.status, {
      "": "in any way",
      terminated: "terminated",
      truncated: "truncated",
      failed: "failed",
    }),
    choice("tool_error", "tool errors", query.tool_error, { "": "any or none", yes: "at least one", no: "none" }),
    range("return", "low", "high", query, "any"),
    range("turns", "turns_low", "turns_high", query, "1"),
    h("button", { type: "submit" }, "search"),
  );
}

/** What the form asks for now: {field: value}, without those that are empty. */
export function asked(form) {
  return Object.fromEntries(FIELDS.map((name) => [name, form.elements[name].value]).filter(([, value]) => value !== ""));
}

function choice(name, label, chosen, options) {
  return h(
    "label",
    {},
    `${label} `,
    h(
      "select",
      { name },
      Object.entries(options).map(([value, text]) => h("option", { value, selected: value === (chosen ?? "") }, text)),
    ),
  );
}

function range(label, low, high, query, step) {
  const field = (name, what) => h("input", { type: "number", name, step, value: query[name], "aria-label": `${label}, ${what}` });
  return h("span", { class: "range" }, `${label} `, field(low, "at least"), " to ", field(high, "at most"));
}
