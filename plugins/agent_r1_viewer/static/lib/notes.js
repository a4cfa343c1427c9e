// What the health monitor said, and what happened to the run.

import { h } from "viewer/lib/dom.js";
import { moment, number, plural } from "viewer/lib/format.js";
import { table } from "viewer/lib/table.js";

const SIGNS = {
  started: "▶",
  resumed: "▶",
  note: "·",
  finished: "✓",
  stopped_early: "■",
  interrupted: "‖",
  failed: "✕",
};

/** The health of a run in a few words. */
export function healthTitle({ health }) {
  const alarmed = health.includes("alarms stand");
  const said = health.split("\n")[0].replace(/^health: /, "");
  return ["Health: ", h("span", { class: alarmed ? "warn" : "muted" }, alarmed ? "⚠ " : "", said)];
}

export function healthNotes({ health, alarms }) {
  const list = table({
    columns: [
      { key: "step", label: "step", number: true, value: (alarm) => alarm.step },
      { key: "monitor", label: "monitor", value: (alarm) => alarm.monitor },
      {
        key: "event",
        label: "alarm",
        width: "84px",
        value: (alarm) => alarm.event,
        show: (alarm) =>
          h(
            "span",
            { class: alarm.event === "begins" ? (alarm.severe ? "bad" : "warn") : "muted" },
            alarm.event === "begins" ? "⚠ begins" : "ends",
          ),
      },
      {
        key: "value",
        label: "value",
        number: true,
        value: (alarm) => alarm.value,
        show: (alarm) => number(alarm.value),
      },
      {
        key: "threshold",
        label: "limit",
        number: true,
        value: (alarm) => alarm.threshold,
        show: (alarm) => number(alarm.threshold),
      },
      { key: "sentence", label: "what it saw", width: "300px", value: (alarm) => alarm.sentence },
    ],
    rows: alarms,
    label: "Alarms",
  });
  return [h("p", {}, health), alarms.length > 0 && list];
}

/** How many events there are, and the last one. */
export function eventTitle({ events }) {
  const last = events.at(-1);
  const said = last ? `${plural(events.length, "line")}, the last: ${SIGNS[last.event] ?? "·"} ${last.event.replace("_", " ")}` : "none";
  return ["Events: ", h("span", { class: last?.event === "failed" ? "bad" : "muted" }, said)];
}

export function eventNotes({ events }) {
  if (!events.length) return null;
  const line = ({ time, step, event, text }) =>
    h(
      "tr",
      {},
      h("td", { class: "muted" }, moment(time)),
      h("td", { class: "number" }, number(step)),
      h("td", { class: event === "failed" ? "bad" : null }, `${SIGNS[event] ?? "·"} ${event.replace("_", " ")}`),
      h("td", {}, text),
    );
  const head = h(
    "tr",
    {},
    ["when", "step", "event", "what happened"].map((label, index) =>
      h("th", { scope: "col", class: index === 1 && "number" }, label),
    ),
  );
  return h(
    "div",
    { class: "table scrolls" },
    h("table", { class: "events" }, h("thead", {}, head), h("tbody", {}, events.map(line))),
  );
}
