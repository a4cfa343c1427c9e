// The tokens of an episode as the engine saw them: a span each, in runs of given and of sampled tokens.

import { missing, scale } from "viewer/lib/colour.js";
import { fill, h } from "viewer/lib/dom.js";
import { number, outOf, plural } from "viewer/lib/format.js";
import { segmentBegan } from "viewer/lib/program_turn.js";
import { sign, signed, turnReward } from "viewer/lib/rewards.js";
import { tokenKeys } from "viewer/lib/token_keys.js";
import { runsOf } from "viewer/lib/token_runs.js";
import { visibleToken } from "viewer/lib/visible.js";

/**
 * Draw an episode's tokens. `show(token)` hears of the token under the pointer or chosen by keys: {segment, index} or
 * null; `more(segment, from)` fetches the columns of further tokens, and `changed()` hears when they are drawn; `goTo(turn)` shows a turn in the conversation. The element has
 * `colour(colouring)`, which gives the scale, and `press(key)`, which does what an arrow key does.
 */
export function tokenView(episode, { show, more, changed, goTo }) {
  const sections = episode.segments.map((_, segment) => section(episode, segment, more, changed, goTo));
  const element = h("div", {
    class: "tokens",
    tabindex: 0,
    role: "group",
    "aria-label": "Tokens; the arrow keys go through them",
  });
  const ids =
    sections.length > 0 && !episode.known.text && "The run's tokenizer cannot be read, so tokens are shown as their ids.";
  fill(
    element,
    ids && h("p", { class: "muted" }, ids),
    sections.length ? sections : h("p", { class: "empty" }, "It has no tokens."),
  );
  element.press = tokenKeys(element, show);

  element.colour = (chosen) => {
    const found = scale(chosen, episode.segments);
    const known = !missing(chosen.key, episode);
    element.dataset.colour = chosen.key;
    const positionOf = (tokens, index) => (chosen.value && known ? found.at(chosen.value(tokens, index)) : null);
    sections.forEach((part, segment) => {
      for (const span of part.querySelectorAll(".token.sampled")) {
        const position = positionOf(episode.segments[segment].tokens, Number(span.dataset.i));
        span.classList.toggle("below", position < 0);
        span.classList.toggle("unknown", chosen.value !== null && position === null);
        span.style.setProperty("--at", `${(100 * Math.abs(position ?? 0)).toFixed(1)}%`);
      }
    });
    return found;
  };
  return element;
}

function section(episode, segment, more, changed, goTo) {
  const { length } = episode.segments[segment];
  const runs = h("div", {});
  const rest = h("p", { class: "rest" });
  const element = h("section", { class: "segment", "data-segment": segment }, heading(episode, segment), runs, rest);
  draw(0);
  return element;

  function draw(from) {
    const loaded = episode.segments[segment].tokens.id.length;
    runs.append(...runsOf(episode, segment).flatMap((run) => drawRun(episode, segment, run, from, goTo)));
    if (loaded >= length) return fill(rest);
    const left = length - loaded;
    const button = h("button", { onclick: load }, `show ${number(Math.min(left, 20000))} more of ${number(left)} tokens`);
    fill(rest, button);

    async function load() {
      button.disabled = true;
      try {
        const columns = await more(segment, loaded);
        for (const [name, values] of Object.entries(columns)) episode.segments[segment].tokens[name].push(...values);
        draw(loaded);
        changed();
      } catch (error) {
        fill(rest, button, h("span", { class: "problem" }, ` ${error.message}`));
        button.disabled = false;
      }
    }
  }
}

function heading(episode, segment) {
  const { length, sampled } = episode.segments[segment];
  if (episode.segments.length === 1) return null;
  const first = episode.turns.find((turn) => turn.segment === segment);
  const began = first && segmentBegan(first);
  const rewritten =
    segment > 0 ? "The context was rewritten: from here on the policy read this instead of all that stands above." : null;
  return h(
    "header",
    { class: segment ? "break" : "" },
    h("h2", {}, `Segment ${outOf(segment, episode.segments.length)}`),
    segment > 0 && began && h("p", {}, began),
    h("p", { class: "muted" }, rewritten, rewritten && " ", `${plural(length, "token")}, ${number(sampled)} of them sampled.`),
  );
}

/** The tokens of a run from `from` on; nothing if all of it stands before. */
function drawRun(episode, segment, run, from, goTo) {
  const { tokens } = episode.segments[segment];
  const start = Math.max(run.from, from);
  const stop = Math.min(run.to, tokens.id.length);
  if (start >= stop) return [];
  const blocks = run.blocks(start, stop).map(([first, last]) => {
    const spans = [];
    for (let index = first; index < last; index += 1) spans.push(span(tokens, index, episode.known.text));
    return h("div", { class: "block" }, spans);
  });
  if (run.turn && stop === run.turn.stop) blocks.at(-1).append(...marks(episode, run.turn));
  const label = start === run.from && h("h3", {}, title(run, goTo));
  const turn = run.turn && start === run.from ? run.turn.index : null;
  return [h("div", { class: `run ${run.turn ? "action" : "given"}`, "data-turn": turn }, label, blocks)];
}

/** What a run is; of an action, a way to its turn in the conversation. */
function title({ label, turn }, goTo) {
  return turn
    ? h("button", { class: "fold", title: "show it in the conversation", onclick: () => goTo(turn.index) }, label)
    : label;
}

function span(tokens, index, spelled) {
  const element = document.createElement("span");
  const sampled = tokens.mask[index] === 1;
  element.className = `token ${sampled ? "sampled" : "given"}${tokens.kind[index] === "text" ? "" : ` ${tokens.kind[index]}`}`;
  element.dataset.i = index;
  element.textContent = spelled ? visibleToken(tokens.text[index]) : `${tokens.id[index]} `;
  return element;
}

/** What the last token of a turn carries: its process rewards, and at the end of the episode the outcome. */
function marks(episode, turn) {
  const last = turn === episode.turns.at(-1);
  const outcome = `outcome ${signed(episode.reward)}`;
  return [
    turnReward(turn),
    last &&
      h(
        "span",
        { class: `mark ${sign(episode.reward)}`, title: "outcome reward, weighted; the last action carries it" },
        outcome,
      ),
  ].filter(Boolean);
}
