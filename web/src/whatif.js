// What if there were other devices, cuts or backends: controls over predict.js.
import { makeBars } from "./bars.js";
import { make, section } from "./dom.js";
import { counted, duration, rate } from "./format.js";
import { predict } from "./predict.js";

const kWays = [
  ["replicas", "the whole network on each device"],
  ["stages", "one stage a device, cut where it is best"],
  ["cuts", "the cuts that I made"],
];

function select(id, options, onchange) {
  return make(
    "select",
    { id, onchange },
    options.map(([value, text]) => make("option", { value }, text)),
  );
}

function field(label, control) {
  return make("div", { class: "field" }, make("label", { for: control.id }, label), control);
}

/** {element, cutButton(node)}: the button goes into the details of an operator. */
export function makeWhatIf(model, network) {
  const cuts = new Set(),
    backends = [
      ...new Set(
        model.report.parts.flatMap((part) =>
          part.trials.filter((trial) => !trial.failure).map((trial) => trial.backend),
        ),
      ),
    ].sort();
  const devices = make("input", {
    id: "what-devices",
    type: "number",
    min: 1,
    max: 64,
    value: Math.max(1, model.report.devices.length),
    oninput: () => update(),
  });
  const way = select("what-way", kWays, () => update());
  const backend = select(
    "what-backend",
    [["", "as chosen"], ...backends.map((name) => [name, `${name} where it was timed`])],
    () => update(),
  );
  const result = make("div", { class: "result" }),
    said = make("p", { role: "status", id: "predicted" });

  function update() {
    const count = Math.min(64, Math.max(1, Math.round(Number(devices.value) || 1)));
    const made = predict(model, { devices: count, backend: backend.value, way: way.value, cuts });
    network.cutAfter(made.cuts);
    const measured = model.report.period_seconds;
    if (made.period <= 0) {
      said.replaceChildren("The report holds no times of operators: nothing can be predicted.");
      result.replaceChildren();
      return;
    }
    said.replaceChildren(
      make("b", {}, "Predicted: "),
      `${rate(1 / made.period)} frames/s (${duration(made.period)} a frame) on ${counted(count, "device")} with ${counted(made.loads.length, "stage")}; `,
      `measured, the chosen plan: ${rate(1 / measured)} frames/s. One frame computes for ${duration(made.latency)}.`,
    );
    result.replaceChildren(
      makeBars(
        "Predicted time of each stage",
        made.loads.slice(0, 64).map((value, i) => ({
          name: `stage ${i}`,
          value,
          text: duration(value),
          mark: value >= Math.max(...made.loads),
          note:
            i < made.cuts.length ? `cut after ${model.nodes[made.cuts[i]].op} ${model.nodes[made.cuts[i]].name}` : "",
        })),
      ),
    );
  }

  let shown = null; // The operator whose details are seen.
  function cutButton(node) {
    shown = node;
    const is = cuts.has(node.id);
    const toggle = (event) => {
      if (is) cuts.delete(node.id);
      else cuts.add(node.id);
      way.value = "cuts";
      update();
      event.target.replaceWith(cutButton(node));
      document.getElementById("cut-after").focus();
    };
    return make(
      "button",
      { type: "button", id: "cut-after", "aria-pressed": String(is), onclick: toggle },
      is ? "Take the cut away" : "What if cut after it",
    );
  }

  const clear = make(
    "button",
    {
      type: "button",
      onclick: () => {
        cuts.clear();
        update();
        document.getElementById("cut-after")?.replaceWith(cutButton(shown));
      },
    },
    "Take all my cuts away",
  );
  const element = section(
    "What if",
    make(
      "p",
      { class: "hint" },
      "A prediction by the times in this report, as if devices were alike: it counts no hand-over between devices, no shared caches, no memory, and no states, whose stages have one instance each. Only a build measures.",
    ),
    make("div", { class: "fields" }, field("Devices", devices), field("Split", way), field("Backend", backend), clear),
    said,
    result,
  );
  return { element, cutButton, start: update };
}
