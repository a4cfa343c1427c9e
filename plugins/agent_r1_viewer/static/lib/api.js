// Where data comes from: the server, or in an exported page the data that it carries.

const carried = readCarried();
let heard = null; // where the oldest answer of this page stands among the news

/** Whether this page is an export, which has no server. */
export const isExport = carried !== null;

export class ApiError extends Error {}

/** The error of a page whose viewer is gone. */
export function lost() {
  return new ApiError("The viewer does not answer; start `agent-r1 view` again, and open the address that it prints.");
}

/** The JSON at `/api/<parts>`, each part encoded: get(["runs", id, "metrics"], {after: 3}). Throws ApiError. */
export async function get(parts, query = {}, options = {}) {
  const path = address(parts, query);
  if (carried) {
    const found = (await carried)[path];
    if (found === undefined) throw new ApiError("This exported page does not hold this part of the run.");
    return found;
  }
  let response;
  try {
    response = await fetch(`/api/${path}`, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw lost();
  }
  heard = older(heard, response.headers.get("news") ?? "");
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new ApiError(body.error ?? `The viewer answered ${response.status}.`);
  return body;
}

/** Send JSON to `/api/<parts>`; resolves to what the server keeps of it. Throws ApiError. */
export function send(parts, value) {
  return get(parts, {}, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(value) });
}

/** The same as `get`, or null where it cannot be had. */
export async function getOrNull(parts, query = {}) {
  try {
    return await get(parts, query);
  } catch (error) {
    if (error instanceof ApiError) return null;
    throw error;
  }
}

/** From now on, answers are those of another page. */
export function turnPage() {
  heard = null;
}

/**
 * Call `changed({run, what})` whenever a run's files change after the page's first answer, until the returned function is
 * called. A page out of sight hears nothing until it is seen again: browsers keep six connections to a server, for all of
 * its pages.
 */
export function follow(runs, changed) {
  if (carried) return () => {};
  let since = heard ?? "";
  let source = null;
  const turn = () => {
    source?.close();
    source = document.hidden ? null : listen();
  };
  document.addEventListener("visibilitychange", turn);
  turn();
  return () => {
    document.removeEventListener("visibilitychange", turn);
    source?.close();
    // The next page may follow nothing, and would say so for ever.
    delete document.documentElement.dataset.lost;
  };

  function listen() {
    const query = new URLSearchParams([...runs.map((run) => ["run", run]), ["since", since]]);
    const opened = new EventSource(`/api/live?${query}`);
    opened.addEventListener("changed", (event) => {
      since = event.lastEventId;
      changed(JSON.parse(event.data));
    });
    opened.addEventListener("open", () => delete document.documentElement.dataset.lost);
    opened.addEventListener("error", () => (document.documentElement.dataset.lost = ""));
    return opened;
  }
}

/** The lines of a search as they come: objects with one of the keys hit, progress, problem, end. */
export async function* stream(parts, query, signal) {
  const response = await fetch(`/api/${address(parts, query)}`, { signal });
  if (!response.ok) throw new ApiError((await response.json().catch(() => ({}))).error ?? `${response.status}`);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line) yield JSON.parse(line);
  }
}

export function address(parts, query = {}) {
  const path = parts.map((part) => encodeURIComponent(part)).join("/");
  const asked = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return asked.length ? `${path}?${new URLSearchParams(asked)}` : path;
}

/** The older of two places among the news, as SERVER-NUMBER; of different servers none is. */
function older(one, other) {
  if (one === null) return other;
  const [server, number] = one.split("-");
  const [same, next] = other.split("-");
  if (server !== same) return "";
  return Number(next) < Number(number) ? other : one;
}

function readCarried() {
  const element = document.getElementById("carried");
  return element ? unpacked(element.textContent.trim()) : null;
}

/** Base64 of gzipped JSON: an object from addresses to answers. */
async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}
