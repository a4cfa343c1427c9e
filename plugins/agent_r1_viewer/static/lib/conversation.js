// An episode as a conversation: what the policy read, what it did, what its tools answered, and what each turn earned.

import { h } from "viewer/lib/dom.js";
import { folded, wholeText } from "viewer/lib/folded.js";
import { number, plural, seconds } from "viewer/lib/format.js";
import { besidesTurn, otherInfo, requestOf, segmentBegan } from "viewer/lib/program_turn.js";
import { turnReward } from "viewer/lib/rewards.js";

const FOLDS = {
  system: { letters: 500, lines: 6 },
  user: { letters: 2500, lines: 30 },
  tool: { letters: 1200, lines: 14 },
  assistant: { letters: 6000, lines: 80 },
};

/**
 * All turns of an episode. `parts` and `query` are its address in the API, for texts that the server cut; `goTo` shows
 * the tokens of a segment or a turn: goTo({segment: 1}), goTo({turn: 3}).
 */
export function conversation(episode, parts, query, goTo) {
  const text = (content, cut, role, part) =>
    folded(content, { ...(FOLDS[role] ?? FOLDS.tool), cut, whole: () => wholeText(parts, query, part) });
  const messages = (list, part) =>
    list.map((one, index) => message(one, text(one.content, one.cut ?? null, one.role, `${part}.${index}`)));
  return h(
    "div",
    { class: "conversation" },
    episode.turns.map((turn, index) => [
      context(episode, turn, episode.turns[index - 1], goTo),
      h(
        "section",
        { class: turn.purpose === "summary" ? "turn summary" : "turn", "data-turn": turn.index },
        head(turn, goTo),
        messages(turn.observation, `turns.${turn.index}.observation`),
        action(
          turn,
          text(turn.text, turn.cut ?? null, "assistant", `turns.${turn.index}.text`),
          turn.output && text(turn.output.content, turn.output.cut ?? null, "tool", `turns.${turn.index}.output`),
        ),
      ),
    ]),
    episode.turns.length === 0 && h("p", { class: "empty" }, "It ended before its first turn."),
    closing(episode, messages(episode.closing, "closing")),
  );
}

function head(turn, goTo) {
  const took = turn.stop - turn.start;
  const request = requestOf(turn);
  return h(
    "header",
    { class: "row" },
    h("h3", {}, turn.purpose === "action" ? `turn ${turn.index}` : `turn ${turn.index}: ${turn.purpose}`),
    h("span", { class: "muted" }, plural(took, "token"), turn.tool_seconds ? `, tools ${seconds(turn.tool_seconds)}` : ""),
    request && h("span", { class: "muted request" }, request),
    turn.finish === "length" && h("span", { class: "badge warn" }, "cut: the token budget ended the action"),
    turn.success === true && h("span", { class: "badge good" }, "✓ the environment says: success"),
    h(
      "span",
      { class: "end row" },
      turnReward(turn),
      h("button", { class: "fold", onclick: () => goTo({ turn: turn.index }) }, "tokens"),
    ),
  );
}

/** A break where the policy no longer reads what stands above. */
function context(episode, turn, previous, goTo) {
  if (!previous) return null;
  const rewritten = turn.segment !== previous.segment;
  if (!rewritten && !turn.new_context) return null;
  const why = turn.new_context
    ? "The environment began the conversation anew here; the policy read nothing of what stands above."
    : `The context was rewritten here${previous.purpose === "summary" ? ", with the summary above" : ""}; the policy read segment ${turn.segment}, and not all that stands above.`;
  const began = segmentBegan(turn);
  const button =
    rewritten && h("button", { onclick: () => goTo({ segment: turn.segment }) }, `the tokens of segment ${turn.segment}`);
  return h("p", { class: "break" }, began && h("strong", {}, began), began && " · ", why, " ", button);
}

function message({ role, name, content }, body) {
  const who = name ? `${role}: ${name}` : role;
  return h(
    "div",
    { class: Object.hasOwn(FOLDS, role) ? `message ${role}` : "message" },
    h("h4", {}, who),
    content === "" ? empty("an empty message") : body,
  );
}

function action(turn, body, printed) {
  const reported = otherInfo(turn);
  return h(
    "div",
    { class: "message policy" },
    h("h4", {}, turn.purpose === "summary" ? "policy: summary" : "policy"),
    turn.text === "" ? empty("an action without text") : body,
    turn.errors.map((error) => h("p", { class: "problem" }, error)),
    turn.calls.length > 0 && h("ol", { class: "calls" }, turn.calls.map(call)),
    Object.keys(reported).length > 0 &&
      h("details", {}, h("summary", {}, "what the environment reports"), argumentsOf(reported)),
    Object.keys(turn.notes ?? {}).length > 0 &&
      h("details", { class: "notes" }, h("summary", {}, "what its rewards say"), argumentsOf(turn.notes)),
    besidesTurn(turn, printed),
  );
}

function call({ name, arguments: given, error, seconds: took }) {
  return h(
    "li",
    { class: error === null ? "" : "error" },
    h(
      "div",
      { class: "row" },
      h("span", { class: "mono" }, name),
      h("span", { class: "muted" }, seconds(took)),
      error === null && h("span", { class: "muted" }, "answered"),
    ),
    argumentsOf(given),
    error !== null && h("div", { class: "problem" }, "✕ error: ", folded(error, { letters: 800, lines: 8 })),
  );
}

function argumentsOf(given) {
  const entries = Object.entries(given ?? {});
  if (!entries.length) return h("p", { class: "muted" }, "no arguments");
  return h(
    "dl",
    { class: "facts" },
    entries.map(([name, value]) => [h("dt", {}, name), h("dd", {}, folded(plain(value), { letters: 600, lines: 8 }))]),
  );
}

function plain(value) {
  if (typeof value === "string") return value;
  return typeof value === "number" ? number(value, 6) : JSON.stringify(value, null, 1);
}

function closing(episode, list) {
  if (!list.length) return null;
  return h(
    "section",
    { class: "turn closing" },
    h(
      "header",
      { class: "row" },
      h("h3", {}, "after the last action"),
      h("span", { class: "muted" }, "the policy never answered this"),
    ),
    list,
  );
}

function empty(what) {
  return h("p", { class: "muted" }, `(${what})`);
}
