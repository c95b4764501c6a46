// The simple ways and the plans, as bars with the spread of their rounds.
import { makeBars } from "./bars.js";
import { section, make } from "./dom.js";
import { duration, rate, times } from "./format.js";
import { worth } from "./model.js";

function bars(model, label, ways, chosen) {
  const own = ways.find((way) => way.name === chosen) ?? ways[ways.length - 1];
  const best = own ? worth(model, own) : 0;
  return makeBars(
    label,
    ways.map((way) => {
      const value = worth(model, way);
      const speed = model.latency ? duration(way.latency_seconds) : `${rate(way.frames_per_second)} frames/s`;
      return {
        name: way.name,
        value,
        low: value * (1 - way.spread),
        high: value * (1 + way.spread),
        failure: way.failure,
        mark: way === own,
        text: way.failure
          ? ""
          : `${speed} \u00b1 ${(way.spread * 100).toFixed(1)} %${way === own || value <= 0 ? "" : `; chosen is ${times(best / value)}`}`,
        note: way.what,
      };
    }),
  );
}

export function waySections(model) {
  const { simple, ways, chosen } = model.report,
    what = model.latency ? "Longer is better: one over the latency." : "Longer is better.";
  const hint = (text) =>
    make(
      "p",
      { class: "hint" },
      `${what} ${text} The thin line is the spread of the rounds: half of what the middle half spans, to each side.`,
    );
  return [
    section(
      "Simple ways",
      hint("What a user would have tried, on the file as it is, in turn with the chosen plan."),
      bars(model, "Simple ways and the chosen plan", simple, "penstock"),
    ),
    section("Plans", hint("All plans that were run."), bars(model, "Plans that were run", ways, chosen)),
  ];
}
