// Where boxes lie: in layers from the top. The network is cut where one value (or few) goes from what is above to
// what is below; d3-dag lays out each piece, equal pieces once, and layers.js what would take it too long. So
// thousands of nodes take about a second.
import { coordGreedy, coordSimplex, decrossTwoLayer, graphConnect, layeringLongestPath, sugiyama } from "d3-dag";
import { bendsOf, placeInLayers } from "./layers.js";

export const kWidth = 132,
  kHeight = 32;
const kGapX = 18,
  kGapY = 26;
const kStep = { x: kWidth + kGapX, y: kHeight + kGapY };
const kFar = 30; // Layers; an edge over more is drawn past the others and moves no box.
const kMost = 90; // Boxes of a piece, about.
const kGuests = 3; // Boxes above a piece that may stand in it for the sake of their edges.
const kEffort = 40000; // Of d3-dag for all pieces, about a second; each has an equal share.
const kSimplex = 40; // Boxes of a piece up to which coordinates are the best ones.

function ranksOf(boxes) {
  const ranks = new Int32Array(boxes.length);
  for (const box of boxes) for (const input of box.inputs) ranks[box.id] = Math.max(ranks[box.id], ranks[input] + 1);
  return ranks;
}

/** How many boxes up to i are read by later ones over edges that are not far. */
function crossings(boxes, isFar) {
  const last = boxes.map((box) => Math.max(box.id, ...box.readers.filter((reader) => !isFar(box.id, reader))));
  const counts = new Int32Array(boxes.length),
    change = new Int32Array(boxes.length + 1);
  last.forEach((end, i) => {
    change[i] += 1;
    change[end] -= 1;
  });
  for (let i = 0, sum = 0; i < boxes.length; ++i) counts[i] = sum += change[i];
  return counts;
}

/** Intervals [begin, end) of the topological order. */
function pieces(boxes, isFar) {
  const counts = crossings(boxes, isFar),
    found = [];
  for (let begin = 0; begin < boxes.length;) {
    let end = begin + 1;
    while (end < boxes.length && counts[end - 1] > 1 && end - begin < kMost) ++end;
    if (end < boxes.length && counts[end - 1] > 1) {
      for (let i = begin + kMost / 2; i < begin + kMost; ++i) if (counts[i - 1] < counts[end - 1]) end = i;
    }
    found.push([begin, end]);
    begin = end;
  }
  return found;
}

/** By d3-dag, of points 0 to count - 1 and edges [from, to]: places, and the bends of each edge. */
function arrange(count, edges) {
  const pairs = edges.map(([from, to]) => [String(from), String(to)]);
  const joined = new Set(edges.flat());
  for (let i = 0; i < count; ++i) if (!joined.has(i)) pairs.push([String(i), String(i)]);
  const graph = graphConnect().single(true)(pairs);
  const layout = sugiyama()
    .nodeSize([kWidth, kHeight])
    .gap([kGapX, kGapY])
    .layering(layeringLongestPath())
    .decross(decrossTwoLayer().passes(6))
    .coord(count <= kSimplex ? coordSimplex() : coordGreedy());
  const { width } = layout(graph);
  const places = new Array(count),
    bends = new Map();
  for (const node of graph.nodes()) places[Number(node.data)] = { x: node.x - width / 2, y: node.y };
  for (const link of graph.links()) {
    bends.set(
      `${link.source.data}>${link.target.data}`,
      link.points.map(([x, y]) => [x - width / 2, y]),
    );
  }
  return { places, bends };
}

/** Places of each piece, by its key. What costs more than its share of d3-dag's time is placed in a quicker way. */
function arrangeAll(all) {
  const distinct = new Map(all.map((piece) => [piece.key, piece])),
    arranged = new Map();
  for (const [key, { ids, edges }] of distinct) {
    const count = ids.length,
      effort = (count + bendsOf(count, edges)) ** 2 / count;
    const isQuick = effort > kEffort / distinct.size;
    arranged.set(key, isQuick ? placeInLayers(count, edges, kStep) : arrange(count, edges));
  }
  return arranged;
}

