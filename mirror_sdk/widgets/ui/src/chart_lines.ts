/* Lines of a chart on a canvas.

   A browser without a graphics card needs seconds to stroke long paths that go up and down. So a line that has more points
   than pixels, or goes up and down as much, is drawn as one bar for each column of pixels, from its lowest to its highest
   value there. */

import type { Points } from "./bridge";
import { firstAt } from "./stats";

/** The area of a panel in pixels of its canvas, with the instants and the numbers at its edges. */
export interface Area {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
  readonly begin: number;
  readonly end: number;
  readonly low: number;
  readonly high: number;
}

export interface LineStyle {
  readonly color: string;
  /** From 0 to 1. */
  readonly opacity: number;
  readonly width: number;
  /** The lengths of dashes and of the gaps after them; empty for a solid line. */
  readonly dashes: readonly number[];
  /** Whether each value lasts until the next one, as that of a set point. */
  readonly isStepped: boolean;
  /** Whether the area below the line is filled. */
  readonly isFilled: boolean;
}

interface Coordinates {
  readonly xs: Float64Array;
  readonly ys: Float64Array;
}

/** A line that goes up and down for more than this many widths of its area is drawn as bars. */
const LONGEST_PATH = 4;

/** Draw lines, the last ones on top. Those with few points are in front of those with many. */
export function drawLines(ctx: CanvasRenderingContext2D, area: Area, lines: readonly (readonly [Points, LineStyle])[]): void {
  const all = lines.map(([points, style]) => ({ line: coordinates(points, area), style }));
  const dense = all.filter(({ line }) => isDense(line, area));
  if (dense.length) {
    const bars = new Bars(area);
    for (const { line, style } of dense) drawBars(bars, line, area, style);
    bars.drawOn(ctx);
  }
  for (const one of all) if (!dense.includes(one)) drawPath(ctx, one.line, area, one.style);
  ctx.globalAlpha = 1;
}

function coordinates({ at, values }: Points, area: Area): Coordinates {
  const first = Math.max(0, firstAt(at, area.begin) - 1);
  const after = Math.min(at.length, firstAt(at, area.end) + 1);
  const scaleX = area.width / (area.end - area.begin);
  const scaleY = area.height / (area.high - area.low);
  const bottom = area.top + area.height;
  const [xs, ys] = [new Float64Array(after - first), new Float64Array(after - first)];
  for (let index = first; index < after; index += 1) {
    xs[index - first] = area.left + ((at[index] as number) - area.begin) * scaleX;
    ys[index - first] = bottom - ((values[index] as number) - area.low) * scaleY;
  }
  return { xs, ys };
}

function isDense({ xs, ys }: Coordinates, { width }: Area): boolean {
  if (xs.length > width) return true;
  let travelled = 0;
  for (let index = 1; index < ys.length; index += 1) {
    const distance = Math.abs((ys[index] as number) - (ys[index - 1] as number));
    if (!Number.isNaN(distance)) travelled += distance;
  }
  return travelled > LONGEST_PATH * width;
}

/* The first and the last point may be far outside of the area. Move them to its edges. */
function cutOff({ xs, ys }: Coordinates, { left, width }: Area, isStepped: boolean): void {
  const move = (edge: number, from: number, to: number) => {
    const [x, y, otherX, otherY] = [xs[from], ys[from], xs[to], ys[to]] as [number, number, number, number];
    ys[from] = isStepped ? (from < to ? y : otherY) : y + ((edge - x) / (otherX - x)) * (otherY - y);
    xs[from] = edge;
  };
  const last = xs.length - 1;
  if (last > 0 && (xs[0] as number) < left) move(left, 0, 1);
  if (last > 0 && (xs[last] as number) > left + width) move(left + width, last, last - 1);
}

function drawPath(ctx: CanvasRenderingContext2D, line: Coordinates, area: Area, style: LineStyle): void {
  const { xs, ys } = line;
  const { isStepped, isFilled } = style;
  ctx.strokeStyle = ctx.fillStyle = style.color;
  ctx.globalAlpha = style.opacity;
  if (xs.length * 10 * devicePixelRatio <= area.width) drawPoints(ctx, line);
  cutOff(line, area, isStepped);
  const path = new Path2D();
  const below = new Path2D();
  const bottom = area.top + area.height;
  let [x, y] = [NaN, NaN];
  const close = () => {
    if (!Number.isNaN(y)) below.lineTo(x, bottom);
    y = NaN;
  };
  for (let index = 0; index < xs.length; index += 1) {
    const [nextX, nextY] = [xs[index] as number, ys[index] as number];
    if (Number.isNaN(nextY)) {
      close();
      continue;
    }
    if (Number.isNaN(y)) {
      path.moveTo(nextX, nextY);
      below.moveTo(nextX, bottom);
    } else {
      if (isStepped) {
        path.lineTo(nextX, y);
        below.lineTo(nextX, y);
      }
      path.lineTo(nextX, nextY);
    }
    below.lineTo(nextX, nextY);
    [x, y] = [nextX, nextY];
  }
  close();
  if (isFilled) {
    ctx.globalAlpha = style.opacity * 0.08;
    ctx.fill(below);
    ctx.globalAlpha = style.opacity;
  }
  ctx.lineWidth = style.width;
  ctx.lineJoin = "bevel";
  ctx.setLineDash([...style.dashes]);
  ctx.stroke(path);
  ctx.setLineDash([]);
}

