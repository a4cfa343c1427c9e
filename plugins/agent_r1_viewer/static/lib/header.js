// The head of every page: where it is, the search of its run, the theme, the keys.

import { isExport } from "viewer/lib/api.js";
import { fill, h } from "viewer/lib/dom.js";
import { showKeys } from "viewer/lib/keyboard.js";
import { route, to } from "viewer/lib/router.js";
import { switchTheme } from "viewer/lib/theme.js";

/** Show the way to this page: [[label, address], ...] from the list of runs on; the last one is the page itself. */
export function header(place, crumbs) {
  const way = crumbs.filter(([, address]) => !(isExport && address === to([])));
  const [room, run] = route().parts;
  const searchable = room === "runs" && run && !isExport;
  fill(
    place,
    skip(),
    h(
      "nav",
      { "aria-label": "Where this page is" },
      h(
        "ol",
        {},
        way.map((crumb, index) => item(crumb, index === way.length - 1)),
      ),
    ),
    h(
      "span",
      {
        class: "lost warn",
        role: "status",
        title: "Start `agent-r1 view` again, and open the address that it prints; this page shows what it has read.",
      },
      "⚠ not connected",
    ),
    searchable && h("a", { href: to(["runs", run, "search"]), title: "Search the episodes of this run" }, "search"),
    h("button", { onclick: switchTheme, title: "Light or dark", "aria-label": "Light or dark" }, "◐"),
    h("button", { onclick: showKeys, title: "Keys of this page", "aria-label": "Keys of this page" }, "?"),
  );
}

/** The first that Tab reaches; its address is this page's, since an address of a place in it would name a page. */
function skip() {
  const { parts, query } = route();
  const onclick = (event) => {
    event.preventDefault();
    document.getElementById("page").focus();
  };
  return h("a", { class: "skip", href: to(parts, query), onclick }, "Skip to the content");
}

function item([label, address], last) {
  return h("li", { "aria-current": last && "page", title: label }, last ? label : h("a", { href: address }, label));
}
