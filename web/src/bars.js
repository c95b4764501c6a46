// Horizontal bars with a whisker for what is uncertain, as plain elements: they scale with the text and can be read.
import { make } from "./dom.js";

/** rows: {name, value, low, high, text, note, mark, failure}; value, low and high in one unit. */
export function makeBars(label, rows) {
  const most = Math.max(1e-12, ...rows.map((row) => row.high ?? row.value ?? 0));
  const at = (value) => `${(100 * Math.min(1, Math.max(0, value) / most)).toFixed(2)}%`;
  const items = rows.map((row) => {
    const bar = row.failure
      ? make("div", { class: "failed" }, `left out: ${row.failure}`)
      : make(
          "div",
          { class: "track", "aria-hidden": "true" },
          make("div", { class: row.mark ? "bar own" : "bar", style: `width:${at(row.value)}` }),
          row.high > row.low &&
            make("div", {
              class: "whisker",
              style: `left:${at(row.low)};width:calc(${at(row.high)} - ${at(row.low)})`,
            }),
        );
    return make(
      "li",
      {},
      make("div", { class: "bar-name" }, row.mark ? make("b", {}, row.name) : row.name),
      bar,
      make("div", { class: "bar-text" }, row.text ?? ""),
      row.note && make("div", { class: "hint bar-note" }, row.note),
    );
  });
  return make("ul", { class: "bars", "aria-label": label }, items);
}
