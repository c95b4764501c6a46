// The page of a pipeline that runs, or of a recording of one: what is there now, and what was.
import { makeChart, roundUp } from "./chart.js";
import { make } from "./dom.js";
import { bytes, clock, duration, percent, rate, roundBytes } from "./format.js";
import { licences } from "./licences.js";
import { kNoRecording, networkOf, readRecording, Recording, toPage } from "./livemodel.js";
import { describeStage, makeCpus, makeErrors, makeFigures, makeQueues, makeStages, sentenceOfStage } from "./liveparts.js";
import { makeView } from "./view.js";

const kNext = 3000; // Milliseconds from the end of a run until the page looks for the next one: its server has gone by then.
const kSoon = 1000,
  kLate = 30000; // Milliseconds until a port that refused is asked again: at first, and at most.
const kSilence = 5000; // Milliseconds without news after which the connection counts as lost.

function makeCharts(about) {
  const period = about.predicted.period_seconds;
  const micro = (i) => (sample) => sample.latency_us?.[i] ?? null;
  const when = (seconds) => clock(about.started_ms + 1000 * seconds);
  return [
    {
      title: "Frames a second",
      lines: [{ name: "measured", of: (sample) => sample.fps }],
      text: rate,
      level: period > 0 ? 1 / period : null,
    },
    {
      title: "From push to pop",
      lines: [
        { name: "median", of: micro(0) },
        { name: "90 %", of: micro(1) },
        { name: "99 %", of: micro(2) },
      ],
      text: (value) => duration(value / 1e6),
    },
    {
      title: "Load of the busiest stage and of the CPUs",
      lines: [
        { name: "stage", of: (sample) => Math.max(0, ...sample.stages.map((stage) => stage.load)) },
        { name: "CPUs, mean", of: (sample) => sample.cpus.reduce((sum, load) => sum + load, 0) / Math.max(1, sample.cpus.length) },
      ],
      text: percent,
      most: 1,
    },
    {
      title: "Memory of the process",
      lines: [{ name: "resident", of: (sample) => sample.rss }],
      text: bytes,
      round: (value) => roundBytes(value, roundUp),
    },
  ].map((chart) => makeChart({ ...chart, when }));
}

const recorded = ({ started_ms: started }) => `A recording of ${clock(started)}, ${new Date(started).toISOString().slice(0, 10)}.`;

/** How a pipeline ended that takes no more frames, as its last sample has it. Older recordings have no `stopped`. */
function endOf({ stopped, closed, ok, errors, cancelled, drops, in_flight: inside }) {
  if (stopped !== false) return closed;
  const others = [
    [errors, errors === 1 ? "ended with an error" : "ended with errors"],
    [cancelled, cancelled === 1 ? "was cancelled" : "were cancelled"],
    [drops, drops === 1 ? "was dropped" : "were dropped"],
    [inside, "had not come out yet"],
  ].filter(([count]) => count > 0);
  const came = `${ok} frame${ok === 1 ? "" : "s"} came out`;
  if (others.length === 0) return `well, ${came}`;
  return [came, ...others.map(([count, what]) => `${count} ${what}`)].join(", ");
}

/** The sentence of an answer that is none; empty: it is well. */
async function refusalOf(answer) {
  if (answer.ok) return "";
  const said = await answer.json().catch(() => null);
  return typeof said?.error === "string" ? said.error : `answer ${answer.status}`;
}

let current = null; // The Live that is shown.

/** What is looked at: the newest sample, or one that the slider names. */
class Live {
  constructor(data) {
    this.recording = new Recording(data);
    this.held = null; // The sample that is shown, which may have been thinned out since; null: the newest.
    this.span = 60;
    this.source = null;
    this.heard = Date.now();
    this.refusal = ""; // What the port answered in place of what comes.
    this.wait = kSoon;
  }

