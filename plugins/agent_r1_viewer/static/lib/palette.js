// Runs told apart by colour and by dashes, so that neither is needed alone.

import { colour } from "viewer/lib/theme.js";

const DASHES = [[], [7, 3], [2, 2], [9, 3, 2, 3], [4, 4], [12, 3], [1, 3], [6, 2, 1, 2, 1, 2]];
const SIZE = 8;

export function colourOf(index) {
  return colour(`--series-${index % SIZE}`);
}

export function dashOf(index) {
  // The ninth run has the first one's colour and another dash.
  return DASHES[(index + Math.floor(index / SIZE)) % DASHES.length];
}

/** The class that gives text the colour of a run. */
export function colourClass(index) {
  return `series-${index % SIZE}`;
}

/** A short piece of a run's line, for legends. */
export function swatch(index) {
  const picture = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  picture.setAttribute("class", `swatch ${colourClass(index)}`);
  picture.setAttribute("aria-hidden", "true");
  path.setAttribute("d", "M0 6H28");
  path.setAttribute("stroke-dasharray", dashOf(index).join(" "));
  picture.append(path);
  return picture;
}
