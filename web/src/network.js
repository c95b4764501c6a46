// The drawing with its state: what is folded, selected, found and how it is coloured.
import { Camera } from "./camera.js";
import { makeColors } from "./colors.js";
import { Drawing, readTheme } from "./drawing.js";
import { makeBoxes, runOf } from "./fold.js";
import { kHeight, kWidth, layOut } from "./layout.js";
import { findRepeats } from "./repeats.js";

const kFoldFrom = 400; // Operators from which on repeated blocks are folded at first.
const kReadable = 0.6;

export class Network {
  /** `window` is the element that the canvas fills. onselect(box or null) is told of each selection. */
  constructor(model, window_, canvas, colorName, onselect) {
    this.model = model;
    this.window = window_;
    this.camera = new Camera();
    this.drawing = new Drawing(canvas, this.camera);
    this.onselect = onselect;
    this.runs = findRepeats(model.nodes);
    this.folded = new Set(model.nodes.length >= kFoldFrom ? this.runs : []);
    this.colorName = colorName;
    this.foundNodes = [];
    this.cutNodes = new Set();
    this.selectedNode = -1;
    this.theme = readTheme(window_);
    this.arrange();
    new ResizeObserver(() => this.resize()).observe(window_);
    this.resize();
    this.camera.fit(this.scene.layout, kReadable);
  }

  arrange() {
    const { boxes, boxOf } = makeBoxes(this.model, this.runs, this.folded);
    this.boxOf = boxOf;
    this.scene = { boxes, what: this.model.what, layout: layOut(boxes), found: new Set(), cuts: new Set(), selected: -1 };
    this.recolor();
    this.remark();
  }

  recolor() {
    this.colors = makeColors(this.colorName, this.model, this.scene.boxes);
    this.scene.fills = this.scene.boxes.map((box) => this.colors.of(box));
    this.repaint();
  }

  remark() {
    this.scene.found = new Set(this.foundNodes.map((id) => this.boxOf[id]));
    this.scene.cuts = new Set([...this.cutNodes].map((id) => this.boxOf[id]));
    this.scene.selected = this.selectedNode < 0 ? -1 : this.boxOf[this.selectedNode];
    this.repaint();
  }

  colorBy(name) {
    this.colorName = name;
    this.recolor();
    return this.colors.key;
  }

  /** The style sheet's colours have changed. */
  retheme() {
    this.theme = readTheme(this.window);
    this.repaint();
  }

  resize() {
    const { width, height } = this.window.getBoundingClientRect();
    this.drawing.resize(Math.max(1, width), Math.max(1, height), window.devicePixelRatio || 1);
    this.repaint();
  }

  repaint() {
    if (this.asked) return;
    this.asked = requestAnimationFrame(() => {
      this.asked = 0;
      this.drawing.paint(this.scene, this.theme);
      const { dataset } = this.window;
      [dataset.boxes, dataset.scale] = [this.scene.boxes.length, this.camera.scale.toFixed(3)];
      [dataset.x, dataset.y] = [this.camera.x.toFixed(1), this.camera.y.toFixed(1)];
      dataset.drawn ??= Math.round(performance.now()); // Milliseconds from the page's start to the first picture.
    });
  }

  move(change) {
    change(this.camera);
    this.camera.hold(this.scene.layout);
    this.repaint();
  }

  fit() {
    this.camera.fit(this.scene.layout);
    this.repaint();
  }

  selected() {
    return this.scene.selected < 0 ? null : this.scene.boxes[this.scene.selected];
  }

  select(id, { show = false } = {}) {
    this.selectedNode = id;
    this.remark();
    if (id >= 0 && show) this.show(id);
    this.onselect(this.selected());
  }

  /** Brings it into the window, readable, in the middle where it was outside. */
  show(id) {
    const { xs, ys } = this.scene.layout,
      box = this.boxOf[id];
    if (this.camera.scale < kReadable) this.camera.scale = 1;
    const x = (xs[box] - this.camera.x) * this.camera.scale,
      y = (ys[box] - this.camera.y) * this.camera.scale;
    const edge = 60;
    if (x < edge || y < edge || x > this.camera.width - edge || y > this.camera.height - edge)
      this.camera.center(xs[box], ys[box]);
    this.repaint();
  }

  boxAt(x, y) {
    const [worldX, worldY] = this.camera.toWorld(x, y),
      { xs, ys } = this.scene.layout;
    return (
      this.scene.boxes.find(
        ({ id }) => Math.abs(xs[id] - worldX) <= kWidth / 2 && Math.abs(ys[id] - worldY) <= kHeight / 2,
      ) ?? null
    );
  }

  /** The next box in a direction: to what it reads, to what reads it, or beside it in its layer. */
  neighbour(direction) {
    const box = this.selected() ?? this.scene.boxes[0],
      { xs, ys } = this.scene.layout;
    if (!this.selected() || !box) return box;
    const nearest = (ids) =>
      ids.length === 0
        ? box
        : this.scene.boxes[ids.reduce((a, b) => (Math.abs(xs[b] - xs[box.id]) < Math.abs(xs[a] - xs[box.id]) ? b : a))];
    if (direction === "up") return nearest(box.inputs);
    if (direction === "down") return nearest(box.readers);
    const side = direction === "left" ? -1 : 1;
    return nearest(
      this.scene.boxes
        .filter(({ id }) => Math.abs(ys[id] - ys[box.id]) < kHeight && (xs[id] - xs[box.id]) * side > 1)
        .map(({ id }) => id),
    );
  }

  /** Folds or unfolds the repeats that a node is part of, and keeps it where it is on the screen. */
  toggle(id) {
    const run = runOf(this.runs, id);
    if (!run) return;
    this.keep(id, () => (this.folded.has(run) ? this.folded.delete(run) : this.folded.add(run)));
    this.onselect(this.selected());
  }

  foldAll(fold) {
    this.keep(this.selectedNode < 0 ? 0 : this.selectedNode, () => {
      this.folded = new Set(fold ? this.runs : []);
    });
    this.onselect(this.selected());
  }

  keep(id, change) {
    const place = () => [this.scene.layout.xs[this.boxOf[id]], this.scene.layout.ys[this.boxOf[id]]];
    if (this.model.nodes.length === 0) return;
    const [x, y] = place();
    change();
    this.arrange();
    const [newX, newY] = place();
    this.move((camera) => {
      camera.x += newX - x;
      camera.y += newY - y;
    });
  }

  find(ids) {
    this.foundNodes = ids;
    this.remark();
  }

  cutAfter(ids) {
    this.cutNodes = new Set(ids);
    this.remark();
  }
}
