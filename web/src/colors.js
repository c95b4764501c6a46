// What a box's colour says, and the key to it.
import { duration, percent } from "./format.js";

// By Okabe and Ito, told apart by the colour-blind; each is readable with black text.
const kNamed = ["#56b4e9", "#e69f00", "#2fb08a", "#cc79a7", "#f0e442", "#8f9bff", "#e8825a", "#b8b8b8"];
const kRamp = [
  [68, 90, 150],
  [49, 130, 142],
  [53, 183, 121],
  [180, 222, 44],
  [253, 231, 37],
]; // As viridis.

function ramp(fraction) {
  const at = Math.min(1, Math.max(0, fraction)) * (kRamp.length - 1),
    low = Math.min(kRamp.length - 2, Math.floor(at));
  return kRamp[low].map((value, i) => Math.round(value + (kRamp[low + 1][i] - value) * (at - low)));
}

const css = ([r, g, b]) => `rgb(${r},${g},${b})`;

/** Text on it. */
export function inkOn(color) {
  const [r, g, b] = color.startsWith("#")
    ? [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16))
    : color.match(/\d+/g).map(Number);
  return 0.299 * r + 0.587 * g + 0.114 * b > 120 ? "#111" : "#fff";
}

function byName(name, keys, keyOf) {
  const color = new Map(keys.map((key, i) => [key, kNamed[i % kNamed.length]]));
  return {
    name,
    of: (box) => {
      const shares = new Map();
      for (const node of box.nodes)
        shares.set(keyOf(node), (shares.get(keyOf(node)) ?? 0) + Math.max(node.seconds, 1e-12));
      return [...shares].map(([key, share]) => [color.get(key), share]);
    },
    key: keys.map((key) => [color.get(key), key]),
  };
}

function byTime(model, boxes) {
  const longest = boxes.reduce((most, box) => Math.max(most, box.seconds), 1e-12);
  const of = (seconds) => css(ramp(Math.sqrt(seconds / longest)));
  return {
    name: "time",
    of: (box) => [[of(box.seconds), 1]],
    key: [0, 0.1, 0.4, 1].map((share) => [of(longest * share), duration(longest * share)]),
  };
}

/** The limit of the operators whose limit is known, of their time; null where it is of none. */
export function fractionOfLimit(nodes) {
  const known = nodes.filter((node) => node.limit_seconds > 0 && node.seconds > 0);
  if (known.length === 0) return null;
  const sum = (name) => known.reduce((all, node) => all + node[name], 0);
  return sum("limit_seconds") / sum("seconds");
}

function byLimit() {
  const kUnknown = "#b8b8b8";
  const of = (fraction) => (fraction === null ? kUnknown : css(ramp(fraction)));
  return {
    name: "limit",
    of: (box) => [[of(fractionOfLimit(box.nodes)), 1]],
    key: [...[0, 0.25, 0.5, 0.75, 1].map((share) => [of(share), percent(share)]), [kUnknown, "moves only, or not known"]],
  };
}

/** By model.load: of each stage the share of the time in which it computes; empty before that is known. */
function byLoad(model) {
  const of = (stage) => css(ramp(model.load[stage] ?? 0));
  return {
    name: "load",
    of: (box) => [...new Set(box.nodes.map((node) => node.stage))].map((stage) => [of(stage), 1]),
    key: [0, 0.25, 0.5, 0.75, 1].map((share) => [css(ramp(share)), percent(share)]),
  };
}

/** {name, of(box) -> [[color, share]], key: [[color, text]]} */
export function makeColors(name, model, boxes) {
  if (name === "load") return byLoad(model);
  if (name === "limit") return byLimit();
  if (name === "time") return byTime(model, boxes);
  if (name === "stage") {
    return byName(
      name,
      Array.from({ length: model.stages }, (_, i) => `stage ${i}`),
      (node) => `stage ${node.stage}`,
    );
  }
  return byName("backend", [...new Set(model.nodes.map((node) => node.backend))].sort(), (node) => node.backend);
}
