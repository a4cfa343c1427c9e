// The runs of an address that names several: `#/compare?runs=a,b`.

import { decode, to } from "viewer/lib/router.js";

/** The address that shows runs over one another; an id may hold a comma. */
export function comparison(ids) {
  return to(["compare"], { runs: ids.map(encodeURIComponent).join(",") });
}

/** The ids that such an address names. */
export function compared(text = "") {
  return text.split(",").filter(Boolean).map(decode);
}
