// Opens the page that the address names, and gives it the keyboard and news of the runs that it shows.

import { ApiError, follow, lost, turnPage } from "viewer/lib/api.js";
import { sheets } from "viewer/lib/assets.js";
import { deadEnd } from "viewer/lib/dead_end.js";
import { fill, h } from "viewer/lib/dom.js";
import { route } from "viewer/lib/router.js";
import { keyboard } from "viewer/lib/keyboard.js";
import { header } from "viewer/lib/header.js";
import { visible } from "viewer/lib/visible.js";

// addresses.py knows of a page its parts (null: any), its module, and the sheets that it needs beside style.css. The module exports
// `show(place, route)`, which fills `place` and resolves to {title, crumbs, runs, changed, keys, shown, close}:
//   title     of the window
//   crumbs    [[label, address], ...] from the list of runs to this page
//   runs      ids of the runs to follow; changed({run, what}) is called when their files change
//   keys      {key: [what it does, function]}
//   shown()   is called once `place` is in the window
//   close()   is called before another page opens
const PAGES = JSON.parse(document.getElementById("pages").textContent);

let current = null;
let asked = 0;
let opened = 0;

async function open(event) {
  const number = ++asked;
  const top = history.state?.top ?? 0;
  turnPage();
  const here = route();
  const [, name, styles] = PAGES.find(([form]) => fits(form, here.parts)) ?? [];
  const place = h("div", { class: `page ${name ?? ""}` });
  let page;
  try {
    if (!name) throw new ApiError("There is no such page; begin at the list of runs.");
    const [found] = await Promise.all([module(name), sheets(styles)]);
    page = await found.show(place, here);
  } catch (error) {
    if (!(error instanceof ApiError)) console.error(error);
    page = await deadEnd(place, here, error, event !== undefined);
  }
  if (number !== asked) return page.close?.();
  current?.stop();
  current?.close?.();
  const stop = page.runs && page.changed ? follow(page.runs, page.changed) : () => {};
  current = { ...page, stop };
  document.title = page.title ? visible(`${page.title} · agent-r1`) : "agent-r1";
  header(document.getElementById("top"), page.crumbs ?? []);
  fill(document.getElementById("page"), place);
  page.shown?.();
  // Back to a page: to where it was left.
  opened = number;
  scrollTo(0, top);
}

async function module(name) {
  try {
    return await import(`viewer/pages/${name}.js`);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error; // the page itself is at fault
    console.warn(error.message);
    throw lost();
  }
}

function fits(form, parts) {
  return form.length === parts.length && form.every((part, index) => part === null || part === parts[index]);
}

// The cookie has the token by now; in the address it would be copied and kept in the history.
if (new URLSearchParams(location.search).has("token"))
  history.replaceState(history.state, "", location.pathname + location.hash);

keyboard(() => current?.keys ?? {});
addEventListener("hashchange", open);
// Until a page is open, what is scrolled is the one before, and its place is not this one's.
history.scrollRestoration = "manual";
addEventListener("scrollend", () => {
  if (opened === asked) history.replaceState({ ...history.state, top: scrollY }, "");
});
open();
