// Pointer and arrow keys over tokens: one listener for all of them, and one token that is chosen.

const STEPS = { ArrowLeft: -1, ArrowRight: 1 };
const LINES = { ArrowUp: -1, ArrowDown: 1 };
const OURS = new Set([...Object.keys(STEPS), ...Object.keys(LINES), "Home", "End"]);

/**
 * Tell `show` which token is pointed at, else which is chosen by a click, a tap or the arrow keys: {segment, index}.
 * The result is for keys that are pressed elsewhere on the page: it does what the key does here.
 */
export function tokenKeys(element, show) {
  let chosen = null;
  let pointed = null;

  element.addEventListener("pointerover", (event) => point(event.target.closest(".token")));
  element.addEventListener("pointerleave", () => point(null));
  element.addEventListener("click", (event) => {
    const span = event.target.closest(".token");
    if (span && !String(getSelection())) choose(span);
  });
  element.addEventListener("keydown", (event) => {
    if (event.target !== element || event.ctrlKey || event.metaKey || event.altKey || !OURS.has(event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    press(event.key);
  });
  return (key) => {
    element.focus({ preventScroll: true });
    press(key);
  };

  function press(key) {
    const next = target(key);
    if (next) choose(next);
  }

  function point(span) {
    if (span === pointed) return;
    pointed = span;
    tell(pointed ?? chosen);
  }

  function choose(span) {
    chosen?.classList.remove("chosen");
    chosen = span;
    chosen.classList.add("chosen");
    element.classList.add("has-chosen");
    pointed = null;
    chosen.scrollIntoView({ block: "nearest" });
    tell(chosen);
  }

  function tell(span) {
    show(span ? place(span) : null);
  }

  /** The token that a key leads to; null: there is none further on. */
  function target(key) {
    const spans = element.querySelectorAll(".token");
    if (key === "End") return spans[spans.length - 1] ?? null;
    if (key === "Home" || !chosen) return spans[0] ?? null;
    if (key in STEPS) return neighbour(chosen, STEPS[key]);
    return lineAway(chosen, LINES[key]);
  }

  function neighbour(span, by) {
    let next = by > 0 ? span.nextElementSibling : span.previousElementSibling;
    while (next && !next.matches(".token")) next = by > 0 ? next.nextElementSibling : next.previousElementSibling;
    if (next) return next;
    const blocks = [...element.querySelectorAll(".block")];
    const spans = blocks[blocks.indexOf(span.parentElement) + by]?.querySelectorAll(".token");
    return spans?.[by > 0 ? 0 : spans.length - 1] ?? null;
  }

  /** The token of the line above or below that is nearest to the chosen one. */
  function lineAway(span, by) {
    const here = middle(span);
    let line = null;
    let best = null;
    for (let next = neighbour(span, by); next; next = neighbour(next, by)) {
      const there = middle(next);
      if (Math.abs(there.y - here.y) < here.height / 2) continue;
      line ??= there.y;
      if (Math.abs(there.y - line) > there.height / 2) break;
      if (!best || Math.abs(there.x - here.x) < Math.abs(best.x - here.x)) best = { span: next, x: there.x };
    }
    return best?.span ?? null;
  }
}

/** Which token a span shows. */
export function place(span) {
  return { segment: Number(span.closest(".segment").dataset.segment), index: Number(span.dataset.i) };
}

function middle(span) {
  const box = span.getClientRects()[0] ?? span.getBoundingClientRect();
  return { x: box.left + box.width / 2, y: box.top + box.height / 2, height: box.height };
}
