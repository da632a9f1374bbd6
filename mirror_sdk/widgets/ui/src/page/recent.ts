/** The values of the chosen device over time: from the server's history if it keeps one, else from this key's events. */

import { signal } from "@preact/signals";
import { jsonOf, readLines, type Session } from "./http";
import { keepsHistory } from "./objects";
import type { Desired, Entry, HistoryCursor, HistoryEnd, HistoryRow } from "./wire";

const NDJSON = "application/x-ndjson";
const ROWS_PER_PAGE = 5_000;
const MAX_PAGES = 4;
const ENTRIES_BACK = 5000;
const MAX_MESSAGES = 25;
const MAX_SAMPLES = 20_000;
const SAME_MILLISECONDS = 1000;
/** Number of values at one instant that are compared. */
const MANY_AT_ONCE = 10;

/** A value at an instant, in milliseconds. */
export interface Sample {
  at: number;
  payload: string;
  contentType: string | undefined;
}

/** A write that ended. */
export interface EndedWrite {
  at: number;
  payload: string | undefined;
  isSuccess: boolean;
  category: string | undefined;
}

/** An interval without data: of all devices (a gap), or because the device was offline. */
export interface Absence {
  kind: "gap" | "offline";
  begin: number;
  end: number | null;
}

export interface PathHistory {
  samples: Sample[];
  writes: EndedWrite[];
  absences: Absence[];
  /** The source of the values: still being read, the server's history, or only the events of this key. */
  source: "reading" | "history" | "events";
}

const nothing = (): PathHistory => ({ samples: [], writes: [], absences: [], source: "reading" });

export class RecentValues {
  readonly version = signal(0);
  private readonly paths = new Map<string, PathHistory>();
  /** The cursor of each path for its next page of the history; null if there is none. */
  private readonly cursors = new Map<string, string | null>();
  private readonly reading = new Set<string>();
  private isLogRead = false;

  constructor(
    private readonly session: Session,
    readonly deviceId: string,
  ) {}

  of(path: string): PathHistory {
    return this.paths.get(path) ?? nothing();
  }

  /** Note a value that was reported or read. */
  noteValue(path: string, moment: number | string | undefined, payload: string | undefined, contentType?: string): void {
    const at = new Date(moment ?? "").getTime();
    if (payload === undefined || Number.isNaN(at)) return;
    this.insert(path, { at, payload, contentType });
    this.version.value += 1;
  }

  /** Note the last write of a resource, if it has ended. */
  noteWrite(path: string, { status, value: payload, desired_at: moment, category }: Desired): void {
    const at = new Date(moment ?? "").getTime();
    if (!status || Number.isNaN(at)) return;
    this.insertWrite(path, { at, payload, isSuccess: status === 1, category });
    this.version.value += 1;
  }

  noteEntry(kind: string, entry: Entry): void {
    const { ep, path, timestamp, payload, ct, status } = entry;
    const isValue = kind === "notifications" || (kind === "async-responses" && status === 200 && payload);
    if (isValue && ep === this.deviceId && path !== undefined) this.noteValue(path, timestamp, payload, ct);
  }

  /** Read the values of a resource, at least from an instant on if there are not too many. */
  async read(path: string, begin: number): Promise<void> {
    if (this.reading.has(path)) return;
    this.reading.add(path);
    try {
      if (keepsHistory()) await this.readHistory(path, begin);
      else await this.readLog();
      this.pathOf(path).source = keepsHistory() ? "history" : "events";
      this.version.value += 1;
    } finally {
      this.reading.delete(path);
    }
  }

  /** Read pages of rows, the newest rows first. */
  private async readHistory(path: string, begin: number): Promise<void> {
    const found = this.pathOf(path);
    let after = this.cursors.get(path);
    for (let page = 0; page < MAX_PAGES && after !== null; page += 1) {
      if (after !== undefined && (found.samples[0]?.at ?? Infinity) <= begin) return;
      const query = { device_id: this.deviceId, path, order: "DESC", limit: ROWS_PER_PAGE, ...(after && { after }) };
      const response = await this.session.call("GET", "v3/device-echo/history", { query, accept: NDJSON });
      const rows: HistoryRow[] = [];
      let end: HistoryEnd | null = null;
      for await (const line of readLines<HistoryRow | HistoryCursor | HistoryEnd>(response)) {
        if (line.object === "history-row") rows.push(line);
        if (line.object === "history-end") end = line;
      }
      if (end === null) throw new TypeError("the history has no end");
      this.noteRows(path, rows);
      after = end.after ?? null;
      this.cursors.set(path, after);
    }
  }

