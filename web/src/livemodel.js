// What the page of a running pipeline knows: what the pipeline is, what was seen of it, and the network to draw.
import { readModel } from "./model.js";

const kMost = 2400; // Samples kept; of more, every second of the older ones goes, so that the whole run stays.
const kRecent = 600; // Of which none goes.
export const kFailures = 1000;
const kProgram = document.currentScript.textContent; // The page puts other things into the document.

/** One box for each stage, where no report tells of operators. */
function stageNodes(about) {
  const nodes = about.stages.map((stage, i) => ({
    name: `${stage.backend} on ${stage.devices.join(", ")}`,
    op: stage.name,
    inputs: about.edges.filter((edge) => edge.from >= 0 && edge.to.includes(i)).map((edge) => edge.from),
    stage: i,
    backend: stage.backend,
    seconds: 0,
  }));
  return { model: about.model, nodes, parts: [], goal: "throughput" };
}

export function networkOf(about) {
  const { report } = about;
  const stages = report ? Math.max(...report.nodes.map((node) => node.stage)) + 1 : 0;
  const model = readModel(stages === about.stages.length ? report : stageNodes(about));
  model.operators = stages === about.stages.length;
  if (!model.operators) model.what = "stage";
  model.load = about.stages.map(() => 0);
  return model;
}

export class Recording {
  constructor({ about, samples = [], failures = [], missed = 0 }) {
    [this.about, this.failures, this.missed] = [about, failures, missed];
    this.samples = samples.filter((sample) => isSample(sample, about));
  }

  add({ failures = [], missed = 0, ...sample }) {
    const last = this.samples[this.samples.length - 1];
    if (last && sample.n <= last.n) return; // Seen before the connection was made again.
    this.samples.push(sample);
    this.failures.push(...failures);
    this.missed += missed + this.failures.splice(0, this.failures.length - kFailures).length;
    if (this.samples.length > kMost) {
      const old = this.samples.length - kRecent;
      this.samples = this.samples.filter((_, i) => i >= old || i % 2 === 0);
    }
  }

  get last() {
    return this.samples[this.samples.length - 1] ?? null;
  }

  toJson() {
    const { about, samples, failures, missed } = this;
    return { about, samples, failures, missed };
  }
}

export const kNoRecording = "this file is no recording of Penstock";

/** Whether the sample is one of the pipeline. */
const isSample = (sample, { stages, edges, cpus }) =>
  [sample?.n, sample?.t].every(Number.isFinite) &&
  [[sample.stages, stages], [sample.edges, edges], [sample.cpus, cpus]].every(([seen, known]) => Array.isArray(seen) && seen.length === known?.length);

/** Of a file that was saved: the page, or its data alone. Throws a sentence. */
export function readRecording(text) {
  const found = text.trimStart().startsWith("{")
    ? text
    : text.match(/<script type="application\/json" id="live">([\s\S]*?)<\/script>/)?.[1];
  let data = null;
  try {
    data = JSON.parse(found ?? "");
  } catch {
    /* It is said below. */
  }
  if (!data?.about?.stages || !Array.isArray(data.samples)) throw new Error(kNoRecording);
  if (data.samples.length > 0 && !data.samples.some((sample) => isSample(sample, data.about))) throw new Error(kNoRecording);
  return data;
}

/** The page with what was seen in it, as a file that stands alone. */
export function toPage(recording) {
  const json = JSON.stringify(recording.toJson()).replaceAll("<", "\\u003c");
  const title = document.createElement("title");
  title.textContent = document.title;
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
${title.outerHTML}</head><body>
<script type="application/json" id="live">${json}</script>
<script id="program">${kProgram}</script>
</body></html>
`;
}
