// What a reader chose on the page of runs, as its address keeps it.

import { AXES } from "viewer/lib/series.js";

/** {filter, smooth, by, zoom, toggled: names of what is folded or unfolded other than at first, hidden: indices of lines}. */
export function viewOf(query) {
  const zoom = (query.zoom ?? "").split(":").map(Number);
  const smooth = Number(query.smooth);
  return {
    filter: query.filter ?? "",
    smooth: smooth > 0 && smooth < 1 ? smooth : 0,
    by: query.x in AXES ? query.x : "step",
    zoom: zoom.length === 2 && zoom.every(Number.isFinite) && zoom[0] < zoom[1] ? zoom : null,
    toggled: new Set((query.toggled ?? "").split(",").filter(Boolean)),
    hidden: new Set((query.hidden ?? "").split(",").filter(Boolean).map(Number)),
  };
}

export function addressOf(view) {
  return {
    filter: view.filter,
    smooth: view.smooth || null,
    x: view.by === "step" ? null : view.by,
    zoom: view.zoom?.map((end) => Number(end.toPrecision(6))).join(":"),
    toggled: [...view.toggled].join(","),
    hidden: [...view.hidden].join(","),
  };
}
