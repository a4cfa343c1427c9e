// Builds elements. Text only ever becomes text nodes, so nothing that a run holds is read as markup, and nothing in it is hidden.

import { visible } from "viewer/lib/visible.js";

const READ = new Set(["title", "aria-label"]); // attributes that people read

/**
 * h("td", {class: "number", onclick: f, title: "..."}, "text", [more, elements], null)
 * Attributes that are null, undefined or false are left out; true gives an empty attribute.
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : READ.has(name) ? visible(String(value)) : value);
  }
  add(element, children);
  return element;
}

/** Replace the children of an element. */
export function fill(element, ...children) {
  element.replaceChildren();
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(visible(String(child))));
  }
}
