// Makes characters visible that would hide, reorder or break the text around them: control characters, marks of writing
// direction, halves of surrogate pairs, characters of no width. A run's text may hold any of them.

const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/gu;
const KEPT = new Set(["\n", "\t", "\u200c", "\u200d"]);
const NAMES = { "\r": "\\r", "\n": "↵\n", "\t": "⇥\t" };

/** Text of messages: lines, tabs and the joiners that many scripts need stay; the rest is escaped, as in \u202e. */
export function visible(text) {
  return text.replace(HIDDEN, (one) => (KEPT.has(one) ? one : (NAMES[one] ?? escaped(one))));
}

/** Text of one token: line ends get a sign and still break, white space alone becomes dots, nothing stays hidden. */
export function visibleToken(text) {
  const shown = text.replace(HIDDEN, (one) => NAMES[one] ?? escaped(one));
  return /^ +$/.test(shown) ? "·".repeat(shown.length) : shown;
}

/** The beginning of a text on one line. */
export function beginning(text, length) {
  const line = visible(text.slice(0, 4 * length))
    .replace(/\s+/g, " ")
    .trim();
  const letters = [...line];
  return letters.length > length ? `${letters.slice(0, length - 1).join("")}…` : line;
}

/** The question of a task: its prompt, or the last user message of it. */
export function question(prompt) {
  if (typeof prompt === "string") return prompt;
  const asked = prompt.filter((message) => message.role === "user");
  return (asked.at(-1) ?? prompt.at(-1))?.content ?? "";
}

function escaped(letter) {
  const code = letter.codePointAt(0).toString(16);
  return code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, "0")}`;
}
