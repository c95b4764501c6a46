// The parts of the page of a running pipeline: figures, tables, errors; each is made once, and shown for a sample.
import { figure, make, section, table } from "./dom.js";
import { bytes, clock, duration, percent, rate } from "./format.js";

const micro = (value) => (value == null ? "\u2013" : duration(value / 1e6));

const put = (place, text) => place.textContent !== text && (place.textContent = text);

/** A bar of a share between 0 and 1, with its text. */
function makeMeter(label) {
  const bar = make("div", { class: "bar own" });
  const text = make("span", { class: "meter-text" });
  const element = make("div", { class: "meter", role: "img", "aria-label": label }, make("div", { class: "track" }, bar), text);
  const show = (share, shown) => {
    bar.style.width = `${(100 * Math.min(1, Math.max(0, share))).toFixed(1)}%`;
    put(text, shown);
    element.setAttribute("aria-label", `${label}: ${shown}`);
  };
  return { element, show };
}

const kBusy = 0.8; // Load of the busiest stage below which the pipeline waits for frames, or for who takes them.

/** How the rate is beside what the plan predicts. */
function besidePrediction(about, sample) {
  const period = about.predicted.period_seconds;
  if (!(period > 0)) return "";
  const share = sample.fps * period,
    waits = share < 0.9 && Math.max(...sample.stages.map((stage) => stage.load)) < kBusy;
  return waits ? `not busy; ${rate(1 / period)} are predicted` : `${percent(share)} of the predicted ${rate(1 / period)}`;
}

/** Each figure's name, what it is, and what stands below in small letters. */
function figuresOf(about, sample) {
  const { latency_us: latency } = sample;
  return [
    ["frames/s", rate(sample.fps), besidePrediction(about, sample)],
    ["latency, median", micro(latency?.[0]), latency && `99 % within ${micro(latency[2])}`],
    ["frames out", String(sample.ok + sample.errors + sample.drops + sample.cancelled), `${sample.in_flight} in flight`],
    ["errors", String(sample.errors)],
    ["dropped", String(sample.drops)],
    ["cancelled", String(sample.cancelled)],
    ["memory", bytes(sample.rss), about.memory_bytes != null && `${bytes(about.memory_bytes)} for the queues`],
    ["processors in use", sample.cpu.toFixed(2), `of ${about.cpus.length}`],
  ];
}

export function makeFigures(about) {
  const element = make("dl", { class: "figures", id: "figures" });
  const figures = new Map();
  const figureOf = (name) => {
    if (!figures.has(name)) {
      figures.set(name, figure(name));
      element.append(figures.get(name).element);
    }
    return figures.get(name);
  };
  const show = (sample) => {
    for (const [name, value, note] of figuresOf(about, sample)) {
      const shown = figureOf(name);
      put(shown.value, value);
      put(shown.note, note || "");
      shown.value.classList.toggle("bad", name === "errors" && sample.errors > 0);
    }
  };
  return { element, show };
}

/** "1.43, beyond the noise": the time of computing over what the plan foretold. */
const drift = ({ drift }) => (drift ? `${drift[0].toFixed(2)}${drift[1] ? ", beyond the noise" : ""}` : "\u2013");

/** `go(stage)` selects it in the drawing. */
export function makeStages(about, go) {
  const meters = about.stages.map((stage) => makeMeter(`Load of ${stage.name}`));
  const cells = about.stages.map(() => Array.from({ length: 8 }, () => make("span", {}, "\u2013")));
  const rows = about.stages.map((stage, i) => [
    make("button", { type: "button", class: "plain", onclick: () => go(i) }, stage.name),
    meters[i].element,
    `${stage.backend} on ${stage.devices.join(", ")}`,
    ...cells[i],
  ]);
  const element = section(
    "Stages",
    table(
      "Table of stages",
      ["stage", "load", "where", "frames", "errors", "drops", "waits, median", "waits, 99 %", "computes, median", "computes, 99 %", "over predicted"],
      rows,
    ),
  );
  const show = (sample) => {
    sample.stages.forEach((stage, i) => {
      meters[i].show(stage.load, percent(stage.load));
      const texts = [stage.frames, stage.errors, stage.drops, ...stage.queue_us.map(micro), ...stage.infer_us.map(micro), drift(stage)];
      texts.forEach((text, j) => put(cells[i][j], String(text)));
    });
  };
  return { element, show };
}

export function makeQueues(about) {
  const meters = about.edges.map((edge) => makeMeter(`Frames in ${edge.name}`));
  const drops = about.edges.map(() => make("span", {}, "0"));
  const rows = about.edges.map((edge, i) => [edge.name, meters[i].element, edge.policy, drops[i]]);
  const element = section("Queues", table("Table of queues", ["from, to", "frames in it", "when full", "dropped"], rows));
  const show = (sample) => {
    sample.edges.forEach((edge, i) => {
      const { capacity } = about.edges[i];
      meters[i].show(edge.depth / Math.max(1, capacity), `${edge.depth} of ${capacity}`);
      put(drops[i], String(edge.drops));
    });
  };
  return { element, show };
}

