// What a turn's info says where a program asked for it over HTTP: which request it answers, why its context began, and
// what left no turn. A run may come from anywhere, so that nothing here relies on the shape of the info.

import { h } from "viewer/lib/dom.js";
import { folded } from "viewer/lib/folded.js";
import { plural } from "viewer/lib/format.js";

const APIS = { chat: "Chat Completions", messages: "Messages", responses: "Responses" };
const OWN = new Set(["request", "left_out", "output"]);

/** "request 3 · Chat Completions", or null. */
export function requestOf(turn) {
  const request = asked(turn);
  return request && named(request);
}

/** Why a segment begins with this turn, or null: "new segment: other tools". */
export function segmentBegan(turn) {
  const { context: why, after } = asked(turn) ?? {};
  if (typeof why !== "string") return null;
  return `new segment: ${why === "continues" ? `the request goes on behind turn ${after}` : why}`;
}

/** The info that is not shown here. */
export function otherInfo(turn) {
  const info = turn.info ?? {};
  return asked(turn) || Array.isArray(info.left_out)
    ? Object.fromEntries(Object.entries(info).filter(([name]) => !OWN.has(name)))
    : info;
}

/** The requests that left no turn, and what the program printed. */
export function besidesTurn(turn, printed) {
  const given = turn.info?.left_out;
  const left = (Array.isArray(given) ? given : []).filter(isRequest);
  return [
    left.length > 0 &&
      h(
        "details",
        { class: "left-out" },
        h("summary", {}, `${plural(left.length, "request")} without a turn`),
        h("ol", { class: "calls" }, left.map(leftOut)),
      ),
    asked(turn) && printed && h("details", { class: "printed" }, h("summary", {}, "what the program printed"), printed),
  ];
}

function leftOut(request) {
  const reply = typeof request.reply === "string" && folded(request.reply, { letters: 1200, lines: 14 });
  return h("li", {}, h("p", {}, `${named(request)}: ${request.why}`), reply);
}

function named({ number, api, retries }) {
  const again = retries > 0 ? ` · ${plural(retries, "retry", "retries")}` : "";
  return `request ${number} · ${Object.hasOwn(APIS, api) ? APIS[api] : api}${again}`;
}

function asked(turn) {
  const request = turn.info?.request;
  return isRequest(request) ? request : null;
}

function isRequest(value) {
  return typeof value?.number === "number" && typeof value.api === "string";
}
