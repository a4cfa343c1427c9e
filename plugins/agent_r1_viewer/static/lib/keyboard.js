// Single keys outside of input fields; `?` shows those of the page.

import { fill, h } from "viewer/lib/dom.js";
import { switchTheme } from "viewer/lib/theme.js";

const SHOWN = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", " ": "space", Escape: "esc" };
const EVERYWHERE = { "?": ["show these keys", showKeys], d: ["light or dark", switchTheme] };

let keysOfPage = () => ({});
const dialog = h("dialog", { "aria-label": "Keys" });
dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());

/** Run the functions of `getKeys()`, {key: [what it does, function]}, when their keys are pressed. */
export function keyboard(getKeys) {
  keysOfPage = getKeys;
  document.body.append(dialog);
  document.addEventListener("keydown", pressed);
}

export function showKeys() {
  if (dialog.open) return dialog.close();
  const keys = Object.entries({ ...EVERYWHERE, ...keysOfPage() });
  fill(
    dialog,
    h("h2", {}, "Keys"),
    h(
      "dl",
      {},
      keys.map(([key, [what]]) => [h("dt", {}, h("kbd", {}, SHOWN[key] ?? key)), h("dd", {}, what)]),
    ),
    h("button", { onclick: () => dialog.close() }, "Close"),
  );
  dialog.showModal();
}

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (isField(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (dialog.open && event.key !== "?") return;
  const found = keysOfPage()[event.key] ?? EVERYWHERE[event.key];
  if (!found) return;
  event.preventDefault();
  found[1](event);
}

/** Whether letters typed here are text. A ticked box or a slider keeps its own keys alone. */
function isField(element) {
  if (element.isContentEditable || element.matches("textarea, select")) return true;
  return element.matches("input") && !["checkbox", "range"].includes(element.type);
}
