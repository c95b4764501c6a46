// Paints what the camera sees of the network. Only that: thousands of boxes outside cost nothing.
import { inkOn } from "./colors.js";
import { titleOf } from "./fold.js";
import { counted } from "./format.js";
import { kHeight, kWidth } from "./layout.js";

const kReadable = 0.45,
  kNamed = 0.8; // Scales from which on operators and names are written.
const kCurved = 0.15;

/** Colours of the page's style sheet, which knows light and dark. */
export function readTheme(element) {
  const style = getComputedStyle(element);
  const of = (name) => style.getPropertyValue(name).trim();
  return { ground: of("--ground"), edge: of("--edge"), far: of("--far"), mark: of("--mark"), line: of("--line") };
}

function shorten(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let length = text.length;
  while (length > 1 && context.measureText(`${text.slice(0, length)}\u2026`).width > width)
    length = Math.floor(length * 0.9);
  return `${text.slice(0, length)}\u2026`;
}

export class Drawing {
  /** scene: {boxes, layout, colors, fills, found, selected, cuts}; see network.js. */
  constructor(canvas, camera) {
    this.canvas = canvas;
    this.camera = camera;
    this.context = canvas.getContext("2d", { alpha: false });
  }

  resize(width, height, ratio) {
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.ratio = ratio;
    [this.camera.width, this.camera.height] = [width, height];
  }

  paint(scene, theme) {
    const { context, camera, ratio } = this;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = theme.ground;
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    const scale = camera.scale * ratio;
    context.setTransform(scale, 0, 0, scale, -camera.x * scale, -camera.y * scale);
    const [left, top] = camera.toWorld(0, 0),
      [right, bottom] = camera.toWorld(camera.width, camera.height);
    const view = { left, top, right, bottom };
    this.paintEdges(scene, view, theme);
    const seen = scene.boxes.filter(({ id }) => this.isSeen(scene.layout, id, view));
    this.paintBoxes(scene, seen, theme);
    if (camera.scale >= kReadable) this.paintText(scene, seen);
    this.paintMarks(scene, seen, theme);
  }

  isSeen(layout, id, view) {
    const x = layout.xs[id],
      y = layout.ys[id];
    return x + kWidth > view.left && x - kWidth < view.right && y + kHeight > view.top && y - kHeight < view.bottom;
  }

  paintEdges(scene, view, theme) {
    const { context, camera } = this,
      chosen = scene.selected;
    const near = new Path2D(),
      far = new Path2D(),
      marked = new Path2D();
    for (const edge of scene.layout.edges) {
      const points = edge.points,
        first = points[0],
        last = points[points.length - 1];
      if (last[1] < view.top || first[1] > view.bottom) continue;
      const path = edge.from === chosen || edge.to === chosen ? marked : edge.far ? far : near;
      path.moveTo(first[0], first[1]);
      if (camera.scale < kCurved) path.lineTo(last[0], last[1]);
      else this.curve(path, points);
    }
    const draw = (path, color, width) => {
      context.strokeStyle = color;
      context.lineWidth = Math.max(width, 0.6 / camera.scale);
      context.stroke(path);
    };
    draw(far, theme.far, 1);
    draw(near, theme.edge, 1.2);
    draw(marked, theme.mark, 2.4);
  }

  curve(path, points) {
    for (let i = 1; i < points.length; ++i) {
      const [x0, y0] = points[i - 1],
        [x1, y1] = points[i],
        middle = (y0 + y1) / 2;
      path.bezierCurveTo(x0, middle, x1, middle, x1, y1);
    }
  }

  paintBoxes(scene, seen, theme) {
    const { context, camera } = this,
      { xs, ys } = scene.layout;
    for (const box of seen) {
      let x = xs[box.id] - kWidth / 2;
      const y = ys[box.id] - kHeight / 2,
        shares = scene.fills[box.id];
      if (box.run && camera.scale > kCurved) {
        context.fillStyle = theme.line;
        context.fillRect(x + 5, y + 5, kWidth, kHeight);
        context.fillStyle = theme.ground;
        context.fillRect(x + 3, y + 3, kWidth, kHeight);
      }
      let total = 0;
      for (const [, share] of shares) total += share;
      for (const [color, share] of shares) {
        context.fillStyle = color;
        context.fillRect(x, y, (kWidth * share) / total, kHeight);
        x += (kWidth * share) / total;
      }
    }
  }

  paintText(scene, seen) {
    const { context, camera } = this,
      { xs, ys } = scene.layout,
      named = camera.scale >= kNamed;
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (const box of seen) {
      const second = box.run ? counted(box.nodes.length, scene.what) : box.nodes[0].name;
      context.fillStyle = inkOn(scene.fills[box.id][0][0]);
      context.font = "600 12px system-ui, sans-serif";
      const both = named && second !== "";
      context.fillText(shorten(context, titleOf(box), kWidth - 10), xs[box.id], ys[box.id] - (both ? 7 : 0));
      if (!both) continue;
      context.font = "10px system-ui, sans-serif";
      context.fillText(shorten(context, second, kWidth - 10), xs[box.id], ys[box.id] + 8);
    }
  }

  paintMarks(scene, seen, theme) {
    const { context, camera } = this,
      { xs, ys } = scene.layout;
    context.strokeStyle = theme.mark;
    const outline = (id, width, grow) => {
      context.lineWidth = Math.max(width, width / camera.scale);
      context.strokeRect(
        xs[id] - kWidth / 2 - grow,
        ys[id] - kHeight / 2 - grow,
        kWidth + 2 * grow,
        kHeight + 2 * grow,
      );
    };
    for (const { id } of seen) if (scene.found.has(id)) outline(id, 1.5, 1);
    for (const { id } of seen) {
      if (!scene.cuts.has(id)) continue;
      context.setLineDash([6, 4]);
      context.lineWidth = Math.max(2, 2 / camera.scale);
      context.beginPath();
      context.moveTo(xs[id] - kWidth, ys[id] + kHeight / 2 + 8);
      context.lineTo(xs[id] + kWidth, ys[id] + kHeight / 2 + 8);
      context.stroke();
      context.setLineDash([]);
    }
    if (scene.selected >= 0) outline(scene.selected, 3, 3);
  }
}
