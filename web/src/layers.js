// A quick placement of points in layers, where edges go past so many layers that no placement untangles them: boxes
// do not overlap and edges go down. One that would lie hidden below the boxes between its ends goes around them; all
// others are straight.

const kSweeps = 4;
const kLane = 5; // From one edge that goes around to the next, for each layer that it passes.

/** How many layers are above each point, at the least. */
function ranksOf(count, edges) {
  const ranks = new Int32Array(count);
  for (const [from, to] of [...edges].sort((a, b) => a[1] - b[1])) ranks[to] = Math.max(ranks[to], ranks[from] + 1);
  return ranks;
}

/** How many layers the edges go past, all together. Points 0 to count - 1 in topological order, edges [from, to]. */
export function bendsOf(count, edges) {
  const ranks = ranksOf(count, edges);
  return edges.reduce((sum, [from, to]) => sum + ranks[to] - ranks[from] - 1, 0);
}

const mean = (ids, of) => ids.reduce((sum, id) => sum + of[id], 0) / ids.length;

/** Sorts each layer by where the points' neighbours are. */
function sweep(layers, neighbours, at) {
  for (const layer of layers) {
    const wished = new Map(layer.map((id) => [id, neighbours[id].length > 0 ? mean(neighbours[id], at) : at[id]]));
    layer.sort((a, b) => wished.get(a) - wished.get(b) || a - b);
    layer.forEach((id, i) => (at[id] = i - (layer.length - 1) / 2));
  }
}

/** Of an edge between two centres that are about above each other: from beside the first to beside the last layer
    that it passes. */
function around(from, to, passed, { x, y }) {
  const side = 0.6 * x + kLane * passed,
    bends = [from.y + y, to.y - y].map((at) => [Math.max(from.x, to.x) + side, at]);
  return [[from.x, from.y], ...bends, [to.x, to.y]];
}

/** Centres of such points, around x = 0, and the bends of edges; `step`: from one point to the next. */
export function placeInLayers(count, edges, step) {
  const none = () => Array.from({ length: count }, () => []);
  const layers = [],
    inputs = none(),
    readers = none(),
    ranks = ranksOf(count, edges),
    at = new Float64Array(count);
  for (const [from, to] of edges) {
    readers[from].push(to);
    inputs[to].push(from);
  }
  ranks.forEach((rank, id) => (layers[rank] ??= []).push(id));
  for (let i = 0; i < kSweeps; ++i) {
    sweep(layers, inputs, at);
    sweep([...layers].reverse(), readers, at);
  }
  sweep(layers, inputs, at);
  const places = Array.from(at, (x, id) => ({ x: x * step.x, y: ranks[id] * step.y })),
    bends = new Map();
  for (const [from, to] of edges) {
    const passed = ranks[to] - ranks[from] - 1;
    if (passed > 0 && Math.abs(places[to].x - places[from].x) < step.x)
      bends.set(`${from}>${to}`, around(places[from], places[to], passed, step));
  }
  return { places, bends };
}
