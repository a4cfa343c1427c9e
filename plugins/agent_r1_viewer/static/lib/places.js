// The addresses of steps, groups and episodes, and links to the neighbours of a page.

import { h } from "viewer/lib/dom.js";
import { to } from "viewer/lib/router.js";

/** The crumbs of a page of a run: [[label, address], ...]. */
export function crumbs(run, ...rest) {
  return [["runs", to([])], [run, to(["runs", run])], ...rest];
}

export function stepParts(run, step) {
  return ["runs", run, "steps", String(step)];
}

export function groupParts(run, step, group) {
  return [...stepParts(run, step), "groups", String(group)];
}

export function episodeParts(run, step, row) {
  return [...stepParts(run, step), "episodes", String(row)];
}

/** Links that carry the page's own state, such as the chosen colours; `query()` is that state now. */
export function carrier(query) {
  const links = [];
  return {
    /** A link to a page; without `parts` it keeps its place, switched off. */
    link(parts, attributes, ...children) {
      if (!parts) return h("span", { ...attributes, class: `${attributes.class ?? ""} off`, "aria-disabled": "true" }, children);
      const element = h("a", { ...attributes, href: to(parts, query()) }, children);
      links.push([element, parts]);
      return element;
    },
    /** Open a page by a key; nothing where there is none. */
    visit(parts) {
      if (parts) location.hash = to(parts, query());
    },
    update() {
      for (const [element, parts] of links) element.href = to(parts, query());
    },
  };
}

/** A link to the page before or after, with its key. */
export function neighbour(links, parts, label, key, title) {
  return links.link(parts, { class: "neighbour", title }, label, " ", h("kbd", {}, key));
}
