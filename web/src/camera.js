// Which part of the drawing is seen: screen = (world - position) * scale.

const kLeast = 0.01,
  kMost = 4;

export class Camera {
  x = 0;
  y = 0;
  scale = 1;
  width = 1; // Of the window, in CSS pixels.
  height = 1;
  least = kLeast; // The scale: of a large network less, so that all of it can be seen.

  toWorld(x, y) {
    return [x / this.scale + this.x, y / this.scale + this.y];
  }

  pan(dx, dy) {
    this.x -= dx / this.scale;
    this.y -= dy / this.scale;
  }

  /** Keeps what is at screen place (x, y) there. */
  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const [worldX, worldY] = this.toWorld(x, y);
    this.scale = Math.min(kMost, Math.max(this.least, this.scale * factor));
    this.x = worldX - x / this.scale;
    this.y = worldY - y / this.scale;
  }

  center(x, y) {
    this.x = x - this.width / 2 / this.scale;
    this.y = y - this.height / 2 / this.scale;
  }

  /** All of it; or, from the first box on, as much as is readable at the scale `least`. */
  fit(layout, least = 0) {
    const across = layout.right - layout.left + 40,
      down = layout.lower - layout.upper + 40;
    const whole = Math.min(this.width / across, this.height / down, 1.2);
    this.least = Math.min(kLeast, whole);
    this.scale = Math.min(1.2, Math.max(whole, least));
    const middle = whole >= this.scale || layout.xs.length === 0 ? (layout.left + layout.right) / 2 : layout.xs[0];
    this.x = middle - this.width / 2 / this.scale;
    this.y =
      whole >= this.scale
        ? (layout.upper + layout.lower) / 2 - this.height / 2 / this.scale
        : layout.upper - 16 / this.scale;
  }

  /** Keeps some of the drawing in the window. */
  hold(layout) {
    const w = this.width / this.scale,
      h = this.height / this.scale;
    this.x = Math.min(layout.right - w * 0.1, Math.max(layout.left - w * 0.9, this.x));
    this.y = Math.min(layout.lower - h * 0.1, Math.max(layout.upper - h * 0.9, this.y));
  }
}
