// How far the plan is from what the machine could do, and what the time of a frame is spent on.
import { makeBars } from "./bars.js";
import { fractionOfLimit } from "./colors.js";
import { make, section, table } from "./dom.js";
import { bytes, counted, duration, percent, rate } from "./format.js";
import { byOperator } from "./model.js";

const kMost = 8; // Lines of each kind.

function sentence(model) {
  const { limit, fraction_of_limit: fraction } = model.report;
  return make(
    "p",
    {},
    make("b", {}, percent(fraction)),
    ` of what the devices together could do. Their limit is ${duration(limit.seconds)} a frame, by ${limit.bound}: `,
    `${rate(limit.flops / 1e9)} GFLOP of fp32 at ${rate(limit.flops_per_second / 1e9)} GFLOP/s, and `,
    `${bytes(limit.bytes)} to move at ${rate(limit.bytes_per_second / 1e9)} GB/s from ${limit.level}.`,
  );
}

/** What all workers together have for a frame. */
function timeOfFrame(model) {
  const { report } = model;
  return model.latency ? report.latency_seconds : report.period_seconds * report.limit.workers;
}

function shares(model) {
  const all = timeOfFrame(model);
  const row = (name, seconds, nodes) => {
    const fraction = fractionOfLimit(nodes);
    return {
      name,
      value: seconds,
      text: `${percent(seconds / all)}, ${duration(seconds)}`,
      note: fraction === null ? "" : `${percent(fraction)} of the limit`,
    };
  };
  const operators = byOperator(model.nodes)
    .slice(0, kMost)
    .map(({ op, count, seconds }) =>
      row(
        `${count} ${op}`,
        seconds,
        model.nodes.filter((node) => node.op === op),
      ),
    );
  const engines = [...new Set(model.nodes.map((node) => node.backend))].map((name) => {
    const nodes = model.nodes.filter((node) => node.backend === name);
    return row(
      `engine ${name}`,
      nodes.reduce((sum, node) => sum + node.seconds, 0),
      nodes,
    );
  });
  return [...operators, ...engines, row("waiting and handing over", Math.max(all - model.seconds, 0), [])];
}

function handovers(model, select) {
  const { parts, limit } = model.report;
  if (limit.handovers.length === 0) return null;
  const part = (place) =>
    make(
      "button",
      { type: "button", class: "plain", onclick: () => select(parts[place].nodes[0]) },
      `${parts[place].label} (stage ${parts[place].stage}, ${parts[place].backend})`,
    );
  const largest = [...limit.handovers].sort((a, b) => b.bytes - a.bytes).slice(0, kMost);
  return [
    make("h3", {}, "Hand-overs"),
    table(
      "Table of hand-overs",
      ["from", "to", "a frame"],
      largest.map((one) => [part(one.from), part(one.to), bytes(one.bytes)]),
    ),
    limit.handovers.length > kMost &&
      make("p", { class: "hint" }, `and ${counted(limit.handovers.length - kMost, "smaller one")}`),
  ];
}

/** Null where the limit is not known. */
export function limitSection(model, select) {
  if (!(model.report.limit.seconds > 0)) return null;
  return section(
    "How far from the limit",
    sentence(model),
    make("h3", {}, `Where the time of a frame goes: ${duration(timeOfFrame(model))} of ${counted(model.report.limit.workers, "worker")}`),
    makeBars("Where the time of a frame goes", shares(model)),
    handovers(model, select),
  );
}