/** One piece with the boxes above it that few of its edges come from. */
function pieceOf(boxes, [begin, end], isFar) {
  const above = new Set();
  for (let i = begin; i < end; ++i)
    for (const input of boxes[i].inputs) if (input < begin && !isFar(input, i)) above.add(input);
  const guests = above.size <= kGuests ? [...above].sort((a, b) => a - b) : [];
  const ids = [...guests, ...Array.from({ length: end - begin }, (_, i) => begin + i)];
  const local = new Map(ids.map((id, i) => [id, i]));
  const edges = [];
  for (let i = begin; i < end; ++i) {
    for (const input of boxes[i].inputs)
      if (local.has(input) && !isFar(input, i)) edges.push([local.get(input), local.get(i)]);
  }
  return { ids, guests: guests.length, edges, key: `${ids.length}:${edges.join(" ")}` };
}

/** How far a piece has to go sideways to lie below what it reads. */
function shiftOf(boxes, piece, places, xs, isFar) {
  let sum = 0,
    count = 0;
  piece.ids.forEach((id, i) => {
    if (i < piece.guests) [sum, count] = [sum + xs[id] - places[i].x, count + 1];
  });
  if (count > 0) return sum / count;
  piece.ids.forEach((id, i) => {
    for (const input of boxes[id].inputs) {
      if (input >= piece.ids[0] || isFar(input, id)) continue;
      [sum, count] = [sum + xs[input] - places[i].x, count + 1];
    }
  });
  return count > 0 ? sum / count : 0;
}

/** Centres of all boxes, edges with their bends, and how much space they take. */
export function layOut(boxes) {
  const ranks = ranksOf(boxes),
    isFar = (from, to) => ranks[to] - ranks[from] > kFar;
  const xs = new Float64Array(boxes.length),
    ys = new Float64Array(boxes.length);
  const all = pieces(boxes, isFar).map((interval) => pieceOf(boxes, interval, isFar)),
    arranged = arrangeAll(all),
    edges = [];
  let top = 0;
  for (const piece of all) {
    const { places, bends } = arranged.get(piece.key);
    const shift = shiftOf(boxes, piece, places, xs, isFar);
    const first = Math.min(...piece.ids.slice(piece.guests).map((_, i) => places[i + piece.guests].y)) - kHeight / 2;
    const down = top - first;
    piece.ids.forEach((id, i) => {
      if (i >= piece.guests) [xs[id], ys[id]] = [places[i].x + shift, places[i].y + down];
    });
    const inside = new Map(piece.edges.map(([from, to]) => [`${piece.ids[from]}>${piece.ids[to]}`, `${from}>${to}`]));
    for (const id of piece.ids.slice(piece.guests)) {
      for (const from of boxes[id].inputs) {
        const way = bends.get(inside.get(`${from}>${id}`));
        const between = way ? way.slice(1, -1).map(([x, y]) => [x + shift, y + down]) : [];
        edges.push({
          from,
          to: id,
          far: isFar(from, id),
          points: [[xs[from], ys[from] + kHeight / 2], ...between, [xs[id], ys[id] - kHeight / 2]],
        });
      }
      top = Math.max(top, ys[id] + kHeight / 2 + kGapY);
    }
  }
  const bends = edges.flatMap(({ points }) => points.slice(1, -1).map(([x]) => x));
  const reach = (values, grow) =>
    boxes.length === 0
      ? [0, 0]
      : [values.reduce((a, b) => Math.min(a, b)) - grow, values.reduce((a, b) => Math.max(a, b)) + grow];
  const [left, right] = reach([...xs, ...bends], kWidth / 2),
    [upper, lower] = reach(ys, kHeight / 2);
  return { xs, ys, edges, left, right, upper, lower };
}
