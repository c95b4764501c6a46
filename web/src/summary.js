// The sentences at the top, the partitions as a table, the notes, and whose work is in the page.
import { make, section, table } from "./dom.js";
import { duration, percent, rate } from "./format.js";

export function summary(model) {
  const { report } = model,
    { period_seconds: period, lower_bound_seconds: bound } = report;
  const measured = model.latency
    ? `${duration(report.latency_seconds)} from push to pop, measured`
    : `${rate(1 / period)} frames/s (${duration(period)} a frame), measured`;
  const gap =
    bound > 0 && !model.latency
      ? ` No plan with each stage on one of the devices, by the measured costs, is under ${duration(bound)}: the gap is ${percent(report.gap)}.`
      : "";
  return make(
    "p",
    {},
    "Goal ",
    make("b", {}, report.goal),
    " on ",
    report.devices.join(", "),
    ". Chosen: ",
    make("b", {}, report.chosen),
    `, ${measured}.${gap}`,
  );
}

export function partsSection(model, select) {
  const rows = model.report.parts.map((part) => [
    make("button", { type: "button", class: "plain", onclick: () => select(part.nodes[0]) }, part.label),
    `stage ${part.stage}`,
    String(part.nodes.length),
    part.backend,
    part.trials.map((trial) =>
      make(
        "div",
        {},
        `${trial.backend}: ${trial.failure || duration(trial.seconds)}${!trial.failure && trial.pieces > 1 ? ` in ${trial.pieces} pieces` : ""}`,
      ),
    ),
    part.reason,
  ]);
  return section(
    "Partitions",
    table("Table of partitions", ["operators", "stage", "count", "backend", "tried", "reason"], rows),
  );
}

export function outputsSection(model) {
  if (model.report.outputs.length === 0) return null;
  return section(
    "Outputs",
    table(
      "Table of outputs",
      ["output", "allowed", "doubt"],
      model.report.outputs.map((output) => [output.name, output.allowed, output.doubt]),
    ),
  );
}

export function notesSection(model) {
  if (model.report.notes.length === 0) return null;
  return section(
    "Notes",
    make(
      "ul",
      {},
      model.report.notes.map((note) => make("li", {}, note)),
    ),
  );
}
