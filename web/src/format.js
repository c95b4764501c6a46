// Numbers as a person reads them.

const significant = (value, digits) => Number(value.toPrecision(digits)).toString();

export function duration(seconds) {
  if (seconds === 0) return "0";
  if (seconds < 1e-3) return `${significant(seconds * 1e6, 3)} \u00b5s`;
  if (seconds < 1) return `${significant(seconds * 1e3, 3)} ms`;
  return `${significant(seconds, 3)} s`;
}

export const rate = (value) => (value >= 100 ? Math.round(value).toString() : significant(value, 3));
export const percent = (fraction) => `${significant(fraction * 100, 2)} %`;
export const times = (ratio) => `${significant(ratio, 3)}\u00d7`;
export const counted = (count, what) => `${count} ${what}${count === 1 ? "" : "s"}`;

const kUnits = ["B", "KiB", "MiB", "GiB", "TiB"];

/** Of kUnits, the one that so many bytes are told in. */
const unitOf = (value) => {
  let unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.length; ++unit) value /= 1024;
  return unit;
};

export function bytes(value) {
  const unit = unitOf(value);
  return `${significant(value / 1024 ** unit, 3)} ${kUnits[unit]}`;
}

/** So many bytes, as many of their unit as `round` makes of that number. */
export function roundBytes(value, round) {
  const unit = 1024 ** unitOf(value);
  return round(value / unit) * unit;
}

/** Of milliseconds since 1970: the time of day here. */
export const clock = (ms) => new Date(ms).toLocaleTimeString("en-GB");
