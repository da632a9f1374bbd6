/* One panel of a chart. uPlot has the axes, the crosshair and the zoom; the lines, states and shades are drawn here,
   because each line has its own instants. */

import uPlot from "uplot";
import type { ChartPanel, Condition, Marker, Range, Shade, StateRow } from "./chart";
import { drawLines } from "./chart_lines";
import { clock, numberFormat, rounded } from "./format";
import { extentOf, lastBefore, nearest } from "./stats";
import { colorOf } from "./styles";

export const GUTTER = 60;
const RIGHT = 20;
const AXIS_HEIGHT = 26;
const STATE_HEIGHT = 20;
const CONDITION_HEIGHT = 5;
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const DASHES: readonly (readonly number[])[] = [[], [6, 3], [2, 3], [8, 3, 2, 3]];
export const PALETTE_SIZE = 8;

export interface Palette {
  readonly series: readonly string[];
  readonly text: string;
  readonly dim: string;
  readonly line: string;
  readonly back: string;
  readonly onColor: string;
  readonly tones: Readonly<Record<Marker["tone"], string>>;
  readonly font: string;
}

export function paletteOf(element: Element): Palette {
  const series = Array.from({ length: PALETTE_SIZE }, (_, index) => colorOf(element, `series-${index + 1}`));
  const tones = { good: "ok", bad: "failed", note: "pending", warn: "drift", dim: "dim" };
  return {
    series,
    text: colorOf(element, "text"),
    dim: colorOf(element, "dim"),
    line: colorOf(element, "line"),
    back: colorOf(element, "back"),
    onColor: colorOf(element, "on-accent"),
    tones: Object.fromEntries(Object.entries(tones).map(([tone, token]) => [tone, colorOf(element, token)])) as Palette["tones"],
    font: getComputedStyle(element).fontFamily,
  };
}

/** The shared data of all panels of a chart. */
export interface Common {
  range: Range;
  zone: string;
  shades: readonly Shade[];
  markers: readonly Marker[];
  conditions: readonly Condition[];
  isolated: ReadonlySet<string>;
  /** The line below the pointer in the legend; it is drawn stronger. */
  highlighted: string | null;
  palette: Palette;
  syncKey: string;
  /** The newest instant, where spans without an end are drawn up to. */
  now: number;
  onZoom(range: Range | null): void;
  onPointer(panel: PanelView, left: number | null, top: number | null): void;
}

export type Content = { kind: "lines"; panel: ChartPanel } | { kind: "states"; row: StateRow };

export class PanelView {
  readonly plot: uPlot;
  content: Content;
  #extent: [number, number] = [0, 1];

  constructor(
    readonly box: HTMLElement,
    content: Content,
    private readonly common: Common,
    private size: { width: number; height: number },
    readonly hasTimes: boolean,
  ) {
    this.content = content;
    this.measure();
    this.plot = new uPlot(this.options(), this.data(), box);
  }

  close(): void {
    this.plot.destroy();
  }

  get sizeHeight(): number {
    return this.size.height;
  }

  get isStates(): boolean {
    return this.content.kind === "states";
  }