  build() {
    const { about } = this.recording;
    document.title = `${about.model}: Penstock`;
    const main = make("main", {});
    this.status = make("p", { id: "status", role: "status" });
    this.figures = makeFigures(about);
    document.body.replaceChildren(
      make("header", {}, make("h1", {}, about.model), this.status),
      main,
      make("footer", {}, licences()),
    );
    this.charts = makeCharts(about);
    main.append(
      this.figures.element,
      this.makeControls(),
      make("h2", { class: "unseen" }, "Over time"),
      make("div", { class: "charts" }, this.charts.map((chart) => chart.element)),
    );
    this.model = networkOf(about);
    const place = make("div", {});
    main.append(place);
    this.view = makeView(place, this.model, {
      colors: ["load", "stage", "backend"].concat(this.model.operators ? ["time"] : []),
      describe: (network, panel, box) => describeStage(about, this.model, panel, box, this.shown()),
      sentence: (network, box) => sentenceOfStage(about, box),
    });
    describeStage(about, this.model, this.view.panel, null);
    const go = (stage) => this.view.go(this.model.nodes.findIndex((node) => node.stage === stage));
    this.parts = [makeStages(about, go), makeQueues(about), makeCpus(about)];
    this.errors = makeErrors(about, go);
    main.append(this.errors.element, ...this.parts.map((part) => part.element));
    this.show();
  }

  makeControls() {
    this.follow = make("button", { type: "button", id: "follow", "aria-pressed": "true", onclick: () => this.pause(!this.held) }, "Follow");
    this.slider = make("input", {
      type: "range",
      id: "moment",
      min: 0,
      max: 0,
      value: 0,
      oninput: (event) => {
        this.held = this.recording.samples[Number(event.target.value)] ?? null;
        this.show();
      },
    });
    this.moment = make("output", { for: "moment", id: "moment-text" });
    const span = make(
      "select",
      {
        id: "span",
        onchange: (event) => {
          this.span = Number(event.target.value);
          this.show();
        },
      },
      [
        [60, "the last minute"],
        [600, "the last ten minutes"],
        [1e9, "all"],
      ].map(([seconds, text]) => make("option", { value: seconds, selected: seconds === this.span }, text)),
    );
    const open = make("input", { type: "file", class: "unseen", id: "open", accept: ".html,.json", onchange: (event) => this.open(event.target.files[0]) });
    this.said = make("p", { role: "status", class: "hint", id: "file-said" });
    return make(
      "div",
      { class: "controls" },
      this.follow,
      make("div", { class: "field moment" }, make("label", { for: "moment" }, "Moment"), this.slider, this.moment),
      make("div", { class: "field" }, make("label", { for: "span" }, "Charts show"), span),
      make("button", { type: "button", id: "save", onclick: () => this.save() }, "Save a recording"),
      make("label", { class: "button", for: "open" }, "Open a recording", open),
      this.said,
    );
  }

  shown() {
    return this.held ?? this.recording.last;
  }

  pause(paused) {
    this.held = paused ? this.recording.last : null;
    this.show();
  }

  show() {
    const { samples } = this.recording,
      sample = this.shown();
    this.showStatus();
    this.errors.show(this.recording);
    if (!sample) return;
    const last = samples.length - 1;
    this.follow.setAttribute("aria-pressed", String(!this.held));
    this.slider.max = last;
    this.slider.value = samples.filter(({ n }) => n <= sample.n).length - 1;
    const when = `${clock(this.recording.about.started_ms + 1000 * sample.t)}`;
    this.moment.textContent = when;
    this.slider.setAttribute("aria-valuetext", when);
    this.figures.show(sample);
    const from = Math.max(samples[0].t, this.recording.last.t - this.span);
    for (const chart of this.charts) chart.draw(samples, sample, from);
    for (const part of this.parts) part.show(sample);
    this.model.load = sample.stages.map((stage) => stage.load);
    if (this.view.network.colorName === "load") this.view.network.recolor();
    const box = this.view.network.selected();
    if (box) describeStage(this.recording.about, this.model, this.view.panel, box, sample);
    document.body.dataset.sample = sample.n;
  }

  state() {
    const last = this.recording.last;
    if (last?.closed && this.source && !last.end) return ["ended", `Takes no more frames: ${last.closed}.`];
    const ended = last?.closed && `It ended at ${clock(this.recording.about.started_ms + 1000 * last.t)}: ${endOf(last)}.`;
    if (!this.source) return [ended ? "ended" : "recording", [recorded(this.recording.about), ended].filter(Boolean).join(" ")];
    if (last?.end) return ["ended", ended || "It has ended."];
    const stays = "What was seen stays here and can be saved.";
    if (this.refusal) return ["lost", `What runs there does not tell what comes: ${this.refusal}. It is asked again in ${Math.round(this.wait / 1000)} s. ${stays}`];
    if (this.lost) return ["lost", `The connection was lost at ${clock(this.heard)}: the program has ended, or the way to it is cut. ${stays}`];
    return ["running", "Running."];
  }

