// A small calculation: which period stages have on so many devices, by the costs in the report. It knows no hand-overs
// between devices, no caches and no neighbours: a prediction, not a measurement.

/** Seconds of each node, with `backend` for each part that was timed on it; "" as chosen. */
export function costsWith(model, backend) {
  return model.nodes.map((node) => {
    if (!backend || !node.part) return node.seconds;
    const timed = (name) =>
      node.part.trials.find((trial) => trial.backend === name && !trial.failure && trial.seconds > 0);
    const own = timed(node.part.backend),
      other = timed(backend);
    return own && other ? (node.seconds * other.seconds) / own.seconds : node.seconds;
  });
}

/** Stages by cuts: each holds the node it is cut after, with all that this needs and no stage before has. */
export function stagesOf(model, cuts) {
  const stage = new Int32Array(model.nodes.length).fill(-1),
    sorted = [...cuts].sort((a, b) => a - b);
  let next = 0;
  for (const cut of sorted) {
    const todo = [cut];
    if (stage[cut] >= 0) continue;
    while (todo.length > 0) {
      const id = todo.pop();
      if (stage[id] >= 0) continue;
      stage[id] = next;
      todo.push(...model.nodes[id].inputs);
    }
    ++next;
  }
  const left = stage.some((value) => value < 0);
  return { stage: stage.map((value) => (value < 0 ? next : value)), count: next + (left ? 1 : 0) };
}

function sums(costs, stages) {
  const loads = new Array(stages.count).fill(0);
  stages.stage.forEach((stage, id) => {
    loads[stage] += costs[id];
  });
  return loads;
}

/** Cuts of the topological order into at most `count` stages such that the largest is least. */
export function bestCuts(costs, count) {
  let low = costs.reduce((a, b) => Math.max(a, b), 0),
    high = costs.reduce((a, b) => a + b, 0);
  const cutsFor = (most) => {
    const cuts = [];
    let load = 0;
    costs.forEach((cost, id) => {
      if (load + cost > most && load > 0) {
        cuts.push(id - 1);
        load = 0;
      }
      load += cost;
    });
    return cuts;
  };
  for (let i = 0; i < 50; ++i) {
    const middle = (low + high) / 2;
    if (cutsFor(middle).length < count) high = middle;
    else low = middle;
  }
  return cutsFor(high);
}

/** The period of stages on devices: spare devices repeat the slowest stage, too few share the stages out. */
export function periodOf(costs, stages, devices) {
  const loads = sums(costs, stages).sort((a, b) => b - a);
  if (loads.length > devices) {
    const filled = new Array(devices).fill(0);
    for (const load of loads) filled[filled.indexOf(Math.min(...filled))] += load;
    return Math.max(...filled);
  }
  const replicas = loads.map(() => 1);
  const share = (i) => loads[i] / replicas[i];
  const slowest = () => loads.reduce((best, _, i) => (share(i) > share(best) ? i : best), 0);
  for (let spare = devices - loads.length; spare > 0; --spare) replicas[slowest()] += 1;
  return loads.length === 0 ? 0 : share(slowest());
}

export function predict(model, { devices, backend, way, cuts }) {
  const costs = costsWith(model, backend);
  const chosen = way === "cuts" ? [...cuts] : way === "stages" ? bestCuts(costs, devices) : [];
  const stages = stagesOf(model, chosen);
  return {
    cuts: chosen,
    loads: sums(costs, stages),
    period: periodOf(costs, stages, devices),
    latency: costs.reduce((a, b) => a + b, 0),
  };
}