  private noteRows(path: string, rows: readonly HistoryRow[]): void {
    const found = this.pathOf(path);
    const ofDevice: HistoryRow[] = [];
    for (const row of rows.toReversed()) {
      const at = Date.parse(row.changed_at);
      if (row.what === "reported" && row.value !== undefined) {
        this.insert(path, { at, payload: row.value, contentType: row.content_type });
      } else if (row.what === "desired") {
        this.insertWrite(path, { at, payload: row.value, isSuccess: row.status === 1, category: row.category });
      } else {
        ofDevice.push(row);
      }
    }
    found.absences.push(...absencesOf(ofDevice));
  }

  /** Read the last entries of this key's log, with a separate position. */
  private async readLog(): Promise<void> {
    if (this.isLogRead) return;
    this.isLogRead = true;
    const end = await this.readMessage("latest");
    let after = Math.max(0, end.cursor - ENTRIES_BACK);
    for (let count = 0; after < end.cursor && count < MAX_MESSAGES; count += 1) {
      const { message, cursor } = await this.readMessage(after);
      for (const [kind, entries] of Object.entries(message)) for (const entry of entries) this.noteEntry(kind, entry);
      after = cursor;
    }
  }

  private async readMessage(after: number | string): Promise<{ message: Record<string, Entry[]>; cursor: number }> {
    const response = await this.session.call("GET", "v2/notification/pull", { query: { after, hold: 0 } });
    const message = response.status === 200 ? await jsonOf<Record<string, Entry[]>>(response) : {};
    return { message, cursor: Number(response.headers.get("Mirror-Cursor")) };
  }

  private pathOf(path: string): PathHistory {
    const found = this.paths.get(path) ?? nothing();
    this.paths.set(path, found);
    return found;
  }

  private insertWrite(path: string, write: EndedWrite): void {
    const { writes } = this.pathOf(path);
    if (!writes.some(({ at }) => at === write.at)) writes.push(write);
  }

  private insert(path: string, sample: Sample): void {
    const { samples } = this.pathOf(path);
    let index = samples.length;
    while (index > 0 && (samples[index - 1]?.at ?? 0) > sample.at) index -= 1;
    // The same value has the time of the device in one source, and that of its receipt in another.
    const atOnce = samples.slice(Math.max(0, index - MANY_AT_ONCE), index).filter(({ at }) => at === sample.at);
    const isKnown = [...atOnce, samples[index - 1], samples[index]].some(
      (near) => near?.payload === sample.payload && Math.abs(near.at - sample.at) < SAME_MILLISECONDS,
    );
    if (isKnown) return;
    samples.splice(index, 0, sample);
    if (samples.length > MAX_SAMPLES) samples.shift();
  }
}

/** Return the gaps of the history, and the intervals in which the device was not registered. */
function absencesOf(rows: readonly HistoryRow[]): Absence[] {
  const found: Absence[] = [];
  let offlineSince: number | null = null;
  for (const { what, changed_at: changed, until } of rows.toSorted((one, other) => one.changed_at.localeCompare(other.changed_at))) {
    const at = Date.parse(changed);
    if (what === "gap") {
      found.push({ kind: "gap", begin: at, end: until === undefined ? null : Date.parse(until) });
    } else if (what === "deregistration" || what === "expired") {
      offlineSince ??= at;
    } else if (offlineSince !== null) {
      found.push({ kind: "offline", begin: offlineSince, end: at });
      offlineSince = null;
    }
  }
  if (offlineSince !== null) found.push({ kind: "offline", begin: offlineSince, end: null });
  return found;
}
