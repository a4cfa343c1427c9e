// Where the samples of a group part: the first place at which their texts differ.

/**
 * The pieces of each sample, in order: [{kind: "observation" | "action", turn, text}]. `messages` are all messages of the
 * episode in order; the actions among them are those of `turns`.
 */
export function pieces({ turns, messages }) {
  const found = [];
  let at = 0;
  turns.forEach((turn, index) => {
    const action = messages.findIndex((one, place) => place >= at && one.role === "assistant" && one.content === turn.text);
    const stop = action < 0 ? at : action;
    found.push({ kind: "observation", turn: index, messages: messages.slice(at, stop) });
    found.push({ kind: "action", turn: index, text: turn.text, cut: turn.cut ?? null });
    at = action < 0 ? at : action + 1;
  });
  if (at < messages.length) found.push({ kind: "closing", turn: turns.length, messages: messages.slice(at) });
  return found;
}

/** {piece, offset}: up to there all samples say the same; null: they never part, or there is nothing to compare. */
export function parting(samples) {
  if (samples.length < 2) return null;
  const texts = samples.map((one) => one.map(textOf));
  for (let piece = 0; ; piece += 1) {
    const here = texts.map((one) => one[piece]);
    if (here.every((text) => text === undefined)) return null;
    if (here.some((text) => text === undefined)) return { piece, offset: 0 };
    if (here.some((text) => text !== here[0])) return { piece, offset: shared(here) };
    if (samples.some((one) => lengthOf(one[piece]) !== lengthOf(samples[0][piece]))) return { piece, offset: here[0].length };
  }
}

/** Letters that all texts begin with; a surrogate pair counts whole. */
function shared(texts) {
  const most = Math.min(...texts.map((text) => text.length));
  let end = 0;
  while (end < most && texts.every((text) => text[end] === texts[0][end])) end += 1;
  const before = texts[0].charCodeAt(end - 1);
  return before >= 0xd800 && before <= 0xdbff ? end - 1 : end;
}

/** Full lengths, of texts of which the server sent only a beginning. */
function lengthOf(piece) {
  return piece.kind === "action" ? piece.cut : piece.messages.map((one) => one.cut).join(" ");
}

function textOf(piece) {
  return piece.kind === "action" ? piece.text : piece.messages.map((one) => one.content).join("\n");
}
