// What is drawn: a box for each node, or one for a whole run of repeated blocks that is folded.

/** Boxes in topological order: {id, nodes, run, inputs, readers, seconds}. Runs are intervals of a topological
    order, so that what is made of them is one again. */
export function makeBoxes(model, runs, folded) {
  const boxes = [],
    boxOf = new Int32Array(model.nodes.length);
  let next = 0; // Among runs.
  for (let i = 0; i < model.nodes.length;) {
    while (next < runs.length && runs[next].start < i) ++next;
    const run = next < runs.length && runs[next].start === i ? runs[next] : null;
    const length = run && folded.has(run) ? run.period * run.count : 1;
    const nodes = model.nodes.slice(i, i + length);
    boxOf.fill(boxes.length, i, i + length);
    boxes.push({
      id: boxes.length,
      nodes,
      run: length > 1 ? run : null,
      inputs: [],
      readers: [],
      seconds: nodes.reduce((sum, node) => sum + node.seconds, 0),
    });
    i += length;
  }
  for (const box of boxes) {
    const inputs = new Set();
    for (const node of box.nodes) for (const input of node.inputs) inputs.add(boxOf[input]);
    inputs.delete(box.id);
    box.inputs = [...inputs].sort((a, b) => a - b);
    for (const input of box.inputs) boxes[input].readers.push(box.id);
  }
  return { boxes, boxOf };
}

export function runOf(runs, id) {
  return runs.find((run) => id >= run.start && id < run.start + run.period * run.count) ?? null;
}

/** "12 x Conv, Relu, Add" */
export function titleOf(box) {
  if (!box.run) return box.nodes[0].op;
  const operators = [...new Set(box.nodes.slice(0, box.run.period).map((node) => node.op))];
  const shown = operators.slice(0, 3).join(", ");
  return `${box.run.count} \u00d7 ${shown}${operators.length > 3 ? ", \u2026" : ""}`;
}
