/* Lines and states over time. One chart has several panels with a common time axis and crosshair. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import uPlotStyles from "uplot/dist/uPlot.min.css";
import type { Points } from "./bridge";
import { PALETTE_SIZE, PanelView, paletteOf, type Common, type Content } from "./chart_panel";
import { MISSING, digitsOf, instantIn, longDuration, quantity, rounded, shortInstant } from "./format";
import { withinYears } from "./range";
import { statsOf, timeAbove } from "./stats";
import { adopt, onSchemeChange } from "./styles";

/** Instants in milliseconds since 1970. */
export interface Range {
  readonly begin: number;
  readonly end: number;
}

/** A line of a panel. `key` identifies it in the whole chart. */
export interface ChartLine {
  readonly key: string;
  readonly name: string;
  readonly points: Points;
  /** The index of its color, from 0; it is taken modulo the palette. */
  readonly color: number;
  /** Whether each value lasts until the next one, as that of a set point; else the line is straight between two points. */
  readonly isStepped?: boolean;
}

/** A level that a panel shows as a line across. */
export interface Threshold {
  readonly value: number;
  readonly text: string;
  /** The lines whose time above the level the legend shows; all lines of the panel by default. */
  readonly keys?: readonly string[];
}

/** A panel: lines of one quantity in one unit. */
export interface ChartPanel {
  readonly key: string;
  /** The quantity, such as "Temperature". */
  readonly title: string;
  /** The unit as people write it; empty for a pure number. */
  readonly unit: string;
  readonly lines: readonly ChartLine[];
  readonly thresholds?: readonly Threshold[];
}

/** A state that lasts from `begin` to `end`, or to the newest instant if `end` is null. */
export interface StateSpan {
  readonly begin: number;
  readonly end: number | null;
  readonly text: string;
  /** The index of its color; null for the absence of a value. */
  readonly color: number | null;
}

/** A row of the state timeline: a boolean, an enumeration or a text over time. */
export interface StateRow {
  readonly key: string;
  readonly name: string;
  readonly spans: readonly StateSpan[];
}

/** An interval that all panels shade, such as a gap or the absence of a device. */
export interface Shade {
  readonly kind: "gap" | "offline";
  readonly begin: number;
  readonly end: number | null;
  /** The text on hover: "weather-station-1 offline". */
  readonly text: string;
}

/** An instant that all panels mark, such as a write. */
export interface Marker {
  readonly at: number;
  readonly text: string;
  readonly tone: "good" | "bad" | "note" | "warn" | "dim";
}

/** A condition of a resource, or of several resources of a device. */
export interface Condition {
  /** The text of the condition. */
  readonly text: string;
  /** The resource or the device. */
  readonly name: string;
  /** The lines and states to which it belongs. Their panels shade the spans. */
  readonly keys: readonly string[];
  /** When it is met: the begin, the end or null if it is still met, and whether this is known. */
  readonly spans: readonly (readonly [number, number | null, boolean])[];
}

export interface ChartProps {
  /** The title, for screen readers. */
  readonly label: string;
  readonly panels: readonly ChartPanel[];
  readonly states?: readonly StateRow[];
  readonly shades?: readonly Shade[];
  readonly markers?: readonly Marker[];
  readonly conditions?: readonly Condition[];
  readonly range: Range;
  /** The user zoomed by dragging; null: the user clicked twice to see everything again. */
  onRange?(range: Range | null): void;
  /** A name of a time zone, such as "UTC" or "Europe/Berlin"; "" for that of the browser. */
  readonly zone: string;
  /** The keys of the lines and states that are shown alone; all if it is empty. */
  readonly isolated?: readonly string[];
  onIsolate?(keys: readonly string[]): void;
  /** Whether the legend table is shown, below the panels. */
  readonly legend?: boolean;
  /** The height of each panel in pixels; by default it depends on their number. */
  readonly panelHeight?: number;
  /** Shown instead of the panels while there is nothing to draw. */
  readonly empty?: ComponentChildren;
  /** Receives the function that draws the chart as a PNG picture. */
  readonly picture?: { current: (() => Promise<Blob>) | null };
}

