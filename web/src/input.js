// Mouse, fingers and keys on the drawing.

const kClick = 5; // Pixels; a pointer that moved less has clicked.
const kStep = 60,
  kZoom = 1.25;

function pointers(network, element) {
  const down = new Map();
  let moved = 0,
    apart = 0;
  const place = (event) => {
    const { left, top } = element.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  };
  element.addEventListener("pointerdown", (event) => {
    element.setPointerCapture(event.pointerId);
    if (down.size === 0) moved = 0;
    down.set(event.pointerId, place(event));
    apart = 0;
  });
  element.addEventListener("pointermove", (event) => {
    if (!down.has(event.pointerId)) return;
    const [x, y] = place(event),
      [oldX, oldY] = down.get(event.pointerId);
    down.set(event.pointerId, [x, y]);
    moved += Math.abs(x - oldX) + Math.abs(y - oldY);
    if (moved < kClick) return;
    network.move((camera) => camera.pan((x - oldX) / down.size, (y - oldY) / down.size));
    if (down.size !== 2) return;
    const [[x0, y0], [x1, y1]] = [...down.values()],
      distance = Math.hypot(x1 - x0, y1 - y0);
    if (apart > 0) network.move((camera) => camera.zoom(distance / apart, (x0 + x1) / 2, (y0 + y1) / 2));
    apart = distance;
  });
  const up = (event) => {
    const clicked = down.delete(event.pointerId) && down.size === 0 && moved < kClick && event.type === "pointerup";
    if (clicked) network.select(network.boxAt(...place(event))?.nodes[0].id ?? -1);
  };
  element.addEventListener("pointerup", up);
  element.addEventListener("pointercancel", up);
  element.addEventListener("dblclick", (event) => {
    const box = network.boxAt(...place(event));
    if (box) network.toggle(box.nodes[0].id);
  });
  element.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const lines = event.deltaMode === 1 ? 16 : 1;
      if (event.shiftKey) network.move((camera) => camera.pan(-event.deltaY * lines, 0));
      else if (event.ctrlKey || event.metaKey || event.deltaX === 0)
        network.move((camera) => camera.zoom(Math.exp((-event.deltaY * lines) / 400), ...place(event)));
      else network.move((camera) => camera.pan(-event.deltaX * lines, -event.deltaY * lines));
    },
    { passive: false },
  );
}

const kArrows = {
  ArrowUp: ["up", 0, 1],
  ArrowDown: ["down", 0, -1],
  ArrowLeft: ["left", 1, 0],
  ArrowRight: ["right", -1, 0],
};

function keys(network, element, search, details) {
  const actions = {
    "+": () => network.move((camera) => camera.zoom(kZoom)),
    "=": () => network.move((camera) => camera.zoom(kZoom)),
    "-": () => network.move((camera) => camera.zoom(1 / kZoom)),
    0: () => network.fit(),
    "/": () => search.focus(),
    f: () => network.selected() && network.toggle(network.selected().nodes[0].id),
    Enter: () => network.selected() && details.focus(),
    Escape: () => network.select(-1),
    Home: () => network.select(network.model.nodes.length ? 0 : -1, { show: true }),
    End: () => network.select(network.model.nodes.length - 1, { show: true }),
  };
  element.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const arrow = kArrows[event.key],
      action = actions[event.key];
    if (!arrow && !action) return;
    event.preventDefault();
    if (action) action();
    else if (event.shiftKey) network.move((camera) => camera.pan(arrow[1] * kStep, arrow[2] * kStep));
    else network.select(network.neighbour(arrow[0])?.nodes[0].id ?? -1, { show: true });
  });
}

/** Until `left`, an AbortSignal: what the window listens for would hold a drawing that is no longer shown. */
export function listen(network, element, search, details, left) {
  pointers(network, element);
  keys(network, element, search, details);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => network.retheme(), { signal: left });
}
