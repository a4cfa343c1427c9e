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

const WORDS = new Intl.Segmenter(undefined, { granularity: "word" });
const OPEN_TAG = /<[^<>\s]*$/;

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

/** Letters that all texts begin with; a word and a tag count whole. */
function shared(texts) {
  const most = Math.min(...texts.map((text) => text.length));
  let end = 0;
  while (end < most && texts.every((text) => text[end] === texts[0][end])) end += 1;
  const words = texts.map((text) => WORDS.segment(text).containing(end)?.index ?? end);
  const same = texts[0].slice(0, Math.min(...words));
  const tag = same.search(OPEN_TAG);
  return tag < 0 ? same.length : tag;
}

/** Full lengths, of texts of which the server sent only a beginning. */
function lengthOf(piece) {
  return piece.kind === "action" ? piece.cut : piece.messages.map((one) => one.cut).join(" ");
}

function textOf(piece) {
  return piece.kind === "action" ? piece.text : piece.messages.map((one) => one.content).join("\n");
}