adopt(uPlotStyles);

const NARROWEST_PICTURE = 760;
/** Milliseconds of the shortest range that a zoom chooses. */
const SHORTEST_RANGE = 10;

interface Hover {
  readonly x: number;
  readonly y: number;
  readonly isLeft: boolean;
  readonly time: string;
  readonly rows: readonly { key: string; name: string; color: number | null; text: string; isNearest: boolean }[];
  readonly notes: readonly { text: string; tone: string }[];
}

/* State that outlives a rendering of the component: its panels, and their shared data. */
class ChartView {
  readonly common: Common;
  panels: PanelView[] = [];
  props: ChartProps;
  #endScheme: () => void;
  #resize: ResizeObserver;
  #marks = new Map<PanelView, HTMLElement[]>();

  constructor(
    private readonly root: HTMLElement,
    props: ChartProps,
    private readonly onHover: (hover: Hover | null) => void,
  ) {
    this.props = props;
    this.common = {
      range: props.range,
      zone: props.zone,
      shades: [],
      markers: [],
      conditions: [],
      isolated: new Set(),
      highlighted: null,
      palette: paletteOf(root),
      syncKey: `mirror-${Math.random().toString(36).slice(2)}`,
      now: props.range.end,
      onZoom: (range) => this.props.onRange?.(range && allowed(range)),
      onPointer: (panel, left, top) => this.point(panel, left, top),
    };
    this.#endScheme = onSchemeChange(() => {
      this.common.palette = paletteOf(root);
      for (const panel of this.panels) panel.redraw();
    });
    this.#resize = new ResizeObserver(() => this.resize());
    this.#resize.observe(root);
  }

  close(): void {
    this.#endScheme();
    this.#resize.disconnect();
    for (const panel of this.panels) panel.close();
    this.panels = [];
  }

  contents(): { key: string; content: Content }[] {
    const { panels, states = [] } = this.props;
    return [
      ...panels.map((panel) => ({ key: `lines ${panel.key}`, content: { kind: "lines", panel } as const })),
      ...states.map((row) => ({ key: `states ${row.key}`, content: { kind: "states", row } as const })),
    ];
  }

  height(): number {
    const count = this.props.panels.length;
    return this.props.panelHeight ?? (count <= 1 ? 260 : count === 2 ? 190 : count === 3 ? 160 : 140);
  }

  width(): number {
    return Math.max(120, this.root.clientWidth);
  }

  update(props: ChartProps): void {
    this.props = props;
    const ends = [...props.panels.flatMap(({ lines }) => lines.map(({ points }) => points.at.at(-1) ?? 0)), ...(props.states ?? []).flatMap(({ spans }) => spans.map(({ begin, end }) => end ?? begin))];
    Object.assign(this.common, {
      range: props.range,
      zone: props.zone,
      shades: props.shades ?? [],
      markers: props.markers ?? [],
      conditions: props.conditions ?? [],
      isolated: new Set(props.isolated),
      now: Math.max(props.range.end, ...ends.slice(0, 10_000)),
    });
    const boxes = [...this.root.querySelectorAll<HTMLElement>(":scope > .mirror-plot > .mirror-plot-canvas")];
    const contents = this.contents();
    const isSame =
      this.panels.length === boxes.length &&
      this.panels.every(
        (panel, index) => panel.box === boxes[index] && panel.hasTimes === (index === boxes.length - 1) && panel.isStates === (contents[index]?.content.kind === "states"),
      );
    if (!isSame) {
      for (const panel of this.panels) panel.close();
      const size = { width: this.width(), height: this.height() };
      this.panels = boxes.flatMap((box, index) => {
        const made = contents[index];
        return made ? [new PanelView(box, made.content, this.common, size, index === boxes.length - 1)] : [];
      });
      return;
    }
    this.panels.forEach((panel, index) => {
      const made = contents[index];
      if (made) panel.update(made.content);
    });
    this.resize();
  }

  highlight(key: string | null): void {
    if (this.common.highlighted === key) return;
    this.common.highlighted = key;
    for (const panel of this.panels) panel.redraw();
  }

  resize(): void {
    const [width, height] = [this.width(), this.height()];
    for (const panel of this.panels) {
      if (panel.plot.width !== width || panel.sizeHeight !== height) panel.resize(width, height);
    }
  }

  /* The tooltip of the panel below the pointer, and the points of all panels at its instant. */
  point(panel: PanelView, left: number | null, top: number | null): void {
    if (left === null || top === null) {
      for (const marks of this.#marks.values()) for (const mark of marks) mark.hidden = true;
      this.onHover(null);
      return;
    }
    const at = panel.plot.posToVal(left, "x");
    const within = panel.plot.posToVal(left + 5, "x") - at;
    for (const other of this.panels) this.mark(other, left);
    const points = panel.pointsAt(left);
    const nearestTop = Math.min(...points.map((point) => Math.abs(point.top - top)));
    const rows =
      panel.content.kind === "states"
        ? this.stateAt(panel.content.row, at)
        : points
            .sort((one, other) => other.value - one.value)
            .map(({ key, name, color, value, top: y }) => ({
              key,
              name,
              color,
              text: quantity(value, panel.content.kind === "lines" ? panel.content.panel.unit : ""),
              isNearest: points.length > 1 && Math.abs(y - top) === nearestTop,
            }));
    const { shades, markers, now } = this.common;
    const notes = [
      ...markers.filter((marker) => Math.abs(marker.at - at) <= within).map(({ text, tone }) => ({ text, tone })),
      ...shades
        .filter(({ begin, end }) => begin - within <= at && at <= (end ?? now) + within)
        .map(({ text, kind }) => ({ text, tone: kind === "gap" ? "bad" : "dim" })),
      ...panel.conditions.flatMap(({ text, name, spans }) =>
        spans
          // A span without a duration is found near it.
          .filter(([begin, end]) => (begin === end ? Math.abs(begin - at) <= within : begin <= at && at <= (end ?? now)))
          .map(([, , isKnown]) => ({ text: `${name}: ${text}${isKnown ? "" : " (unknown)"}`, tone: "warn" })),
      ),
    ];
    const instants = points.map((point) => point.at);
    const shown = instants.length === 1 ? (instants[0] as number) : at;
    const box = panel.plot.over.getBoundingClientRect();
    const whole = this.root.getBoundingClientRect();
    const x = box.left - whole.left + left;
    this.onHover({
      x,
      y: box.top - whole.top + top,
      isLeft: x > whole.width * 0.6,
      time: instantIn(Math.round(shown), this.props.zone),
      rows: rows.slice(0, 12),
      notes: notes.slice(0, 6),
    });
  }

  stateAt(row: StateRow, at: number): Hover["rows"] {
    const span = row.spans.find(({ begin, end }) => begin <= at && at < (end ?? Infinity));
    if (!span) return [];
    const length = longDuration((span.end ?? Math.max(this.common.now, span.begin)) - span.begin);
    const since = shortInstant(span.begin, this.props.zone);
    const text = `${span.text}, ${span.end === null ? `for ${length} so far, since ${since}` : `for ${length} from ${since}`}`;
    return [{ key: row.key, name: row.name, color: span.color, text, isNearest: false }];
  }

  private mark(panel: PanelView, left: number): void {
    const points = panel.pointsAt(left);
    const marks = this.#marks.get(panel) ?? [];
    this.#marks.set(panel, marks);
    points.forEach((point, index) => {
      let mark = marks[index];
      if (mark === undefined || !mark.isConnected) {
        mark = document.createElement("div");
        mark.className = "mirror-plot-point";
        panel.plot.over.append(mark);
        marks[index] = mark;
      }
      mark.hidden = false;
      mark.style.background = this.common.palette.series[point.color % this.common.palette.series.length] ?? "";
      mark.style.transform = `translate(${panel.plot.valToPos(point.at, "x")}px, ${point.top}px)`;
    });
    for (const mark of marks.slice(points.length)) mark.hidden = true;
  }

  /** Draw the chart as a PNG picture, with titles and the legend. */
  async picture(): Promise<Blob> {
    const ratio = devicePixelRatio;
    const { palette } = this.common;
    const legend = legendRows(this.props);
    const width = Math.max(NARROWEST_PICTURE, ...this.panels.map(({ plot }) => plot.width)) + 16;
    const headHeight = 22;
    const rowHeight = 18;
    const height =
      16 + this.panels.reduce((sum, { plot }) => sum + plot.height + headHeight, 0) + (legend.length ? (legend.length + 1) * rowHeight + 12 : 0);
    const canvas = document.createElement("canvas");
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const context = canvas.getContext("2d") as CanvasRenderingContext2D;
    context.scale(ratio, ratio);
    context.fillStyle = palette.back;
    context.fillRect(0, 0, width, height);
    let top = 8;
    const write = (text: string, x: number, y: number, color: string, options: { bold?: boolean; right?: boolean } = {}) => {
      context.font = `${options.bold ? "600 " : ""}12px ${palette.font}`;
      context.fillStyle = color;
      context.textAlign = options.right ? "right" : "left";
      context.textBaseline = "alphabetic";
      context.fillText(text, x, y);
    };
    for (const panel of this.panels) {
      write(titleOf(panel.content), 8, top + 15, palette.text, { bold: true });
      context.drawImage(panel.plot.ctx.canvas, 8, top + headHeight, panel.plot.width, panel.plot.height);
      top += headHeight + panel.plot.height;
    }
    const columns = ["Last", "Min", "Max", "Mean"].map((text, index) => ({ text, x: width - 8 - (3 - index) * 90 }));
    if (legend.length) {
      top += rowHeight + 6;
      for (const { text, x } of columns) write(text, x, top, palette.dim, { right: true });
      for (const row of legend) {
        top += rowHeight;
        if (row.color !== null) {
          context.fillStyle = palette.series[row.color % palette.series.length] ?? palette.text;
          context.fillRect(8, top - 7, 12, 3);
        }
        write(row.unit ? `${row.name} (${row.unit})` : row.name, 26, top, palette.text);
        [row.last, row.min, row.max, row.mean].forEach((text, index) => write(text, columns[index]?.x ?? 0, top, palette.text, { right: true }));
      }
    }
    return new Promise((resolve, reject) => {
      canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("The browser cannot draw a picture of this size."))), "image/png");
    });
  }
}

