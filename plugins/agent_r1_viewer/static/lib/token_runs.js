// Cuts a segment into what was given to the policy and what it sampled, and long stretches into blocks.

import { plural } from "viewer/lib/format.js";

const BLOCK = 300;

/**
 * [{from, to, label, turn, blocks(start, stop)}] in order over all tokens of a segment; `turn` is the turn whose action
 * a run is, or null. Blocks end where a line does, so that they can stand below one another.
 */
export function runsOf(episode, segment) {
  const { length, tokens } = episode.segments[segment];
  const turns = episode.turns.filter((turn) => turn.segment === segment).sort((a, b) => a.start - b.start);
  const runs = [];
  let at = 0;
  for (const turn of turns) {
    if (turn.start > at) runs.push({ from: at, to: turn.start, label: before(turn, at, segment), turn: null });
    const label = `turn ${turn.index} · ${turn.purpose} · ${plural(turn.stop - turn.start, "token")}`;
    runs.push({ from: turn.start, to: turn.stop, label, turn });
    at = turn.stop;
  }
  if (at < length) runs.push({ from: at, to: length, label: turns.length ? "after the last action" : "no action", turn: null });
  for (const run of runs) run.blocks = (start, stop) => blocks(tokens, start, stop);
  return runs;
}

function before(turn, at, segment) {
  if (at === 0) return segment === 0 ? "prompt" : "what the policy read after its context was rewritten";
  return `turn ${turn.index} · observation`;
}

function blocks(tokens, start, stop) {
  const found = [];
  while (start < stop) {
    const end = blockEnd(tokens, start, stop);
    found.push([start, end]);
    start = end;
  }
  return found;
}

/** After the first line that ends past BLOCK tokens; in the middle of a line only where that is very long. */
function blockEnd(tokens, start, stop) {
  const latest = Math.min(stop, start + 10 * BLOCK);
  for (let index = start + BLOCK; index < latest; index += 1) {
    if (tokens.text[index]?.endsWith("\n")) return index + 1;
  }
  return latest;
}
