// Long texts: their beginning, and on demand all of them, in parts that the browser lays out only when they are seen.

import { ApiError, address, isExport, lost } from "viewer/lib/api.js";
import { fill, h } from "viewer/lib/dom.js";
import { number } from "viewer/lib/format.js";

const PART = 8000;

/**
 * A text of which the first `letters` or `lines` are shown. `cut` is the full length where the server sent only a
 * beginning; then `whole()` fetches all of it.
 */
export function folded(text, { letters = 1500, lines = 20, cut = null, whole = null } = {}) {
  const place = h("div", { class: "folded" });
  const end = endOf(text, letters, lines);
  if (end >= text.length && !cut) return fill(place, block(text));
  const length = cut ?? text.length;
  const say = h("span", { class: "problem", role: "status" });
  const button = h("button", { class: "fold", onclick: open }, `show all ${number(length)} characters`);
  return fill(place, block(text.slice(0, end), "cut"), button, say);

  async function open() {
    button.disabled = true;
    try {
      const all = cut ? await whole() : text;
      const less = h("button", { class: "fold", onclick: () => place.replaceWith(folded(all, { letters, lines })) }, "show less");
      fill(place, blocks(all), less);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      button.disabled = false;
      fill(say, ` ${error.message}`);
    }
  }
}

/** The whole text of a part of an episode; `parts` is the episode's address, `part` as in "turns.0.observation.1". */
export async function wholeText(parts, query, part) {
  if (isExport) throw new ApiError("This exported page holds only the beginning of this text.");
  let answer;
  try {
    answer = await fetch(`/api/${address([...parts, "text"], { ...query, part })}`);
  } catch {
    throw lost();
  }
  if (answer.ok) return answer.text();
  throw new ApiError((await answer.json().catch(() => ({}))).error ?? `The viewer answered ${answer.status}.`);
}

function block(text, kind = "") {
  return h("pre", { class: `text ${kind}` }, text);
}

/** A text as blocks of some lines each. */
function blocks(text) {
  if (text.length <= 2 * PART) return block(text);
  const parts = [];
  for (let start = 0; start < text.length;) {
    const stop = partEnd(text, start);
    const ended = text[stop - 1] === "\n" && stop < text.length;
    parts.push(h("pre", { class: "text part" }, text.slice(start, ended ? stop - 1 : stop)));
    start = stop;
  }
  return parts;
}

function partEnd(text, start) {
  if (start + PART >= text.length) return text.length;
  const line = text.indexOf("\n", start + PART);
  return whole(text, line < 0 || line > start + 2 * PART ? start + PART : line + 1);
}

function endOf(text, letters, lines) {
  let end = Math.min(text.length, letters);
  for (let at = -1, line = 0; line < lines; line += 1) {
    at = text.indexOf("\n", at + 1);
    if (at < 0 || at >= end) return whole(text, end);
    if (line === lines - 1) end = at;
  }
  return end;
}

/** A place that does not part a surrogate pair. */
function whole(text, end) {
  const before = text.charCodeAt(end - 1);
  return end < text.length && before >= 0xd800 && before <= 0xdbff ? end - 1 : end;
}
