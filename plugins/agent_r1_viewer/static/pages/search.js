// Search over all episodes of a run: hits come as the steps are read, newest first.

import { ApiError, get, isExport, lost, stream } from "viewer/lib/api.js";
import { fill, h } from "viewer/lib/dom.js";
import { number, plural } from "viewer/lib/format.js";
import { crumbs } from "viewer/lib/places.js";
import { remember, to } from "viewer/lib/router.js";
import { FIELDS, asked, searchForm } from "viewer/lib/search_form.js";
import { hitItem } from "viewer/lib/search_hit.js";

export async function show(place, { parts, query }) {
  if (isExport) throw new ApiError("An exported page has no search, which needs the run itself.");
  const run = parts[1];
  const { episode_steps: known } = await get(["runs", run]);
  const form = searchForm(query, () => begin());
  const status = h("span", { role: "status" }, `${plural(known.length, "step")} to search, the newest first.`);
  const progress = h("progress", { max: 1, value: 0, "aria-label": "Steps searched" });
  const stop = h("button", { onclick: () => halt("stopped"), disabled: true }, "stop");
  const onward = h("button", { onclick: () => search(), disabled: true }, "go on");
  const list = h("ol", { class: "hits" });
  const problems = h("div", {});
  let running = null;
  let searched = 0;
  let steps = known.length;
  let next = null; // the newest step that is not searched yet; null: the newest of all
  let shown = new Set();
  fill(
    place,
    h("h1", {}, "Search"),
    h(
      "section",
      { class: "panel search" },
      form,
      h("div", { class: "row search-state" }, progress, status, h("span", { class: "end row" }, stop, onward)),
    ),
    problems,
    list,
  );
  if (FIELDS.some((name) => query[name])) begin();
  const keys = {
    "/": ["go to the text", () => form.elements.text.focus()],
    j: ["next hit", () => move(1)],
    k: ["hit before", () => move(-1)],
  };
  return {
    title: `search, ${run}`,
    crumbs: crumbs(run, ["search", to(parts)]),
    keys,
    close: () => running?.abort(),
    shown: () => list.hasChildNodes() || form.elements.text.focus(),
  };

  /** A new search; the one before ends at once. */
  function begin() {
    searched = 0;
    next = null;
    shown = new Set();
    fill(list);
    fill(problems);
    remember(parts, asked(form));
    search();
  }

  /** Search on from the first step that was not searched to its end. */
  async function search() {
    running?.abort();
    const mine = (running = new AbortController());
    const before = searched;
    stop.disabled = false;
    onward.disabled = true;
    say("searching");
    try {
      for await (const line of stream([...parts], { ...asked(form), from: next }, mine.signal)) {
        if (mine.signal.aborted) return;
        if (line.hit) add(line.hit);
        if (line.problem) problems.append(h("p", { class: "problem" }, line.problem));
        if (line.progress) {
          // A run that trains may have more steps by now than when the page was opened.
          searched = before + line.progress.searched;
          steps = before + line.progress.steps;
          next = line.progress.step - 1;
        }
        say("searching");
      }
      halt("searched");
    } catch (error) {
      if (mine.signal.aborted) return;
      if (!(error instanceof ApiError || error instanceof TypeError)) throw error;
      problems.append(
        h(
          "p",
          { class: "problem", role: "alert" },
          (error instanceof ApiError ? error : lost()).message,
        ),
      );
      halt("stopped");
    }
  }

  function halt(what) {
    running?.abort();
    stop.disabled = true;
    onward.disabled = searched >= steps;
    say(what);
  }

  /** A hit of a step that was searched in part may come a second time. */
  function add(hit) {
    const key = `${hit.step}/${hit.row}`;
    if (shown.has(key)) return;
    shown.add(key);
    list.append(hitItem(run, hit));
  }

  function say(what) {
    progress.max = Math.max(1, steps);
    progress.value = searched;
    fill(status, `${what} ${number(searched)} of ${plural(steps, "step")}, ${plural(shown.size, "hit")}`);
  }

  function move(by) {
    const links = [...list.querySelectorAll("a")];
    const here = links.indexOf(document.activeElement);
    links[Math.min(links.length - 1, Math.max(0, here + by))]?.focus();
  }
}
