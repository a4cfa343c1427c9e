// A run's configuration without its nesting.

/** Nested settings as "training.steps" -> the value's text. */
export function flatten(config, prefix = "") {
  const flat = new Map();
  for (const [key, value] of Object.entries(config)) {
    const name = prefix + key;
    if (holdsMore(value)) {
      for (const [inner, text] of flatten(value, `${name}.`)) flat.set(inner, text);
    } else flat.set(name, typeof value === "string" ? value : JSON.stringify(value));
  }
  return flat;
}

/** Sections and lists of sections go on; a list of plain values is one value. */
function holdsMore(value) {
  if (value === null || typeof value !== "object" || !Object.keys(value).length) return false;
  return !Array.isArray(value) || value.some((one) => one !== null && typeof one === "object");
}
