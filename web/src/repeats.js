// Blocks that come several times in a row: runs of nodes with the same operators, joined alike.

const kShortest = 3; // Nodes of a block; less is not worth a box.
const kLongest = 1000;
const kLeastSaved = 4; // Nodes that a folded run hides.

/** Operators as numbers, and how far back each input lies, in one array: millions of pairs are compared. */
function readShapes(nodes) {
  const numbers = new Map();
  const ops = Int32Array.from(nodes, ({ op, inputs }) => {
    const key = `${op} ${inputs.length}`;
    if (!numbers.has(key)) numbers.set(key, numbers.size);
    return numbers.get(key);
  });
  const first = new Int32Array(nodes.length + 1);
  nodes.forEach(({ inputs }, i) => {
    first[i + 1] = first[i] + inputs.length;
  });
  const back = Int32Array.from(nodes.flatMap(({ id, inputs }) => inputs.map((input) => id - input)));
  return { ops, first, back };
}

/** Whether the node one period later is the same to its neighbours. What lies farther back is shared by all. */
function same({ ops, first, back }, i, period) {
  if (ops[i] !== ops[i + period]) return false;
  for (let k = first[i], j = first[i + period]; k < first[i + 1]; ++k, ++j) {
    if (back[k] !== back[j] && (back[k] <= period || back[j] <= period)) return false;
  }
  return true;
}

/** Values that go over the border before node `at`. */
function crossing(nodes, at, period) {
  const sources = new Set();
  for (let i = at; i < Math.min(nodes.length, at + period); ++i) {
    for (const input of nodes[i].inputs) if (input < at && input >= at - period) sources.add(input);
  }
  return sources.size;
}

/** The phase at which fewest values go from block to block. */
function bestStart(nodes, begin, slack, period) {
  let best = begin,
    least = Infinity;
  for (let start = begin; start <= begin + slack; ++start) {
    const values = crossing(nodes, start + period, period);
    if (values < least) [best, least] = [start, values];
  }
  return best;
}

function candidates(nodes) {
  const runs = [],
    shapes = readShapes(nodes);
  for (let period = kShortest; period <= Math.min(kLongest, nodes.length / 2); ++period) {
    let begin = 0;
    for (let i = 0; i + period <= nodes.length; ++i) {
      if (i + period < nodes.length && same(shapes, i, period)) continue;
      const length = i - begin; // Nodes that are the same one period later.
      const count = Math.floor(length / period) + 1;
      if (count > 1) runs.push({ begin, slack: length % period, period, count, saved: (count - 1) * period });
      begin = i + 1;
    }
  }
  return runs.filter((run) => run.saved >= kLeastSaved);
}

/** Runs that share no node, as {start, period, count}, in the order of their nodes. */
export function findRepeats(nodes) {
  const taken = new Uint8Array(nodes.length);
  const chosen = [];
  for (const { begin, slack, period, count } of candidates(nodes).sort(
    (a, b) => b.saved - a.saved || a.period - b.period,
  )) {
    const end = begin + period * count + slack;
    if (taken.subarray(begin, end).some(Boolean)) continue;
    taken.fill(1, begin, end);
    chosen.push({ start: bestStart(nodes, begin, slack, period), period, count });
  }
  return chosen.sort((a, b) => a.start - b.start);
}
