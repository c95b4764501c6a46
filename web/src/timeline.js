// Who was busy when: the spans that the build traced in its last comparison, a lane for each worker.
import { make, section } from "./dom.js";
import { counted, duration, percent, rate } from "./format.js";

/** Rows such that spans of one row do not overlap: a worker may have several calls in flight. */
function rowsOf(spans) {
  const ends = [],
    rows = [];
  for (const span of spans) {
    let row = ends.findIndex((end) => end <= span.start + 1e-9);
    if (row < 0) row = ends.push(0) - 1;
    ends[row] = span.end;
    rows.push(row);
  }
  return { rows, count: Math.max(1, ends.length) };
}

/** Of the first `seconds` those in which at least one span lies. */
function busySeconds(spans, seconds) {
  let busy = 0,
    until = 0;
  for (const { start, end } of spans) {
    busy += Math.max(0, Math.min(end, seconds) - Math.max(start, until));
    until = Math.max(until, end);
  }
  return busy;
}

function laneOf(lane, seconds) {
  const spans = [...lane.spans].sort((a, b) => a.start - b.start),
    { rows, count } = rowsOf(spans);
  const at = (value) => `${((100 * value) / seconds).toFixed(3)}%`;
  const bars = spans.map((span, i) =>
    make(
      "div",
      {
        class: `span shade${span.frame % 4}`,
        title: `frame ${span.frame}: waited ${duration(Math.max(0, span.start - span.ready))}, ran ${duration(span.end - span.start)}`,
        style: `left:${at(span.start)};width:${at(span.end - span.start)};top:${((100 * rows[i]) / count).toFixed(2)}%;height:${(100 / count).toFixed(2)}%`,
      },
      make("span", {}, String(span.frame)),
    ),
  );
  return [
    make(
      "div",
      { class: "lane-name" },
      make("b", {}, lane.name),
      ` busy ${percent(busySeconds(spans, seconds) / seconds)}, ${counted(spans.length, "call")}`,
    ),
    make("div", { class: "lane", style: `height:${count * 1.5}em`, "aria-hidden": "true" }, bars),
  ];
}

/** Of the whole length, at every quarter. */
function axisOf(seconds) {
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((share) => make("span", {}, duration(share * seconds)));
  return make("div", { class: "times", "aria-hidden": "true" }, ticks);
}

/** The excerpt's own rate, which need not be the one that was measured over many of its length (0: not known). */
function saidRate({ frames, seconds }, measured) {
  if (!frames) return "";
  const came = ` ${counted(frames, "frame")} came out in it, ${rate(frames / seconds)} a second`;
  return measured > 0 ? `${came}; measured in all: ${rate(1 / measured)}.` : `${came}.`;
}

export function timelineSection(model) {
  const { trace } = model.report;
  if (trace.lanes.length === 0) {
    return section("Timeline", make("p", { class: "hint" }, "This report holds no trace of the chosen plan."));
  }
  const inner = make(
    "div",
    { class: "lanes" },
    trace.lanes.flatMap((lane) => laneOf(lane, trace.seconds)),
    axisOf(trace.seconds),
  );
  let width = 100;
  const zoom = (factor) => {
    width = Math.min(3200, Math.max(100, width * factor));
    inner.style.width = `${width}%`;
  };
  const button = (text, label, factor) =>
    make("button", { type: "button", "aria-label": label, onclick: () => zoom(factor) }, text);
  return section(
    "Timeline",
    make(
      "p",
      { class: "hint" },
      `${duration(trace.seconds)} of the chosen plan at full load, traced in the build's comparison with the simple ways. Each bar is one call, its number is the frame; a gap is a worker that waits.${saidRate(trace, model.report.period_seconds)}`,
    ),
    make(
      "p",
      { class: "buttons" },
      button("+", "Stretch the timeline", 2),
      button("\u2212", "Shrink the timeline", 0.5),
    ),
    make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Timeline of the workers" }, inner),
  );
}
