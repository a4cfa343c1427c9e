// What some pages need beside modules: style sheets, and uPlot, which draws charts. Asked for by the first page that needs
// it, so that the list of runs waits for nothing; an exported page has all of it inside.

import { isExport, lost } from "viewer/lib/api.js";
import { h } from "viewer/lib/dom.js";

const loading = new Map();

/** Resolves once charts can be drawn. Throws ApiError. */
export async function drawing() {
  const sheet = sheets(["vendor/uPlot.min.css"]);
  if (!globalThis.uPlot) await loaded("vendor/uPlot.iife.min.js", (src, done) => h("script", { src, ...done }));
  await sheet;
}

/** Resolves once these style sheets are in force. Throws ApiError. */
export async function sheets(names) {
  if (isExport) return;
  await Promise.all(names.map((name) => loaded(name, (href, done) => h("link", { rel: "stylesheet", href, ...done }))));
}

/** Adds an element to the head once; one that could not be loaded is tried again by the next page. */
function loaded(name, element) {
  if (!loading.has(name)) {
    const done = new Promise((resolve, reject) => {
      document.head.append(element(`/static/${name}`, { onload: resolve, onerror: () => reject(lost()) }));
    });
    loading.set(name, done);
    done.catch(() => loading.delete(name));
  }
  return loading.get(name);
}
