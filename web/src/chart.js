// A chart of some values over time, with what they are at the moment that is looked at.
import { make } from "./dom.js";

const kWidth = 600,
  kHeight = 120; // Of the drawing's own units; it is stretched to its place.

function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** A number at or above `value` that reads well, and so does half of it. */
export function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((step) => step >= value * 0.999) ?? 10 * power;
}

/** Polyline points of [time, value or null] pairs; a null begins a new line, so that gaps stay gaps. */
export function paths(pairs, from, to, top) {
  const found = [];
  let points = [];
  for (const [time, value] of pairs) {
    if (value == null) {
      if (points.length > 0) found.push(points);
      points = [];
    } else {
      const x = (kWidth * (time - from)) / Math.max(to - from, 1e-9);
      points.push(`${x.toFixed(1)},${(kHeight * (1 - Math.min(1, value / top))).toFixed(1)}`);
    }
  }
  if (points.length > 0) found.push(points);
  return found;
}

/** The texts beside the lines of a chart: of its scale at the left, of the time below. A screen reader hears the
    picture's own sentence instead. */
function makeTicks() {
  const texts = Array.from({ length: 5 }, () => make("span", {}));
  const scale = make("div", { class: "scale", "aria-hidden": "true" }, texts.slice(0, 3));
  const times = make("div", { class: "times", "aria-hidden": "true" }, texts.slice(3));
  const show = (values) => texts.forEach((element, i) => (element.textContent = values[i]));
  return { scale, times, show };
}

/** `lines`: [{name, of(sample) -> value or null}], `text(value)` says one, `round(value)` is the end of a scale that
    reaches so far, `most` bounds the scale from below, `level` is a value that a dashed line marks, `when(time)` says
    a sample's time. */
export function makeChart({ title, lines, text, when, round = roundUp, most = 0, level = null }) {
  const shapes = lines.map((_, i) => svg("path", { class: `curve curve${i}`, fill: "none" }));
  const dashed = svg("path", { class: "level", fill: "none" });
  const cursor = svg("path", { class: "cursor", fill: "none" });
  const picture = svg(
    "svg",
    { viewBox: `0 0 ${kWidth} ${kHeight}`, preserveAspectRatio: "none", role: "img" },
    svg("path", { class: "grid", fill: "none", d: `M0,${kHeight / 2}H${kWidth}` }),
    ...shapes,
    dashed,
    cursor,
  );
  const values = lines.map(() => make("b", {}, "\u2013"));
  const ticks = makeTicks();
  const caption = make(
    "figcaption",
    {},
    make("div", { class: "chart-title" }, title),
    lines.map(({ name }, i) =>
      make("span", { class: "key" }, make("span", { class: `stroke stroke${i}`, "aria-hidden": "true" }), `${name} `, values[i]),
    ),
    level != null && make("span", { class: "key" }, make("span", { class: "stroke dashes", "aria-hidden": "true" }), `predicted ${text(level)}`),
  );
  const draw = (samples, at, from) => {
    const to = samples.length > 0 ? samples[samples.length - 1].t : 0;
    const seen = samples.filter((sample) => sample.t >= from);
    const all = lines.map(({ of }) => seen.map((sample) => [sample.t, of(sample)]));
    const above = 1.05 * (level ?? 0); // A line at the upper edge would not be seen.
    const top = round(Math.max(most, above, ...all.flat().map(([, value]) => value ?? 0)));
    all.forEach((pairs, i) => {
      shapes[i].setAttribute("d", paths(pairs, from, to, top).map((points) => `M${points.join("L")}`).join(""));
    });
    if (level != null) {
      const y = (kHeight * (1 - Math.min(1, level / top))).toFixed(1);
      dashed.setAttribute("d", `M0,${y}H${kWidth}`);
    }
    const x = ((kWidth * (at.t - from)) / Math.max(to - from, 1e-9)).toFixed(1);
    cursor.setAttribute("d", at.t < to && at.t >= from ? `M${x},0V${kHeight}` : "");
    ticks.show([text(top), text(top / 2), text(0), when(from), when(to)]);
    const now = lines.map(({ name, of }, i) => {
      const value = of(at),
        shown = value == null ? "\u2013" : text(value);
      values[i].textContent = shown;
      return `${name} ${shown}`;
    });
    picture.setAttribute("aria-label", `${title} over time; now ${now.join(", ")}`);
  };
  return { element: make("figure", { class: "chart" }, caption, ticks.scale, picture, ticks.times), draw };
}
