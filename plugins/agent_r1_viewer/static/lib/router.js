// Addresses: everything after `#`, so that the same page works from a server and from a file.

// Inside a frame of a notebook, a link such as `#/runs/a` would lead to the notebook's own page.
if (location.protocol === "about:") {
  addEventListener("click", (event) => {
    const address = event.target.closest?.("a")?.getAttribute("href");
    if (!address?.startsWith("#") || event.defaultPrevented) return;
    event.preventDefault();
    location.hash = address;
  });
}

/** "#/runs/default-1/steps/3?sort=return" as {parts: ["runs", "default-1", "steps", "3"], query: {sort: "return"}}. */
export function route() {
  const [path, search = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return {
    parts: path.split("/").filter(Boolean).map(decode),
    query: Object.fromEntries(new URLSearchParams(search)),
  };
}

/** The address of a page: to(["runs", id, "steps", 3], {sort: "return"}). */
export function to(parts, query = {}) {
  const asked = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const path = parts.map((part) => encodeURIComponent(part)).join("/");
  return `#/${path}${asked.length ? `?${new URLSearchParams(asked)}` : ""}`;
}

/** Open a page; `replace` keeps it out of the history. */
export function go(parts, query = {}, { replace = false } = {}) {
  if (replace) location.replace(here(to(parts, query)));
  else location.hash = to(parts, query);
}

/** Change the address without opening a page: for the state of filters and sliders. A page that was left changes nothing. */
export function remember(parts, query = {}) {
  if (to(route().parts) !== to(parts)) return;
  history.replaceState(history.state, "", here(to(parts, query)));
}

/** An address as a whole URL: in a frame of a notebook, `#...` by itself would lead to the notebook's own page. */
function here(address) {
  return location.href.split("#")[0] + address;
}

/** What `encodeURIComponent` made of a text; a text that it did not make stays as it is. */
export function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