function titleOf(content: Content): string {
  if (content.kind === "states") return content.row.name;
  return content.panel.unit ? `${content.panel.title} (${content.panel.unit})` : content.panel.title;
}

interface LegendRow {
  readonly key: string;
  readonly name: string;
  /** The quantity, if the chart has several panels. */
  readonly panel: string;
  readonly color: number | null;
  readonly unit: string;
  readonly last: string;
  readonly min: string;
  readonly max: string;
  readonly mean: string;
  readonly above: readonly string[];
  /** How long each condition was met. */
  readonly met: readonly string[];
}

function metTimes(key: string, { conditions = [], range }: ChartProps): string[] {
  return conditions
    .filter(({ keys }) => keys.includes(key))
    .map(({ text, spans }) => {
      const visible = spans.filter(([begin, end, isKnown]) => isKnown && begin <= range.end && (end ?? range.end) >= range.begin);
      const time = visible.reduce((sum, [begin, end]) => sum + Math.min(end ?? range.end, range.end) - Math.max(begin, range.begin), 0);
      // A change has no duration.
      const count = visible.length === 1 ? "once" : `${visible.length} times`;
      return `${text}: ${time ? longDuration(time) : visible.length ? count : "never"}`;
    });
}

function legendRows(props: ChartProps): LegendRow[] {
  const { panels, states = [], range } = props;
  const lines = panels.flatMap((panel) =>
    panel.lines.map((line) => {
      const stats = statsOf(line.points, range);
      const text = (value: number | undefined) => (value === undefined ? MISSING : rounded(value));
      // A mean has one digit more than the values; further ones would be meaningless.
      const digits = stats ? Math.max(...[stats.last, stats.min, stats.max].map(digitsOf)) + 1 : 0;
      const levels = (panel.thresholds ?? []).filter(({ keys }) => !keys || keys.includes(line.key));
      return {
        key: line.key,
        name: line.name,
        panel: panel.title,
        color: line.color,
        unit: panel.unit,
        last: text(stats?.last),
        min: text(stats?.min),
        max: text(stats?.max),
        mean: stats ? rounded(stats.mean, digits) : MISSING,
        above: levels.map(({ value, text: level }) => {
          const time = timeAbove(line.points, range, value, line.isStepped);
          return `${level}: ${time ? longDuration(time) : "never"}`;
        }),
        met: metTimes(line.key, props),
      };
    }),
  );
  const rows = states.map(({ key, name, spans }) => {
    const last = spans.filter(({ begin }) => begin <= range.end).at(-1);
    const none = { unit: "", min: "", max: "", mean: "", above: [] };
    return { key, name, panel: "", color: last?.color ?? null, last: last?.text ?? MISSING, met: metTimes(key, props), ...none };
  });
  return [...lines, ...rows];
}

