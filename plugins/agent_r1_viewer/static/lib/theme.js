// Light or dark: as the system says, until somebody switches it; the choice is remembered in this browser.

const KEY = "agent-r1 theme";
const colours = new Map();
const system = matchMedia("(prefers-color-scheme: dark)");

apply(remembered());
system.addEventListener("change", tell);

/** "light" or "dark", as the page looks now. */
export function theme() {
  return document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light");
}

/** Change from light to dark or back. */
export function switchTheme() {
  const other = theme() === "dark" ? "light" : "dark";
  apply(other);
  try {
    localStorage.setItem(KEY, other);
  } catch {
    // A page opened from a file may have no storage; it forgets the choice.
  }
  tell();
}

/** A custom property of style.css as a colour that a canvas understands: colour("--accent"). */
export function colour(name) {
  if (!colours.has(name)) colours.set(name, computed(name));
  return colours.get(name);
}

function computed(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/** Call `changed()` when the theme changes, until the returned function is called. */
export function onTheme(changed) {
  document.addEventListener("theme", changed);
  return () => document.removeEventListener("theme", changed);
}

function apply(name) {
  if (name) document.documentElement.dataset.theme = name;
}

function tell() {
  colours.clear();
  document.dispatchEvent(new Event("theme"));
}

function remembered() {
  try {
    const name = localStorage.getItem(KEY);
    return name === "light" || name === "dark" ? name : null;
  } catch {
    return null;
  }
}
