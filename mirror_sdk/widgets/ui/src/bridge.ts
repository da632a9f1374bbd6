/* The connection of a component: a widget in Python, or the mirror's HTTP interface on the server's page.

   A component reads its state, its rows and its series from a `Bridge`, and sends what its user does as an intent:

     export function Watcher({ bridge }: { bridge: Bridge<WatcherState> }) {
       const state = bridge.state.value;            // renders again after each change
       const rows = bridge.rows("events");          // for <Grid rows={rows} />
       const lines = bridge.series("lines").lines.value;
       return <button onClick={() => bridge.intent("pause")}>Pause</button>;
     } */

import { computed, signal, type ReadonlySignal } from "@preact/signals";

/** A value in JSON. */
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/** A row of a table. An instant is a number of milliseconds since 1970. */
export interface Row {
  readonly key: string;
  /** The tone of a cell, by the name of its column; the tone of the whole row under `""`. */
  readonly tones?: Readonly<Record<string, string>>;
  /** The tooltip of a cell, by the name of its column. */
  readonly hints?: Readonly<Record<string, string>>;
  readonly [column: string]: unknown;
}

/** A change of a table. If `all` is true, `rows` are all rows in their order. */
export interface RowChange {
  readonly rows: readonly Row[];
  readonly gone: readonly string[];
  readonly all: boolean;
}

/** The rows of a table, which change while it is shown. */
export interface RowSource {
  /** All rows, in their order. */
  readonly all: readonly Row[];
  readonly size: number;
  get(key: string): Row | undefined;
  /** Increases with each change; a component that reads its value renders again. */
  readonly version: ReadonlySignal<number>;
  /** Call `listener` after each change, until the returned function is called. */
  listen(listener: (change: RowChange) => void): () => void;
}

/** Points over time, ordered by time. */
export interface Points {
  /** Milliseconds since 1970. */
  readonly at: Float64Array;
  /** The numbers; NaN interrupts the line. */
  readonly values: Float64Array;
}

/** The points of several lines by key. */
export interface SeriesSource {
  readonly lines: ReadonlySignal<ReadonlyMap<string, Points>>;
}

/** The connection of a component. */
export interface Bridge<State = Record<string, unknown>> {
  /** The state of the component: `_attributes` and `_view()` in Python. It is replaced completely. */
  readonly state: ReadonlySignal<State>;
  /** Send what the user does: call the intent `name` in Python. Arguments are JSON. */
  intent(name: string, ...args: Json[]): void;
  /** The rows that Python publishes with `self._rows(name).show(...)`. The same name gives the same object. */
  rows(name: string): RowSource;
  /** The series that Python publishes with `self._series(name).show(...)`. */
  series(name: string): SeriesSource;
  /** Call `listener` with each message that Python sends with `self._notify(name, content, buffers)`. */
  listen(name: string, listener: (content: Json, buffers: readonly DataView[]) => void): () => void;
  /** The bridge of a component within this one: its state is `state[name]`, all its names have `name.` in front. */
  part<Part = Record<string, unknown>>(name: string): Bridge<Part>;
}

/** A bridge with members for the cleanup and for its owner. */
export interface OwnedBridge<State = Record<string, unknown>> extends Bridge<State> {
  close(): void;
}

/** Rows in memory: the rows of a widget, or those that the page has fetched. */
export class Rows implements RowSource {
  #byKey = new Map<string, Row>();
  #all: readonly Row[] | undefined;
  #version = signal(0);
  #listeners = new Set<(change: RowChange) => void>();

  constructor(rows: readonly Row[] = []) {
    for (const row of rows) this.#byKey.set(row.key, row);
  }

