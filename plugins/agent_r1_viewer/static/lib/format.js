// Numbers, times and counts as people read them.

const NONE = "–";

/** 0.789, 1,874, 3.4e-7; at most `digits` significant digits of a fraction. "NaN" stays, null becomes a dash. */
export function number(value, digits = 3) {
  if (value === null || value === undefined) return NONE;
  if (typeof value !== "number") return String(value).replace("Infinity", "∞");
  if (!Number.isFinite(value)) return String(value).replace("Infinity", "∞");
  if (value === 0) return "0"; // also −0
  const size = Math.abs(value);
  if (size >= 1e15 || (size > 0 && size < 1e-4)) return value.toExponential(digits - 1).replace(/\.?0+e/, "e");
  if (Number.isInteger(value) || size >= 10 ** digits) return Math.round(value).toLocaleString("en-US");
  return value.toLocaleString("en-US", { maximumSignificantDigits: digits });
}

/** A score with three places, so that a column of them lines up: 0.350, 1.000. */
export function score(value) {
  return typeof value === "number" && Number.isFinite(value) ? value.toFixed(3) : number(value);
}

/** 0.43 as "43 %". */
export function share(value) {
  return typeof value === "number" && Number.isFinite(value) ? `${number(100 * value)} %` : number(value);
}

/** A duration: "12 ms", "3.2 s", "1 min 15 s", "2 h 4 min", "3 d 1 h". */
export function seconds(value) {
  if (typeof value !== "number" || !Number.isFinite(value)) return number(value);
  if (value > 0 && value < 0.1) return `${number(1000 * value, 2)} ms`;
  if (value < 59.95) return `${number(value, value < 10 ? 2 : 3)} s`;
  const whole = Math.round(value);
  if (whole < 3600) return parts(whole, 60, "min", "s");
  if (whole < 86400) return parts(Math.round(whole / 60), 60, "h", "min");
  return parts(Math.round(whole / 3600), 24, "d", "h");
}

/** How long ago a moment (unix seconds) was: "just now", "5 min ago", "3 d ago". */
export function ago(unix) {
  if (typeof unix !== "number") return NONE;
  const past = Date.now() / 1000 - unix;
  if (past < 60) return "just now";
  if (past < 3600) return `${Math.floor(past / 60)} min ago`;
  if (past < 86400) return `${Math.floor(past / 3600)} h ago`;
  return `${Math.floor(past / 86400)} d ago`;
}

/** A moment (unix seconds) in the reader's own time: "2026-03-01 14:05:09". */
export function moment(unix) {
  if (typeof unix !== "number") return NONE;
  const date = new Date(1000 * unix);
  const two = (value) => String(value).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** plural(1, "run") is "1 run"; plural(2, "query", "queries") is "2 queries". */
export function plural(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}

/** The place of one of several, counted from 0 as in files and in Python: outOf(3, 16) is "3 (0 to 15)". */
export function outOf(index, count) {
  return count > 1 ? `${number(index)} (0 to ${number(count - 1)})` : number(index);
}

function parts(whole, size, large, small) {
  const rest = whole % size;
  return `${Math.floor(whole / size)} ${large}${rest ? ` ${rest} ${small}` : ""}`;
}

/** "7 turns and 2 summaries": a summary of the context is no turn, though it is sampled like one. */
export function turnsAndSummaries(turns) {
  const summaries = turns.filter((turn) => turn.purpose === "summary").length;
  const answered = plural(turns.length - summaries, "turn");
  return summaries ? `${answered} and ${summaries === 1 ? "1 summary" : `${summaries} summaries`}` : answered;
}

/** Whether a value is a finite number: unknown ones are null, and others texts such as "NaN". */
export function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}