function drawPoints(ctx: CanvasRenderingContext2D, { xs, ys }: Coordinates): void {
  const radius = 2 * devicePixelRatio;
  ctx.beginPath();
  xs.forEach((x, index) => {
    const y = ys[index] as number;
    if (Number.isNaN(y)) return;
    ctx.moveTo(x + radius, y);
    ctx.arc(x, y, radius, 0, 2 * Math.PI);
  });
  ctx.fill();
}

function drawBars(bars: Bars, line: Coordinates, area: Area, { color, opacity, width, dashes, isStepped }: LineStyle): void {
  const { xs, ys } = line;
  cutOff(line, area, isStepped);
  const pixel = pixelOf(color, opacity);
  const thickness = Math.max(1, Math.round(width));
  let [column, top, bottom] = [NaN, 0, 0];
  let [x, y] = [NaN, NaN];
  const close = () => {
    if (Number.isNaN(column)) return;
    const height = Math.round(bottom - top) + thickness;
    // A peak is drawn even in the gap between two dashes.
    if (height > 3 * thickness || !isGap(column, dashes)) bars.add(column, Math.round(top - thickness / 2), height, pixel);
    column = NaN;
  };
  const include = (at: number, value: number) => {
    if (at !== column) {
      close();
      column = at;
      top = bottom = value;
    } else {
      top = Math.min(top, value);
      bottom = Math.max(bottom, value);
    }
  };
  for (let index = 0; index < xs.length; index += 1) {
    const nextX = xs[index] as number;
    const nextY = ys[index] as number;
    if (Number.isNaN(nextY)) {
      close();
      y = NaN;
      continue;
    }
    const next = Math.floor(nextX);
    if (!Number.isNaN(y)) {
      // The line between the two points enters each column on its left edge.
      const slope = isStepped ? 0 : (nextY - y) / (nextX - x);
      for (let edge = Math.floor(x) + 1; edge <= next; edge += 1) {
        const crossing = y + slope * (edge - x);
        include(edge - 1, crossing);
        include(edge, crossing);
      }
    }
    include(next, nextY);
    x = nextX;
    y = nextY;
  }
  close();
}

function isGap(x: number, dashes: readonly number[]): boolean {
  let rest = x % dashes.reduce((sum, length) => sum + length, 0);
  return dashes.some((length, index) => {
    const isHere = rest >= 0 && rest < length;
    rest -= length;
    return isHere && index % 2 === 1;
  });
}

/* Bars one pixel wide. They are drawn into one picture, since each call of a canvas takes as long as thousands of pixels. */
class Bars {
  readonly #left: number;
  readonly #top: number;
  readonly #image: ImageData;
  readonly #pixels: Uint32Array;

  constructor({ left, top, width, height }: Area) {
    [this.#left, this.#top] = [Math.round(left), Math.round(top)];
    this.#image = new ImageData(Math.max(1, Math.round(width)), Math.max(1, Math.round(height)));
    this.#pixels = new Uint32Array(this.#image.data.buffer);
  }

  add(x: number, top: number, height: number, pixel: number): void {
    const { width, height: rows } = this.#image;
    const column = Math.min(x - this.#left, width - 1);
    if (column < 0) return;
    const begin = Math.max(0, top - this.#top);
    const end = Math.min(rows, top - this.#top + height);
    for (let index = begin * width + column; index < end * width; index += width) this.#pixels[index] = pixel;
  }

  drawOn(ctx: CanvasRenderingContext2D): void {
    const { width, height } = this.#image;
    const canvas = new OffscreenCanvas(width, height);
    canvas.getContext("2d")?.putImageData(this.#image, 0, 0);
    ctx.globalAlpha = 1;
    ctx.drawImage(canvas, this.#left, this.#top);
  }
}

const pixels = new Map<string, number>();

/* A color as the number that an image has for it. */
function pixelOf(color: string, opacity: number): number {
  const key = `${color} ${opacity}`;
  let pixel = pixels.get(key);
  if (pixel === undefined) {
    const ctx = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true }) as OffscreenCanvasRenderingContext2D;
    ctx.globalAlpha = opacity;
    ctx.fillStyle = color;
    ctx.fillRect(0, 0, 1, 1);
    pixel = new Uint32Array(ctx.getImageData(0, 0, 1, 1).data.buffer)[0] ?? 0;
    pixels.set(key, pixel);
  }
  return pixel;
}