  /** Show new content in the range of the chart. */
  update(content: Content): void {
    this.content = content;
    this.measure();
    this.plot.setData(this.data(), false);
    this.plot.batch(() => {
      this.plot.setScale("x", { min: this.common.range.begin, max: this.common.range.end });
      this.plot.setScale("y", { min: this.#extent[0], max: this.#extent[1] });
    });
  }

  redraw(): void {
    this.plot.redraw(false, false);
  }

  resize(width: number, height: number): void {
    this.size = { width, height };
    this.plot.setSize({ width, height: this.height(height) });
  }

  private height(height: number): number {
    return (this.isStates ? STATE_HEIGHT : height) + (this.hasTimes ? AXIS_HEIGHT : 0);
  }

  /* uPlot only needs to know that data exists. */
  private data(): uPlot.AlignedData {
    return [[this.common.range.begin, this.common.range.end], [null, null]];
  }

  /** The conditions of the lines that are shown. */
  get conditions(): readonly Condition[] {
    const { content } = this;
    const own = content.kind === "states" ? [content.row.key] : content.panel.lines.map(({ key }) => key);
    return this.common.conditions.filter(({ keys }) => keys.some((key) => own.includes(key) && this.isShown(key)));
  }

  isShown(key: string): boolean {
    return !this.common.isolated.size || this.common.isolated.has(key);
  }

  private measure(): void {
    if (this.content.kind === "states") return;
    let [low, high] = [Infinity, -Infinity];
    for (const line of this.content.panel.lines) {
      const extent = this.isShown(line.key) ? extentOf(line.points, this.common.range) : null;
      if (extent) [low, high] = [Math.min(low, extent[0]), Math.max(high, extent[1])];
    }
    if (low > high) [low, high] = [0, 1];
    const span = high - low || Math.max(1, Math.abs(high) * 0.1);
    for (const { value } of this.content.panel.thresholds ?? []) {
      // A distant level would compress the lines, so it is named at the edge instead.
      if (value > high && value - high <= span) high = value;
      if (value < low && low - value <= span) low = value;
    }
    const room = (high - low || span) * 0.1;
    const isFromZero = low >= 0 && low - room < 0;
    this.#extent = [isFromZero && low === 0 ? 0 : low - room, high + room];
  }

  private options(): uPlot.Options {
    const { palette } = this.common;
    const font = `11px ${palette.font}`;
    const grid = () => this.common.palette.line;
    const text = () => this.common.palette.dim;
    return {
      width: this.size.width,
      height: this.height(this.size.height),
      ms: 1,
      padding: [this.isStates ? 1 : 6, RIGHT, this.hasTimes ? 0 : this.isStates ? 1 : 7, 0],
      tzDate: (at) => (this.common.zone ? uPlot.tzDate(new Date(at), this.common.zone) : new Date(at)),
      legend: { show: false },
      scales: {
        x: { time: true, auto: false, range: () => [this.common.range.begin, this.common.range.end] },
        y: { auto: false, range: () => this.#extent },
      },
      axes: [
        {
          show: true,
          font,
          stroke: text,
          size: this.hasTimes ? AXIS_HEIGHT : 0,
          gap: 4,
          space: 80,
          grid: { stroke: grid, width: 1, show: !this.isStates },
          ticks: { show: this.hasTimes, stroke: grid, width: 1, size: 4 },
          values: (_, splits, __, ___, step) =>
            this.hasTimes ? splits.map((at) => timeLabel(at, step, this.common.zone)) : splits.map(() => ""),
        },
        {
          show: true,
          font,
          stroke: text,
          size: GUTTER,
          gap: 6,
          space: 28,
          grid: { stroke: grid, width: 1, show: !this.isStates },
          ticks: { show: false },
          splits: this.isStates ? () => [] : undefined,
          values: (_, splits) => splits.map((value) => axisNumber(value, splits)),
        },
      ],
      series: [{}, { show: true, stroke: "transparent", points: { show: false } }],
      cursor: {
        x: true,
        y: false,
        points: { show: false },
        sync: { key: this.common.syncKey, scales: ["x", null] },
        drag: { x: true, y: false, setScale: false, dist: 4 },
        bind: {
          dblclick: () => () => {
            this.common.onZoom(null);
            return null;
          },
        },
      },
      hooks: {
        drawClear: [() => this.drawBehind()],
        draw: [() => this.draw()],
        setSelect: [(plot) => this.zoom(plot)],
        setCursor: [
          (plot) => {
            const { left = -1, top = -1 } = plot.cursor;
            const event = plot.cursor.event as { type?: string } | null | undefined;
            // Only the panel below the pointer reports it; the others follow its crosshair.
            if (left < 0) this.common.onPointer(this, null, null);
            else if (event && plot.over.matches(":hover")) this.common.onPointer(this, left, top);
          },
        ],
      },
    };
  }

  private zoom(plot: uPlot): void {
    const { left, width } = plot.select;
    if (width < 4) return;
    const [begin, end] = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    // All panels receive the same selection.
    if (plot.over.matches(":hover") || plot.cursor.event) this.common.onZoom({ begin, end });
  }

  private x(at: number): number {
    return this.plot.valToPos(at, "x", true);
  }

  private y(value: number): number {
    return this.plot.valToPos(value, "y", true);
  }

  /* Shades, below the grid. */
  private drawBehind(): void {
    const { ctx, bbox } = this.plot;
    const { range, shades, palette, now } = this.common;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    if (!this.isStates) this.drawConditions(bbox.top, bbox.height, 0.16);
    for (const { kind, begin, end } of shades) {
      if (begin > range.end || (end ?? now) < range.begin) continue;
      const left = this.x(Math.max(begin, range.begin));
      const width = Math.max(2 * devicePixelRatio, this.x(Math.min(end ?? now, range.end)) - left);
      ctx.globalAlpha = kind === "gap" ? 0.14 : 0.1;
      ctx.fillStyle = kind === "gap" ? palette.tones.bad : palette.text;
      ctx.fillRect(left, bbox.top, width, bbox.height);
      ctx.globalAlpha = kind === "gap" ? 0.5 : 0.3;
      ctx.fillRect(left, bbox.top, Math.max(1, devicePixelRatio), bbox.height);
    }
    ctx.restore();
  }

  /* The spans in which conditions are met, in a band of the panel. An unknown span is hatched. */
  private drawConditions(top: number, height: number, opacity: number): void {
    const { ctx, bbox } = this.plot;
    const { range, palette, now } = this.common;
    const ratio = devicePixelRatio;
    ctx.fillStyle = ctx.strokeStyle = palette.tones.warn;
    ctx.lineWidth = ratio;
    for (const [begin, end, isKnown] of this.conditions.flatMap(({ spans }) => spans)) {
      if (begin > range.end || (end ?? now) < range.begin) continue;
      const left = this.x(Math.max(begin, range.begin));
      const width = Math.max(2 * ratio, this.x(Math.min(end ?? now, range.end)) - left);
      ctx.globalAlpha = isKnown ? opacity : opacity / 4;
      ctx.fillRect(left, top, width, height);
      if (isKnown) continue;
      ctx.save();
      ctx.beginPath();
      ctx.rect(left, top, width, height);
      ctx.clip();
      ctx.beginPath();
      // The hatching of adjacent spans is aligned.
      const step = 8 * ratio;
      for (let x = bbox.left + Math.floor((left - height - bbox.left) / step) * step; x < left + width; x += step) {
        ctx.moveTo(x, top + height);
        ctx.lineTo(x + height, top);
      }
      ctx.globalAlpha = 2 * opacity;
      ctx.stroke();
      ctx.restore();
    }
    ctx.globalAlpha = 1;
  }

  private draw(): void {
    const { ctx, bbox } = this.plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    if (this.content.kind === "states") {
      this.drawStates(this.content.row);
      // The states fill the panel, so conditions are at its lower edge.
      const height = CONDITION_HEIGHT * devicePixelRatio;
      if (this.conditions.length) this.drawConditions(bbox.top + bbox.height - height, height, 1);
    } else this.drawLines(this.content.panel);
    this.drawMarkers();
    ctx.restore();
  }

  private drawLines(panel: ChartPanel): void {
    const { ctx, bbox } = this.plot;
    const { highlighted, palette } = this.common;
    const ratio = devicePixelRatio;
    const shown = panel.lines.filter(({ key }) => this.isShown(key));
    const [low, high] = this.#extent;
    const area = { ...this.common.range, left: bbox.left, top: bbox.top, width: bbox.width, height: bbox.height, low, high };
    const hasHighlighted = shown.some(({ key }) => key === highlighted);
    // The highlighted line is drawn last, so that none covers it.
    const ordered = hasHighlighted ? [...shown].sort((one, other) => Number(one.key === highlighted) - Number(other.key === highlighted)) : shown;
    drawLines(
      ctx,
      area,
      ordered.map(({ key, points, color, isStepped = false }) => [
        points,
        {
          color: palette.series[color % PALETTE_SIZE] ?? palette.text,
          opacity: hasHighlighted && key !== highlighted ? 0.25 : 1,
          width: (key === highlighted ? 2.5 : 1.5) * ratio,
          dashes: (DASHES[Math.floor(color / PALETTE_SIZE) % DASHES.length] ?? []).map((length) => length * ratio),
          isStepped,
          isFilled: shown.length === 1,
        },
      ]),
    );
    for (const { value, text } of panel.thresholds ?? []) {
      const y = this.y(value);
      const isInside = y >= bbox.top && y <= bbox.top + bbox.height;
      ctx.strokeStyle = ctx.fillStyle = palette.tones.bad;
      ctx.lineWidth = ratio;
      ctx.setLineDash([5 * ratio, 4 * ratio]);
      if (isInside) {
        ctx.beginPath();
        ctx.moveTo(bbox.left, y);
        ctx.lineTo(bbox.left + bbox.width, y);
        ctx.stroke();
      }
      ctx.font = `${11 * ratio}px ${palette.font}`;
      ctx.textAlign = "left";
      ctx.textBaseline = isInside && y - bbox.top < 16 * ratio ? "top" : "bottom";
      const at = isInside ? y + (ctx.textBaseline === "top" ? 2 : -2) * ratio : y < bbox.top ? bbox.top + 14 * ratio : bbox.top + bbox.height - 2;
      const label = isInside ? text : `${y < bbox.top ? "↑" : "↓"} ${text}`;
      // A line may cross the background of the label.
      const height = 13 * ratio;
      ctx.fillStyle = palette.back;
      ctx.fillRect(bbox.left + 2 * ratio, ctx.textBaseline === "top" ? at : at - height, ctx.measureText(label).width + 4 * ratio, height);
      ctx.fillStyle = palette.tones.bad;
      ctx.fillText(label, bbox.left + 4 * ratio, at);
    }
    ctx.setLineDash([]);
  }

  private drawStates({ key, spans }: StateRow): void {
    const { ctx, bbox } = this.plot;
    const { range, palette, now } = this.common;
    const ratio = devicePixelRatio;
    ctx.globalAlpha = this.isShown(key) ? 1 : 0.25;
    ctx.font = `${11 * ratio}px ${palette.font}`;
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    for (const { begin, end, text, color } of spans) {
      if (begin > range.end || (end ?? now) < range.begin) continue;
      const left = this.x(Math.max(begin, range.begin));
      const width = Math.max(ratio, this.x(Math.min(end ?? now, range.end)) - left - ratio);
      ctx.fillStyle = color === null ? palette.line : (palette.series[color % PALETTE_SIZE] ?? palette.text);
      ctx.fillRect(left, bbox.top, width, bbox.height);
      if (width > ctx.measureText(text).width + 10 * ratio) {
        ctx.fillStyle = color === null ? palette.text : palette.onColor;
        ctx.fillText(text, left + 5 * ratio, bbox.top + bbox.height / 2 + ratio / 2);
      }
    }
    ctx.globalAlpha = 1;
  }

  private drawMarkers(): void {
    const { ctx, bbox } = this.plot;
    const { range, markers, palette } = this.common;
    const ratio = devicePixelRatio;
    for (const { at, tone } of markers) {
      if (at < range.begin || at > range.end) continue;
      const x = Math.round(this.x(at));
      ctx.strokeStyle = ctx.fillStyle = palette.tones[tone];
      ctx.lineWidth = ratio;
      ctx.setLineDash([3 * ratio, 3 * ratio]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.setLineDash([]);
      if (this.isStates) continue;
      ctx.beginPath();
      ctx.moveTo(x - 5 * ratio, bbox.top);
      ctx.lineTo(x + 5 * ratio, bbox.top);
      ctx.lineTo(x, bbox.top + 7 * ratio);
      ctx.closePath();
      ctx.fill();
    }
  }

  /** The points below the crosshair: for each line the nearest one, or for a stepped line the value at that time. */
  pointsAt(left: number): { key: string; name: string; color: number; at: number; value: number; top: number }[] {
    if (this.content.kind === "states") return [];
    const instant = this.plot.posToVal(left, "x");
    const within = this.plot.posToVal(left + 24, "x") - instant;
    return this.content.panel.lines.flatMap(({ key, name, color, points, isStepped }) => {
      if (!this.isShown(key)) return [];
      const lasting = isStepped ? lastBefore(points, instant) : -1;
      const index = lasting < 0 ? nearest(points, instant, within) : lasting;
      if (index < 0) return [];
      const value = points.values[index] as number;
      const at = lasting < 0 ? (points.at[index] as number) : instant;
      return [{ key, name, color, at, value, top: this.plot.valToPos(value, "y") }];
    });
  }
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** The label of an instant on the time axis, whose labels are `step` apart. */
export function timeLabel(at: number, step: number, zone: string): string {
  const { year, month, day, hour, minute, second } = clock(at, zone);
  const date = `${Number(day)} ${MONTHS[Number(month) - 1]}`;
  if (step >= 28 * DAY) return month === "01" ? year : (MONTHS[Number(month) - 1] ?? "");
  if (step >= DAY) return date;
  if (hour === "00" && minute === "00" && second === "00" && at % SECOND === 0) return date;
  if (step >= MINUTE) return `${hour}:${minute}`;
  if (step >= SECOND) return `${hour}:${minute}:${second}`;
  return `${minute}:${second}.${String(Math.floor(at % SECOND)).padStart(3, "0")}`;
}

/** The label of a number on an axis: all of them have the same number of digits after the point. */
export function axisNumber(value: number, all: readonly number[]): string {
  const step = all.length > 1 ? Math.abs((all[1] as number) - (all[0] as number)) : Math.abs(value);
  const size = Math.max(...all.map(Math.abs));
  if (size >= 1e6 || (size < 1e-3 && size > 0)) {
    return size >= 1e6 && size < 1e15 ? value.toLocaleString("en", { notation: "compact", maximumFractionDigits: 2, signDisplay: "negative" }) : rounded(value);
  }
  const digits = step >= 1 || step === 0 ? 0 : Math.min(6, Math.ceil(-Math.log10(step) - 1e-9));
  return numberFormat(digits, digits).format(value);
}
