// What is known of the selected box: its operators, its part, what was tried on it, and why it is where it is.
import { makeBars } from "./bars.js";
import { fractionOfLimit } from "./colors.js";
import { make } from "./dom.js";
import { runOf, titleOf } from "./fold.js";
import { counted, duration, percent } from "./format.js";
import { byOperator } from "./model.js";

function facts(pairs) {
  return make(
    "dl",
    {},
    pairs.filter(([, value]) => value !== "").flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]),
  );
}

function trialsOf(part) {
  const rows = part.trials.map((trial) => ({
    name: trial.backend,
    value: trial.seconds,
    low: trial.low,
    high: trial.high,
    failure: trial.failure,
    mark: trial.backend === part.backend,
    text: trial.failure ? "" : duration(trial.seconds),
    note: trial.failure
      ? ""
      : `95 % within ${duration(trial.low)} to ${duration(trial.high)}${trial.pieces > 1 ? `, sum of ${trial.pieces} pieces` : ""}`,
  }));
  return rows.length === 0
    ? make("p", { class: "hint" }, "This report holds no backend's time on this part by itself.")
    : makeBars("Backends tried on this part", rows);
}

/** Of the time that some operators took, the share that the machine needs at least. */
function ofLimit(nodes) {
  const fraction = fractionOfLimit(nodes);
  return fraction === null ? "" : `${percent(fraction)} of what its device could do`;
}

function partOf(part) {
  return [
    make("h4", {}, "Its part"),
    facts([
      ["operators", `${part.nodes.length}: ${part.label}`],
      ["stage", String(part.stage)],
      ["backend", part.backend],
      ["why", part.reason],
      ["limit", part.limit_seconds > 0 ? `${duration(part.limit_seconds)} at least, by ${part.bound}` : ""],
    ]),
    make("h4", {}, "Tried on it"),
    trialsOf(part),
  ];
}

function links(network, title, ids) {
  if (ids.length === 0) return null;
  const shown = ids.slice(0, 12).map((id) => {
    const node = network.model.nodes[id];
    return make(
      "li",
      {},
      make(
        "button",
        { type: "button", onclick: () => network.select(id, { show: true }) },
        make("b", {}, node.op),
        ` ${node.name}`,
      ),
    );
  });
  return [
    make("h4", {}, title),
    make(
      "ul",
      { class: "links" },
      shown,
      ids.length > 12 && make("li", { class: "hint" }, `and ${ids.length - 12} more`),
    ),
  ];
}

function foldButton(network, id) {
  const run = runOf(network.runs, id);
  if (!run) return null;
  const folded = network.folded.has(run);
  return make(
    "button",
    { type: "button", id: "toggle-run", onclick: () => network.toggle(id) },
    folded ? `Unfold ${run.count} blocks` : `Fold ${run.count} repeated blocks of ${run.period}`,
  );
}

function ofNode(network, node) {
  return [
    facts([
      ["name", node.name],
      ["index", String(node.id)],
      ["stage", String(node.stage)],
      ["backend", node.backend],
      [
        "time",
        `${duration(node.seconds)}, ${percent(node.seconds / Math.max(network.model.seconds, 1e-12))} of a frame: its share of its part's measured time`,
      ],
      ["limit", ofLimit([node])],
    ]),
    node.part && partOf(node.part),
    links(network, "Reads", node.inputs),
    links(network, "Read by", node.readers),
  ];
}

function ofRun(network, box) {
  const blocks = Array.from({ length: box.run.count }, (_, i) =>
    box.nodes.slice(i * box.run.period, (i + 1) * box.run.period),
  );
  const times = blocks.map((block, i) => {
    const value = block.reduce((sum, node) => sum + node.seconds, 0);
    return { name: `block ${i}`, value, text: duration(value) };
  });
  const operators = byOperator(box.nodes)
    .slice(0, 8)
    .map(({ op, count, seconds }) => ({ name: `${count} ${op}`, value: seconds, text: duration(seconds) }));
  const parts = [...new Set(box.nodes.map((node) => node.part).filter(Boolean))];
  return [
    facts([
      ["blocks", `${box.run.count} of ${counted(box.run.period, "operator")}`],
      ["time", `${duration(box.seconds)}, ${percent(box.seconds / Math.max(network.model.seconds, 1e-12))} of a frame`],
      ["limit", ofLimit(box.nodes)],
      ["stages", [...new Set(box.nodes.map((node) => node.stage))].join(", ")],
      ["backends", [...new Set(box.nodes.map((node) => node.backend))].join(", ")],
    ]),
    make("h4", {}, "Blocks"),
    makeBars("Time of each block", times.slice(0, 40)),
    make("h4", {}, "Operators"),
    makeBars("Time by operator", operators),
    parts.length === 1 && partOf(parts[0]),
  ];
}

/** Of the whole network: what each stage has to do. */
function overview(model) {
  const rows = Array.from({ length: model.stages }, (_, stage) => {
    const nodes = model.nodes.filter((node) => node.stage === stage),
      value = nodes.reduce((sum, node) => sum + node.seconds, 0);
    const note = `${counted(nodes.length, "operator")}, ${[...new Set(nodes.map((node) => node.backend))].join(" and ")}`;
    return { name: `stage ${stage}`, value, text: duration(value), note, mark: true };
  });
  return [make("h4", {}, "Time of a frame in each stage"), makeBars("Time of a frame in each stage", rows)];
}

/** What a screen reader says where the selection changes. */
export function sentenceOf(network, box) {
  if (!box) return "nothing selected";
  if (box.run) return `${titleOf(box)}, ${box.nodes.length} operators folded, ${duration(box.seconds)}`;
  const [node] = box.nodes;
  return `${node.op} ${node.name}, stage ${node.stage}, ${node.backend}, ${duration(node.seconds)}, ${counted(box.inputs.length, "input")}, ${counted(box.readers.length, "reader")}`;
}

/** `actions(node)` makes further buttons. */
export function showDetails(panel, network, box, actions) {
  if (!box) {
    panel.replaceChildren(
      make("h3", {}, "Details"),
      make(
        "p",
        { class: "hint" },
        "Click an operator, or go to one by arrow keys or by the search: what was tried on its part and why it is where it is stands here.",
      ),
      ...overview(network.model),
    );
    return;
  }
  const [node] = box.nodes;
  panel.replaceChildren(
    make("h3", {}, titleOf(box)),
    make("p", { class: "buttons" }, foldButton(network, node.id), actions(box.nodes[box.nodes.length - 1])),
    ...(box.run ? ofRun(network, box) : ofNode(network, node)).flat().filter(Boolean),
  );
}
