// The sentences at the top, the partitions as a table, the notes, and whose work is in the page.
import { figure, make, section, table } from "./dom.js";
import { duration, percent, rate, times } from "./format.js";
import { worth } from "./model.js";

/** In the last comparison: the chosen plan, and the fastest simple way; what is missing is falsy. */
function compared(model) {
  const { simple } = model.report,
    fastest = (ways) => ways.reduce((best, way) => (!best || worth(model, way) > worth(model, best) ? way : best), null);
  const own = simple.find((way) => way.name === "penstock");
  return { own, other: fastest(simple.filter((way) => way !== own && !way.failure && worth(model, way) > 0)) };
}

/** Of a simple way that passed the plan there; empty: none did. */
function fasterWay(model) {
  const { own, other } = compared(model);
  if (!own || own.failure || !other || worth(model, other) <= worth(model, own)) return "";
  const more = percent(worth(model, other) / worth(model, own) - 1);
  return ` In the last comparison the simple way ${other.name} was ${more} faster than this plan; --refresh measures all again.`;
}

/** What one wants to know first: how fast, how much faster, and how much is left. */
export function figures(model) {
  const { report } = model,
    { own, other } = compared(model);
  const shown = [
    model.latency
      ? figure("latency", duration(report.latency_seconds), "from push to pop, measured")
      : figure("frames/s", rate(1 / report.period_seconds), `${duration(report.period_seconds)} a frame, measured`),
    own && other && figure("of the best simple way", times(worth(model, own) / worth(model, other)), `which is ${other.name}`),
    !model.latency && report.lower_bound_seconds > 0 && figure("gap to the bound", report.gap < 1 ? percent(report.gap) : times(1 + report.gap), "how much better a plan might be"),
    report.limit.seconds > 0 && figure("of the machine's limit", percent(report.fraction_of_limit), `by ${report.limit.bound}`),
  ];
  return make("dl", { class: "figures", id: "figures" }, shown.filter(Boolean).map(({ element }) => element));
}

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
    `, ${measured}.${gap}${fasterWay(model)}`,
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