  get all(): readonly Row[] {
    return (this.#all ??= [...this.#byKey.values()]);
  }

  get size(): number {
    return this.#byKey.size;
  }

  get version(): ReadonlySignal<number> {
    return this.#version;
  }

  get(key: string): Row | undefined {
    return this.#byKey.get(key);
  }

  listen(listener: (change: RowChange) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Apply a change and report it. */
  apply({ rows = [], gone = [], all = false }: Partial<RowChange>): void {
    if (all) this.#byKey = new Map();
    for (const key of gone) this.#byKey.delete(key);
    for (const row of rows) this.#byKey.set(row.key, row);
    this.#all = undefined;
    this.#version.value += 1;
    for (const listener of this.#listeners) listener({ rows, gone, all });
  }

  /** Show these rows. Only differences are reported, unless the order changed. */
  show(rows: readonly Row[]): void {
    const keys = new Set(rows.map(({ key }) => key));
    const gone = [...this.#byKey.keys()].filter((key) => !keys.has(key));
    const kept = [...this.#byKey.keys()].filter((key) => keys.has(key));
    const isInPlace = kept.every((key, index) => rows[index]?.key === key);
    const changed = rows.filter((row) => !isSame(this.#byKey.get(row.key), row));
    if (isInPlace && !gone.length && !changed.length) return;
    this.apply(isInPlace ? { rows: changed, gone } : { rows, all: true });
  }
}

function isSame(one: Row | undefined, other: Row): boolean {
  return one === other || (one !== undefined && JSON.stringify(one) === JSON.stringify(other));
}

/** Series in memory. */
export class Series implements SeriesSource {
  readonly lines = signal<ReadonlyMap<string, Points>>(new Map());
}

/** The part of a widget's model that anywidget passes to a module. */
export interface Model {
  get(name: string): unknown;
  set(name: string, value: unknown): void;
  save_changes(): void;
  on(name: string, listener: (...args: never[]) => void): void;
  off(name: string, listener: (...args: never[]) => void): void;
  send(content: unknown): void;
}

interface Received {
  readonly version: number;
  readonly all?: boolean;
}

interface ReceivedRows extends Received, Partial<RowChange> {
  readonly all?: boolean;
}

/* A line in a message: all its points, or new ones after a number of points was dropped at its beginning. */
interface ReceivedLine {
  readonly key: string;
  readonly dropped?: number;
}

interface ReceivedSeries extends Received {
  readonly lines: readonly ReceivedLine[];
  readonly gone?: readonly string[];
}

/* A source of a widget. Versions are consecutive. A source that misses one requests everything. */
abstract class Versioned<Content extends Received> {
  protected version = -1;

  constructor(private readonly request: () => void) {}

  hear(content: Content, buffers: readonly DataView[]): void {
    if (content.version <= this.version) return;
    if (!content.all && content.version !== this.version + 1) {
      this.request();
      return;
    }
    this.version = content.version;
    this.apply(content, buffers);
  }

  get held(): number {
    return this.version;
  }

  protected abstract apply(content: Content, buffers: readonly DataView[]): void;
}

class WidgetRows extends Versioned<ReceivedRows> {
  readonly rows = new Rows();

  protected apply(content: ReceivedRows): void {
    this.rows.apply(content);
  }
}

class WidgetSeries extends Versioned<ReceivedSeries> {
  readonly series = new Series();

  protected apply({ lines, gone = [], all = false }: ReceivedSeries, buffers: readonly DataView[]): void {
    const current = new Map(all ? [] : this.series.lines.value);
    for (const key of gone) current.delete(key);
    lines.forEach(({ key, dropped }, index) => {
      const before = dropped === undefined ? undefined : current.get(key);
      const sent = { at: numbers(buffers[2 * index]), values: numbers(buffers[2 * index + 1]) };
      current.set(key, before === undefined ? sent : extended(before, dropped ?? 0, sent));
    });
    this.series.lines.value = current;
  }
}

function numbers(view: DataView | undefined): Float64Array {
  // A copy, because the bytes of a message need not be aligned.
  return view ? new Float64Array(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength)) : new Float64Array();
}

function extended(before: Points, dropped: number, added: Points): Points {
  const joined = (one: Float64Array, other: Float64Array): Float64Array => {
    const kept = one.subarray(dropped);
    const made = new Float64Array(kept.length + other.length);
    made.set(kept);
    made.set(other, kept.length);
    return made;
  };
  return { at: joined(before.at, added.at), values: joined(before.values, added.values) };
}

/** The bridge to a widget in Python (mirror_sdk/widgets/widget.py). All views of a model share one. */
export class WidgetBridge<State> implements OwnedBridge<State> {
  readonly #model: Model;
  readonly #state;
  readonly #rows = new Map<string, WidgetRows>();
  readonly #series = new Map<string, WidgetSeries>();
  readonly #listeners = new Map<string, Set<(content: Json, buffers: readonly DataView[]) => void>>();
  readonly #parts = new Map<string, Bridge<never>>();

  constructor(model: Model) {
    this.#model = model;
    this.#state = signal(model.get("_state") as State);
    model.on("change:_state", this.#stateChanged);
    model.on("change:_published", this.#publishedChanged);
    model.on("msg:custom", this.#hear as (...args: never[]) => void);
    this.#publishedChanged();
    // What Python sent before this module was loaded is missing. A busy kernel responds later, and until then
    // keeps everything in `_published`.
    model.send({ request: "all" });
  }

  get state(): ReadonlySignal<State> {
    return this.#state;
  }

  intent(name: string, ...args: Json[]): void {
    this.#model.send({ intent: name, args });
  }

  rows(name: string): RowSource {
    return this.#rowsOf(name).rows;
  }

  series(name: string): SeriesSource {
    return this.#seriesOf(name).series;
  }

  listen(name: string, listener: (content: Json, buffers: readonly DataView[]) => void): () => void {
    const listeners = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, listeners.add(listener));
    return () => listeners.delete(listener);
  }

  part<Part>(name: string): Bridge<Part> {
    const made = (this.#parts.get(name) as Bridge<Part> | undefined) ?? partOf<Part>(this as unknown as Bridge<never>, name);
    this.#parts.set(name, made as Bridge<never>);
    return made;
  }

  close(): void {
    this.#model.off("change:_state", this.#stateChanged);
    this.#model.off("change:_published", this.#publishedChanged);
    this.#model.off("msg:custom", this.#hear as (...args: never[]) => void);
  }

  #rowsOf(name: string): WidgetRows {
    const made = this.#rows.get(name) ?? new WidgetRows(() => this.#request(name));
    this.#rows.set(name, made);
    return made;
  }

  #seriesOf(name: string): WidgetSeries {
    const made = this.#series.get(name) ?? new WidgetSeries(() => this.#request(name));
    this.#series.set(name, made);
    return made;
  }

  #request(name: string): void {
    this.#model.send({ request: "source", name });
  }

  #stateChanged = (): void => {
    this.#state.value = this.#model.get("_state") as State;
  };

  #publishedChanged = (): void => {
    const published = this.#model.get("_published") as Record<string, { buffers?: DataView[] }>;
    for (const message of Object.values(published)) this.#hear({ ...message }, message.buffers);
  };

  #hear = (message: Record<string, unknown>, buffers: readonly DataView[] = []): void => {
    const name = String(message.name);
    if (message.tell === "rows") this.#rowsOf(name).hear(message as unknown as ReceivedRows, buffers);
    else if (message.tell === "series") this.#seriesOf(name).hear(message as unknown as ReceivedSeries, buffers);
    else if (message.tell === "message") {
      for (const listener of this.#listeners.get(name) ?? []) listener(message.content as Json, buffers);
    }
  };
}

/** The bridge of a component within another one. */
export function partOf<Part>(whole: Bridge<never>, name: string): Bridge<Part> {
  const state = computed(() => ((whole.state.value ?? {}) as Record<string, unknown>)[name] as Part);
  const made: Bridge<Part> = {
    state,
    intent: (intent, ...args) => whole.intent(`${name}.${intent}`, ...args),
    rows: (rows) => whole.rows(`${name}.${rows}`),
    series: (series) => whole.series(`${name}.${series}`),
    listen: (message, listener) => whole.listen(`${name}.${message}`, listener),
    part: <Inner>(part: string) => partOf<Inner>(made as unknown as Bridge<never>, part),
  };
  return made;
}

/** The bridge of a component on the server's page: `intents` has the role of Python for a widget. */
export function localBridge<State>(
  state: ReadonlySignal<State>,
  intents: Readonly<Record<string, (...args: never[]) => unknown>>,
  rows: Readonly<Record<string, RowSource>> = {},
  series: Readonly<Record<string, SeriesSource>> = {},
): Bridge<State> {
  const made: Bridge<State> = {
    state,
    intent: (name, ...args) => void (intents[name] as ((...args: Json[]) => unknown) | undefined)?.(...args),
    rows: (name) => rows[name] ?? new Rows(),
    series: (name) => series[name] ?? new Series(),
    listen: () => () => undefined,
    part: <Part>(name: string) => partOf<Part>(made as unknown as Bridge<never>, name),
  };
  return made;
}
