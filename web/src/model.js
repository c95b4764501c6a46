// The report as the page uses it: nodes that know their part, their readers and their text.

/** Nodes by index; a node's inputs always come before it. `what` a node is called. */
export function readModel(report) {
  const nodes = report.nodes.map((node, id) => ({ ...node, id, part: null, readers: [] }));
  for (const node of nodes) {
    node.inputs = [...new Set(node.inputs)];
    for (const input of node.inputs) nodes[input].readers.push(node.id);
    node.text = `${node.op} ${node.name}`.toLowerCase();
  }
  for (const part of report.parts) {
    for (const id of part.nodes) nodes[id].part = part;
  }
  const stages = nodes.reduce((most, node) => Math.max(most, node.stage + 1), 0);
  const seconds = nodes.reduce((sum, node) => sum + node.seconds, 0);
  return { report, nodes, what: "operator", stages, seconds, latency: report.goal === "latency" };
}

/** Frames per second, or one over a latency where that is the goal. */
export function worth(model, way) {
  if (!model.latency) return way.frames_per_second;
  return way.latency_seconds > 0 ? 1 / way.latency_seconds : 0;
}

/** Times of operators, slowest first, as {op, count, seconds}. */
export function byOperator(nodes) {
  const found = new Map();
  for (const node of nodes) {
    const entry = found.get(node.op) ?? { op: node.op, count: 0, seconds: 0 };
    entry.count += 1;
    entry.seconds += node.seconds;
    found.set(node.op, entry);
  }
  return [...found.values()].sort((a, b) => b.seconds - a.seconds || b.count - a.count);
}
