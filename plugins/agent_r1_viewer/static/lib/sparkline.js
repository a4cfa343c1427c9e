// A small curve without axes, as SVG.

const SVG = "http://www.w3.org/2000/svg";

/** The points [[x, y], ...] as a line with a dot at its end; `label` is read to those who do not see it. */
export function sparkline(points, label, { width = 90, height = 22 } = {}) {
  const known = points.filter(([, y]) => typeof y === "number");
  const picture = element("svg", {
    class: "sparkline",
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": label,
  });
  if (!known.length) return picture;
  const across = scale(
    known.map(([x]) => x),
    2,
    width - 4,
  );
  const up = scale(
    known.map(([, y]) => y),
    height - 4,
    3,
  );
  const place = ([x, y]) => `${across(x).toFixed(1)} ${up(y).toFixed(1)}`;
  const [x, y] = known.at(-1);
  picture.append(
    element("path", { d: `M${known.map(place).join("L")}` }),
    element("circle", { cx: across(x).toFixed(1), cy: up(y).toFixed(1), r: 2 }),
  );
  return picture;
}

function scale(values, from, to) {
  const low = Math.min(...values);
  const high = Math.max(...values);
  return (value) => (high > low ? from + ((value - low) / (high - low)) * (to - from) : (from + to) / 2);
}

function element(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}