  showStatus() {
    const [state, text] = this.state();
    if (this.status.textContent !== text) this.status.textContent = text;
    this.status.dataset.state = state;
  }

  /** Empties the status and fills it a frame later: a status that comes with its text is not read out. */
  announce() {
    this.status.textContent = "\u00a0"; // As high as a line, so that nothing moves.
    requestAnimationFrame(() => setTimeout(() => this.showStatus()));
  }

  save() {
    const name = `${this.recording.about.model.replace(/[^\w.-]+/g, "_")}.html`;
    const url = URL.createObjectURL(new Blob([toPage(this.recording)], { type: "text/html" }));
    const link = make("a", { href: url, download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
    this.said.textContent = `Saved as ${name}: open it in any browser.`;
  }

  async open(file) {
    if (!file) return;
    try {
      showInstead({ ...readRecording(await file.text()), live: false });
    } catch (error) {
      this.said.textContent = `'${file.name}': ${error.message}.`;
    }
  }

  /** Listens for what comes after the samples that are here. */
  listen() {
    this.close();
    const source = new EventSource(`events?after=${this.recording.last?.n ?? 0}`);
    this.source = source;
    const hear = (lost) => {
      this.lost = lost;
      if (!lost) [this.heard, this.refusal, this.wait] = [Date.now(), "", kSoon];
      this.showStatus();
    };
    this.showStatus();
    source.addEventListener("sample", (event) => {
      this.recording.add(JSON.parse(event.data));
      hear(false);
      this.show();
    });
    source.addEventListener("about", (event) => {
      const { generation, started_ms: started } = JSON.parse(event.data);
      const { about } = this.recording;
      if (generation !== about.generation || started !== about.started_ms) this.renew();
    });
    source.addEventListener("end", () => {
      this.close();
      this.recording.last && (this.recording.last.end = true);
      this.showStatus();
      this.next = setTimeout(() => this.listen(), kNext); // What has ended stays in sight until something else runs there.
    });
    source.addEventListener("error", () => {
      hear(true);
      if (source.readyState === EventSource.CLOSED) this.askAgain(); // The browser itself tries no more.
    });
    this.watch = setInterval(() => Date.now() - this.heard > kSilence && !this.lost && hear(true), 1000);
  }

  /** Listens again after a while, each time a longer one. */
  later() {
    this.showStatus();
    this.next = setTimeout(() => this.listen(), this.wait);
    this.wait = Math.min(2 * this.wait, kLate);
  }

  /** Tells what the answer is in place of events, and listens again later. */
  async askAgain() {
    this.close();
    const refusal = await fetch("snapshot", { signal: AbortSignal.timeout(kSilence) }).then(refusalOf, () => "");
    if (current !== this) return;
    this.refusal = refusal;
    this.later();
  }

  /** Another plan runs now, or another program: what was seen of the one before is over. */
  async renew() {
    this.close();
    try {
      const answer = await fetch(".");
      const data = readRecording(await answer.text());
      if (current === this) showInstead(data);
    } catch {
      if (current !== this) return;
      this.lost = true;
      this.later();
    }
  }

  close() {
    this.source?.close();
    clearInterval(this.watch);
    clearTimeout(this.next);
  }

  /** Something else is shown in its place. */
  leave() {
    this.close();
    this.view?.leave();
  }
}

export function showLive(data) {
  const live = new Live(data);
  try {
    live.build();
  } catch (error) {
    live.leave();
    throw error;
  }
  current?.leave();
  current = live;
  if (data.live) live.listen();
}

/** In place of the page that is there, which stays where the data is not what it should be. Focus and place stay. Throws a
    sentence. */
function showInstead(data) {
  const { title } = document,
    { scrollY } = window,
    focused = document.activeElement?.id,
    before = [...document.body.childNodes];
  try {
    showLive(data);
    current.announce();
  } catch {
    document.title = title;
    document.body.replaceChildren(...before);
    throw new Error(kNoRecording);
  } finally {
    document.getElementById(focused)?.focus({ preventScroll: true });
    window.scrollTo(0, scrollY);
  }
}
