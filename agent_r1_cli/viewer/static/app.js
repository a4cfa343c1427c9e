// Opens the page that the address names, and gives it the keyboard and news of the runs that it shows.

import { ApiError, follow } from "viewer/lib/api.js";
import { fill, h } from "viewer/lib/dom.js";
import { route } from "viewer/lib/router.js";
import { keyboard } from "viewer/lib/keyboard.js";
import { header } from "viewer/lib/header.js";

// Each page module exports `show(place, route)`, which fills `place` and resolves to {title, crumbs, runs, changed, keys, shown, close}:
//   title     of the window
//   crumbs    [[label, address], ...] from the list of runs to this page
//   runs      ids of the runs to follow; changed({run, what}) is called when their files change
//   keys      {key: [what it does, function]}
//   shown()   is called once `place` is in the window
//   close()   is called before another page opens
const PAGES = [
  [[], "runs"],
  [["compare"], "run"],
  [["plot"], "plot"],
  [["runs", null], "run"],
  [["runs", null, "steps", null], "step"],
  [["runs", null, "steps", null, "groups", null], "group"],
  [["runs", null, "steps", null, "episodes", null], "episode"],
  [["runs", null, "evaluations"], "evaluations"],
  [["runs", null, "evaluations", null, "episodes", null], "episode"],
  [["runs", null, "search"], "search"],
];

let current = null;
let asked = 0;

async function open() {
  const number = ++asked;
  const here = route();
  const name = PAGES.find(([form]) => fits(form, here.parts))?.[1];
  const place = h("div", { class: `page ${name ?? ""}` });
  let page;
  try {
    if (!name) throw new ApiError("There is no such page; begin at the list of runs.");
    page = await (await module(name)).show(place, here);
  } catch (error) {
    page = { title: "not found", crumbs: [] };
    fill(place, h("p", { class: "problem", role: "alert" }, error instanceof ApiError ? error.message : String(error)));
    if (!(error instanceof ApiError)) console.error(error);
  }
  if (number !== asked) return page.close?.();
  current?.stop();
  current?.close?.();
  const stop = page.runs && page.changed ? follow(page.runs, page.changed) : () => {};
  current = { ...page, stop };
  document.title = page.title ? `${page.title} · agent-r1` : "agent-r1";
  header(document.getElementById("top"), page.crumbs ?? []);
  fill(document.getElementById("page"), place);
  page.shown?.();
  // Back to a page: to where it was left.
  scrollTo(0, history.state?.top ?? 0);
}

async function module(name) {
  try {
    return await import(`viewer/pages/${name}.js`);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error; // the page itself is at fault
    console.warn(error.message);
    throw new ApiError("The viewer does not answer; start `agent-r1 view` again, and load this page anew.");
  }
}

function fits(form, parts) {
  return form.length === parts.length && form.every((part, index) => part === null || part === parts[index]);
}

keyboard(() => current?.keys ?? {});
addEventListener("hashchange", open);
addEventListener("scrollend", () => history.replaceState({ ...history.state, top: scrollY }, ""));
open();