export function makeCpus(about) {
  const meters = about.cpus.map((cpu) => makeMeter(`Load of CPU ${cpu}`));
  const stagesOn = (cpu) => about.stages.filter((stage) => stage.cpus.includes(cpu)).map((stage) => stage.name);
  const element = section(
    "CPUs",
    make("p", { class: "hint" }, "What all programs of the machine take of each CPU that this one may use."),
    make(
      "ul",
      { class: "cpus" },
      about.cpus.map((cpu, i) =>
        make("li", {}, make("b", {}, `CPU ${cpu}`), meters[i].element, make("span", { class: "hint" }, stagesOn(cpu).join(", ") || "no stage")),
      ),
    ),
  );
  const show = (sample) => sample.cpus.forEach((load, i) => meters[i].show(load, percent(load)));
  return { element, show };
}

const kShown = 200;
const kPressed = 100; // Milliseconds until errors look again whether one of their buttons is still pressed.

export function makeErrors(about, go) {
  const list = make("ol", { class: "errors", id: "errors", reversed: true });
  const count = make("p", { class: "hint" });
  const element = section("Errors", count, list);
  let shown = 0,
    again = 0;
  const entry = (failure) => {
    const stage = about.stages.findIndex(({ name }) => name === failure.stage);
    return make(
      "li",
      {},
      make("span", { class: "hint" }, clock(failure.at_ms)),
      ` frame ${failure.frame}${failure.stream > 0 ? ` of stream ${failure.stream}` : ""} `,
      stage >= 0 && make("button", { type: "button", onclick: () => go(stage) }, `Show ${failure.stage}`),
      make("span", { class: "failure" }, failure.message),
    );
  };
  const entries = new Map(); // By failure. Those that stay are not made anew: one may have the focus.
  const update = (failures) => {
    const wanted = new Set(failures);
    for (const [failure, element] of entries) {
      if (wanted.has(failure) || element.contains(document.activeElement)) continue;
      element.remove();
      entries.delete(failure);
    }
    for (const failure of failures) {
      if (entries.has(failure)) continue;
      entries.set(failure, entry(failure));
      list.prepend(entries.get(failure));
    }
  };
  const show = (recording) => {
    const { failures, missed } = recording,
      total = failures.length + missed;
    if (total === shown && shown > 0) return;
    clearTimeout(again);
    if (list.matches(":active")) {
      again = setTimeout(() => show(recording), kPressed); // What is pressed must not move until it is let go.
      return;
    }
    update(failures.slice(-kShown));
    const more = total - Math.min(kShown, failures.length);
    count.textContent = total === 0 ? "No frame has failed." : more > 0 ? `The last ones; ${more} more failed.` : "The last is the first.";
    shown = total;
  };
  return { element, show };
}

/** What is known of the stage of the selected box. */
export function describeStage(about, model, panel, box, sample) {
  if (!box) {
    delete panel.dataset.names;
    panel.replaceChildren(
      make("h3", {}, "Details"),
      make("p", { class: "hint" }, "Click a box, or go to one by arrow keys or by the search: what its stage does stands here."),
    );
    return;
  }
  const [node] = box.nodes,
    stage = about.stages[node.stage],
    now = sample?.stages[node.stage];
  const facts = [
    model.operators && ["operator", `${node.op} ${node.name}`],
    ["stage", stage.name],
    ["backend", node.backend],
    ["on", stage.devices.join(", ")],
    stage.lanes > 1 && ["calls at once", String(stage.lanes)],
    now && ["load", percent(now.load)],
    now && ["frames", String(now.frames)],
    now && ["errors", String(now.errors)],
    now && ["drops", String(now.drops)],
    now && ["waits", `${micro(now.queue_us[0])}, 99 % ${micro(now.queue_us[1])}`],
    now && ["computes", `${micro(now.infer_us[0])}, 99 % ${micro(now.infer_us[1])}`],
    now && now.drift && ["over predicted", drift(now)],
  ].filter(Boolean);
  const title = model.operators ? node.op : stage.name,
    names = JSON.stringify([node.id, title, ...facts.map(([name]) => name)]);
  if (panel.dataset.names !== names) {
    panel.replaceChildren(make("h3", {}, title), make("dl", {}, facts.flatMap(([name]) => [make("dt", {}, name), make("dd", {})])));
    panel.dataset.names = names;
  }
  panel.querySelectorAll("dd").forEach((place, i) => put(place, facts[i][1])); // So that a selected text stays so.
}

export function sentenceOfStage(about, box) {
  if (!box) return "nothing selected";
  const [node] = box.nodes;
  return `${node.op}, stage ${about.stages[node.stage].name}, ${node.backend}`;
}