function LegendTable({ props, onHighlight }: { props: ChartProps; onHighlight(key: string | null): void }) {
  const rows = legendRows(props);
  const isolated = new Set(props.isolated);
  const hasLevels = rows.some(({ above }) => above.length);
  const hasConditions = rows.some(({ met }) => met.length);
  const isolate = (key: string, event: MouseEvent) => {
    const isAdded = event.ctrlKey || event.metaKey || event.shiftKey;
    if (isAdded) {
      const chosen = new Set(isolated);
      if (!chosen.delete(key)) chosen.add(key);
      props.onIsolate?.([...chosen]);
    } else props.onIsolate?.(isolated.size === 1 && isolated.has(key) ? [] : [key]);
  };
  return (
    <div class="mirror-legend-table" role="region" aria-label={`Legend of ${props.label}`} tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th scope="col">Name</th>
            {["Last", "Min", "Max", "Mean"].map((heading) => (
              <th scope="col" key={heading} class="mirror-right">
                {heading}
              </th>
            ))}
            <th scope="col">Unit</th>
            {hasLevels && <th scope="col">Time above</th>}
            {hasConditions && (
              <th scope="col" class="mirror-legend-conditions">
                Condition met
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr
              key={row.key}
              class={isolated.size && !isolated.has(row.key) ? "mirror-faint" : ""}
              onMouseEnter={() => onHighlight(row.key)}
              onMouseLeave={() => onHighlight(null)}
            >
              <th scope="row">
                <button
                  type="button"
                  aria-pressed={isolated.has(row.key)}
                  title={`${row.name}\nClick: show only this. Ctrl+click: add it or take it away.`}
                  onClick={(event) => isolate(row.key, event)}
                  onFocus={() => onHighlight(row.key)}
                  onBlur={() => onHighlight(null)}
                >
                  <Swatch color={row.color} />
                  <span class="mirror-cut">{row.name}</span>
                </button>
              </th>
              <td class="mirror-right mirror-cut" title={row.last}>
                {row.last}
              </td>
              <td class="mirror-right">{row.min}</td>
              <td class="mirror-right">{row.max}</td>
              <td class="mirror-right">{row.mean}</td>
              <td class="mirror-dim">{row.unit}</td>
              {hasLevels && <td>{row.above.join(", ")}</td>}
              {hasConditions && (
                <td class="mirror-legend-conditions">
                  {row.met.map((text) => (
                    <div key={text}>{text}</div>
                  ))}
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Swatch({ color }: { color: number | null }) {
  const classes = color === null ? "" : ` mirror-series-${(color % PALETTE_SIZE) + 1}`;
  const dash = color === null ? 0 : Math.floor(color / PALETTE_SIZE);
  return <span class={`mirror-swatch${classes}`} data-dash={dash || undefined} aria-hidden="true" />;
}

function allowed({ begin, end }: Range): Range {
  const missing = Math.max(0, SHORTEST_RANGE - (end - begin));
  return withinYears({ begin: begin - missing / 2, end: end + missing / 2 });
}

/** The chart in words, for screen readers. */
export function described({ panels, states = [], range }: ChartProps): string {
  const lines = panels.flatMap(({ lines: drawn, unit }) =>
    drawn.flatMap(({ name, points }) => {
      const stats = statsOf(points, range);
      return stats ? [`${name} from ${quantity(stats.min, unit)} to ${quantity(stats.max, unit)}`] : [];
    }),
  );
  const rows = states.map(({ name, spans }) => `${name} is ${spans.at(-1)?.text ?? "unknown"}`);
  return [...lines, ...rows].slice(0, 20).join("; ") || "nothing to draw";
}

export function Chart(props: ChartProps) {
  const { label, panels, states = [], range, onRange, picture, legend = true, empty } = props;
  const root = useRef<HTMLDivElement>(null);
  const view = useRef<ChartView | null>(null);
  const [hover, setHover] = useState<Hover | null>(null);
  const isEmpty = !panels.length && !states.length;

  useEffect(() => {
    if (!root.current || isEmpty) return undefined;
    const made = new ChartView(root.current, props, setHover);
    view.current = made;
    made.update(props);
    if (picture) picture.current = () => made.picture();
    return () => {
      view.current = null;
      if (picture) picture.current = null;
      setHover(null);
      made.close();
    };
  }, [isEmpty]);
  useEffect(() => view.current?.update(props));

  if (isEmpty) return <>{empty}</>;
  const move = (event: KeyboardEvent) => {
    const length = range.end - range.begin;
    const middle = range.begin + length / 2;
    const moved: Record<string, Range | null> = {
      ArrowLeft: { begin: range.begin - length / 4, end: range.end - length / 4 },
      ArrowRight: { begin: range.begin + length / 4, end: range.end + length / 4 },
      "+": { begin: middle - length / 4, end: middle + length / 4 },
      "-": { begin: middle - length, end: middle + length },
      "0": null,
    };
    if (!(event.key in moved) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const chosen = moved[event.key] ?? null;
    onRange?.(chosen && allowed(chosen));
  };
  return (
    <div class="mirror-chart">
      <div
        class="mirror-plots"
        ref={root}
        role="group"
        tabIndex={0}
        aria-label={`${label}: ${described(props)}. Arrow keys move in time, plus and minus zoom, 0 shows everything.`}
        onKeyDown={move}
      >
        {panels.map((panel) => (
          <div class="mirror-plot" key={`lines ${panel.key}`}>
            <div class="mirror-plot-title">
              <span class="mirror-cut" title={panel.title}>
                {panel.title}
              </span>
              {panel.unit && <span class="mirror-dim">{panel.unit}</span>}
            </div>
            <div class="mirror-plot-canvas" aria-hidden="true" />
          </div>
        ))}
        {states.map((row) => (
          <div class="mirror-plot mirror-plot-states" key={`states ${row.key}`}>
            <div class="mirror-plot-title">
              <span class="mirror-cut" title={row.name}>
                {row.name}
              </span>
            </div>
            <div class="mirror-plot-canvas" aria-hidden="true" />
          </div>
        ))}
        {hover && (hover.rows.length > 0 || hover.notes.length > 0) && (
          <div
            class="mirror-tooltip"
            aria-hidden="true"
            style={{ left: `${hover.x}px`, top: `${hover.y}px`, transform: hover.isLeft ? "translate(calc(-100% - 14px), -50%)" : "translate(14px, -50%)" }}
          >
            <div class="mirror-dim">{hover.time}</div>
            {hover.rows.map((row) => (
              <div key={row.key} class={`mirror-tooltip-row${row.isNearest ? " mirror-strong" : ""}`}>
                <Swatch color={row.color} />
                <span>{row.name}</span>
                <span class="mirror-figures">{row.text}</span>
              </div>
            ))}
            {hover.notes.map(({ text, tone }) => (
              <div key={text} class={`mirror-tone-${tone}`}>
                {text}
              </div>
            ))}
          </div>
        )}
      </div>
      {legend && <LegendTable props={props} onHighlight={(key) => view.current?.highlight(key)} />}
    </div>
  );
}
