/** The state of the page: the session, the fleet, the chosen device, events, and the schedule of repeated reads. */

import { batch, computed, signal } from "@preact/signals";
import { Fleet, type Filters, type Limits, MAX_DEVICES, MAX_DEVICES_PER_REQUEST, NO_FILTERS } from "./fleet";
import { isAborted, isSendable, isTemporary, RequestError, Session } from "./http";
import { loadObjects } from "./objects";
import { RecentValues } from "./recent";
import { SentRequests } from "./requests";
import { readEvents, type ServerEvent } from "./stream";
import { readTyped } from "./typed";
import type { AccessKey, Connection, DeviceObject, Entry, Method, Page, Resource, Scope, WaitingRequest } from "./wire";

export const WAITING_ROWS = 50;
export const EVENT_ROWS = 200;
const GATHER_MILLISECONDS = 300;
const CHANGES_MILLISECONDS = 5000;
const RETRY_MILLISECONDS = 2000;
/** Every so many reads of changes, the devices in view and the pending requests are read too, or the whole directory. */
const VIEW_EACH = 3;
const DIRECTORY_EACH = 12;
/** The factor of the pause after a read that took long because the fleet is large. */
const PAUSE_FACTOR = 10;
const DEVICES_PER_GATHER = 100;
/** Smaller differences between the clocks of the server and the browser are those of the network. */
const CLOCK_MILLISECONDS = 2000;
const KEY = "mirror-access-key";

export type Phase = "signed-out" | "starting" | "signed-in";

export interface Message {
  text: string;
  isFailure: boolean;
}

/** The state of the event stream. `seconds` is the pause before the next attempt. */
export type StreamState = { state: "connecting" | "live" } | { state: "away"; seconds: number } | { state: "ended"; reason: string };

export interface PageEvent {
  id: string;
  kind: string;
  entry: Entry;
}

/** The requests of this key that wait for their devices. */
export interface Waiting {
  requests: WaitingRequest[];
  hasMore: boolean;
  /** The reason why they cannot be read. */
  problem: string;
}

interface Dirty {
  devices: Set<string>;
  changes: boolean;
  directory: boolean;
  waiting: boolean;
}

const nothingDirty = (): Dirty => ({ devices: new Set(), changes: false, directory: false, waiting: false });
const nobody = new Session("");

/** Everything that belongs to one access key. */
class SignedIn {
  readonly session: Session;
  readonly fleet: Fleet;
  readonly requests: SentRequests;

  constructor(key: string, limits: Limits, noteObject: (object: DeviceObject) => void, now: () => number) {
    this.session = new Session(key);
    this.fleet = new Fleet(this.session, limits, noteObject, now);
    this.requests = new SentRequests(this.session);
  }
}

export class Store {
  readonly phase = signal<Phase>("signed-out");
  readonly message = signal<Message | null>(null);
  readonly stream = signal<StreamState>({ state: "connecting" });
  readonly scopes = signal<ReadonlySet<Scope>>(new Set());
  readonly filters = signal<Filters>(NO_FILTERS);
  readonly chosen = signal<string | null>(null);
  /** The path of the resource of the chosen device that is open. */
  readonly opened = signal<string | null>(null);
  /** The id of a device that was chosen and does not exist. */
  readonly missing = signal<string | null>(null);
  readonly object = signal<DeviceObject | null>(null);
  readonly connection = signal<Connection | null>(null);
  readonly waiting = signal<Waiting>({ requests: [], hasMore: false, problem: "" });
  readonly events = signal<readonly PageEvent[]>([]);
  readonly recent = signal(new RecentValues(nobody, ""));
  /** The server's time minus that of this browser, in milliseconds. */
  readonly clockOffset = signal(0);
  /** Returns the ids of the devices that are in view. Only these, the chosen and new ones are read at once. */
  visibleDevices: () => ReadonlySet<string> = () => new Set();

  private readonly current = signal<SignedIn | null>(null);
  private dirty = nothingDirty();
  private gathering: ReturnType<typeof setTimeout> | null = null;
  private hasFailed = false;
  private pausedUntil = 0;
  /** Ends the pause before the next attempt to open the stream. */
  private reconnect = (): void => undefined;
  private unshown: PageEvent[] = [];
  private readonly limits: Limits;
  readonly fleet = computed(() => this.current.value?.fleet ?? new Fleet(nobody, this.limits, () => undefined, this.now));
  readonly requests = computed(() => this.current.value?.requests ?? new SentRequests(nobody));
  readonly device = computed(() => {
    void this.fleet.value.version.value;
    return this.fleet.value.device(this.chosen.value);
  });

  constructor(limits: Partial<Limits> = {}) {
    this.limits = { maxDevices: MAX_DEVICES, devicesPerRequest: MAX_DEVICES_PER_REQUEST, ...limits };
  }

  /** Return the server's time in milliseconds. */
  private readonly now = (): number => Date.now() + this.clockOffset.peek();

  get session(): Session {
    return this.current.peek()?.session ?? nobody;
  }

  // Signing in and out

  /** Sign in with the key in the address or of this tab, if there is one. */
  resume(): void {
    const key = this.takeKey() ?? sessionStorage.getItem(KEY);
    if (key) this.signIn(key);
  }

  /** Follow a change of the address: sign in with a key in it, or show the device in it. */
  followAddress = (): void => {
    const key = this.takeKey();
    if (key) this.signIn(key);
    else this.chooseFromAddress();
  };

  /** Return the key in the address, and remove it from there. */
  private takeKey(): string | null {
    const address = new URLSearchParams(location.hash.slice(1));
    const inAddress = address.get("key");
    if (inAddress !== null) {
      address.delete("key");
      const rest = address.size ? `#${address}` : "";
      history.replaceState(null, "", `${location.pathname}${location.search}${rest}`);
    }
    return inAddress;
  }

  signIn(key: string): void {
    this.end();
    if (!isSendable(key)) {
      this.say("Sign-in failed: malformed access key; a key begins with ak_ and is shown when it is created", true);
      return;
    }
    const signedIn = new SignedIn(key, this.limits, (object) => this.noteObject(object), this.now);
    this.current.value = signedIn;
    this.phase.value = "starting";
    this.say("");
    this.keepStarting(signedIn);
  }

  signOut(): void {
    this.end();
    this.say("Signed out.");
  }

  private keepStarting(signedIn: SignedIn): void {
    this.start(signedIn).catch((error: unknown) => {
      if (this.current.peek() !== signedIn) return;
      this.report(error);
      if (!isTemporary(error)) return;
      // The key is stored for a reload in the meantime.
      sessionStorage.setItem(KEY, signedIn.session.key);
      setTimeout(() => this.current.peek() === signedIn && this.keepStarting(signedIn), RETRY_MILLISECONDS);
    });
  }

  private async start(signedIn: SignedIn): Promise<void> {
    const { session, fleet } = signedIn;
    const [access, , hasMore] = await Promise.all([
      session.get<AccessKey>("v3/api-keys/me"),
      loadObjects(session),
      fleet.readFirstDevices(),
    ]);
    sessionStorage.setItem(KEY, session.key);
    batch(() => {
      this.scopes.value = new Set(access.scopes);
      this.phase.value = "signed-in";
      this.say("");
    });
    this.chooseFromAddress();
    this.dirty.directory = hasMore;
    this.dirty.changes = this.dirty.waiting = true;
    this.gatherSoon(0);
    this.keepRefreshing(session.signal);
    void this.follow(session);
  }

  private end(): void {
    this.session.end();
    sessionStorage.removeItem(KEY);
    this.dirty = nothingDirty();
    this.unshown = [];
    batch(() => {
      this.current.value = null;
      this.phase.value = "signed-out";
      this.events.value = [];
      this.waiting.value = { requests: [], hasMore: false, problem: "" };
      this.filters.value = NO_FILTERS;
      this.stream.value = { state: "connecting" };
      this.setChosen(null);
    });
  }

  private say(text: string, isFailure = false): void {
    this.message.value = text ? { text, isFailure } : null;
  }

  /** Display an error of a request. An error of the page itself is thrown. */
  report = (error: unknown): void => {
    if (isAborted(error)) return;
    if (error instanceof RequestError) {
      const before = { "signed-in": "Signed out: ", starting: "Sign-in failed: ", "signed-out": "" }[this.phase.peek()];
      const isEnd = error.code === 401 || (this.phase.peek() === "starting" && !isTemporary(error));
      if (isEnd) this.end();
      this.say(isEnd ? before + error.message : error.message, true);
    } else if (error instanceof TypeError) {
      this.say("The server does not respond; trying again.", true);
    } else {
      throw error;
    }
  };

  // Choosing a device: its id is in the address, so that the address can be stored and shared.

  /** Show a device, and perhaps one of its resources, and put both into the address. */
  choose(deviceId: string | null, path: string | null = null): void {
    if (deviceId === this.chosen.peek() && path === this.opened.peek()) return;
    const isOther = deviceId !== this.chosen.peek();
    if (isOther) this.setChosen(deviceId);
    this.opened.value = path;
    const parts = new URLSearchParams({ ...(deviceId !== null && { device: deviceId }), ...(path !== null && { resource: path }) });
    const address = `${location.pathname}${location.search}${parts.size ? `#${parts}` : ""}`;
    if (isOther) history.pushState(null, "", address);
    else history.replaceState(null, "", address);
    if (isOther && deviceId !== null) this.readChosen(deviceId);
  }

  /** Open a resource of the chosen device, or close the open one. */
  open(path: string | null): void {
    this.choose(this.chosen.peek(), path);
  }

  private chooseFromAddress(): void {
    if (this.phase.peek() !== "signed-in") return;
    const address = new URLSearchParams(location.hash.slice(1));
    const deviceId = address.get("device") || null;
    if (deviceId === this.chosen.peek()) {
      this.opened.value = address.get("resource");
    } else if (deviceId === null || this.fleet.peek().has(deviceId)) {
      this.setChosen(deviceId, null, address.get("resource"));
      if (deviceId !== null) this.readChosen(deviceId);
    } else {
      this.find(deviceId, address.get("resource")).catch(this.report);
    }
  }

  private async find(deviceId: string, path: string | null): Promise<void> {
    await this.fleet.peek().readDevices([deviceId]);
    const isFound = this.fleet.peek().has(deviceId);
    this.setChosen(isFound ? deviceId : null, isFound ? null : deviceId, path);
    if (isFound) this.readChosen(deviceId);
  }

  private readChosen(deviceId: string): void {
    this.dirty.devices.add(deviceId);
    this.gatherNow();
  }

  private setChosen(deviceId: string | null, missing: string | null = null, path: string | null = null): void {
    batch(() => {
      this.chosen.value = deviceId;
      this.missing.value = missing;
      this.opened.value = path;
      this.object.value = null;
      this.connection.value = null;
      this.recent.value = new RecentValues(this.session, deviceId ?? "");
    });
  }

  private noteObject(object: DeviceObject): void {
    const offset = Date.parse(object.created_at) - Date.now();
    if (Math.abs(offset - this.clockOffset.peek()) > CLOCK_MILLISECONDS) this.clockOffset.value = offset;
    // Two responses may arrive out of order.
    const before = this.object.peek();
    if (object.device_id !== this.chosen.peek() || (before && before.created_at > object.created_at)) return;
    const recent = this.recent.peek();
    for (const { resource_path: path, reported, desired } of object.resources) {
      recent.noteValue(path, reported.reported_at, reported.value, reported.content_type);
      recent.noteWrite(path, desired);
    }
    this.object.value = object;
  }

  // Reading devices that events name: gathered, so that a thousand events per second do not cause a thousand requests.

  filter(filters: Filters): void {
    this.filters.value = filters;
    if (!this.fleet.peek().isPartial.peek()) return;
    // The devices that are listed then may not have been read yet.
    this.fleet.peek().forgetRevision();
    this.dirty.directory = this.dirty.changes = true;
    this.gatherSoon();
  }

  private gatherSoon(milliseconds = GATHER_MILLISECONDS): void {
    this.gathering ??= setTimeout(() => void this.gatherAll(), milliseconds);
  }

  private gatherNow(): void {
    if (this.gathering !== null) clearTimeout(this.gathering);
    this.gathering = null;
    this.gatherSoon(0);
  }

  private async gatherAll(): Promise<void> {
    const signedIn = this.current.peek();
    const isCurrent = (): boolean => signedIn !== null && this.current.peek() === signedIn;
    let pause = GATHER_MILLISECONDS;
    try {
      if (isCurrent()) await this.gather();
      if (isCurrent()) {
        this.say("");
        // The server is back. A stream that alone is rejected waits for its own pause.
        if (this.hasFailed && this.stream.peek().state === "away") this.reconnect();
        this.hasFailed = false;
      }
    } catch (error) {
      pause = RETRY_MILLISECONDS;
      this.hasFailed = true;
      this.report(error);
    } finally {
      this.gathering = null;
      // Reads that became due in the meantime.
      if (this.current.peek() && this.hasWork()) this.gatherSoon(pause);
    }
  }

  private hasWork(): boolean {
    const { waiting, directory, changes } = this.dirty;
    const isChangeDue = changes && performance.now() >= this.pausedUntil;
    return waiting || directory || isChangeDue || this.devicesToRead().length > 0;
  }

  private devicesToRead(): string[] {
    const fleet = this.fleet.peek();
    const visible = this.visibleDevices();
    const isNew = (id: string): boolean => !fleet.isPartial.peek() && !fleet.has(id);
    return [...this.dirty.devices].filter((id) => visible.has(id) || id === this.chosen.peek() || isNew(id));
  }

  private async gather(): Promise<void> {
    const fleet = this.fleet.peek();
    // Devices in view come before the whole fleet.
    for (const id of this.visibleDevices()) if (!fleet.isSummarized(id)) this.dirty.devices.add(id);
    await this.readSomeDevices();
    await this.readIfDue("directory", () => fleet.readDirectory(this.filters.peek(), this.chosen.peek()));
    await this.readIfDue("waiting", () => this.readWaiting());
    if (performance.now() < this.pausedUntil) return;
    await this.readIfDue("changes", async () => {
      // Events during the read mark their devices again.
      const earlier = [...this.dirty.devices];
      this.dirty.devices.clear();
      const began = performance.now();
      try {
        await fleet.readChanges(this.filters.peek());
      } catch (error) {
        for (const id of earlier) this.dirty.devices.add(id);
        throw error;
      }
      this.pausedUntil = performance.now() + PAUSE_FACTOR * (performance.now() - began);
    });
  }

  private async readIfDue(name: "directory" | "waiting" | "changes", read: () => Promise<void>): Promise<void> {
    if (!this.dirty[name]) return;
    this.dirty[name] = false;
    try {
      await read();
    } catch (error) {
      this.dirty[name] ||= isTemporary(error);
      throw error;
    }
  }

  private async readSomeDevices(): Promise<void> {
    const fleet = this.fleet.peek();
    const deviceIds = this.devicesToRead().slice(0, DEVICES_PER_GATHER);
    for (const id of deviceIds) this.dirty.devices.delete(id);
    try {
      if (deviceIds.length) await fleet.readDevices(deviceIds);
      const chosen = this.chosen.peek();
      if (chosen === null) return;
      if (!fleet.has(chosen)) this.setChosen(null, chosen);
      else if (deviceIds.includes(chosen)) await this.readConnection(chosen);
    } catch (error) {
      if (isTemporary(error)) for (const id of deviceIds) this.dirty.devices.add(id);
      throw error;
    }
  }

  private async readConnection(deviceId: string): Promise<void> {
    const connection = await this.session.get<Connection>(`v3/devices/${encodeURIComponent(deviceId)}/connection`);
    if (deviceId === this.chosen.peek()) this.connection.value = connection;
  }

  /** Writes of other applications cause no event for this key, so everything is read again from time to time. */
  private keepRefreshing(signal: AbortSignal): void {
    let count = 0;
    const refresh = (): void => {
      if (document.hidden) return;
      count += 1;
      this.dirty.changes = true;
      if (count % VIEW_EACH === 0) refreshView();
      this.dirty.directory ||= count % DIRECTORY_EACH === 0;
      this.gatherSoon();
    };
    const refreshView = (): void => {
      const chosen = this.chosen.peek();
      for (const deviceId of this.visibleDevices()) this.dirty.devices.add(deviceId);
      if (chosen !== null) this.dirty.devices.add(chosen);
      this.dirty.waiting = true;
    };
    const timer = setInterval(refresh, CHANGES_MILLISECONDS);
    signal.addEventListener("abort", () => clearInterval(timer));
    const returned = (): void => {
      if (!document.hidden) refreshView();
      refresh();
    };
    document.addEventListener("visibilitychange", returned, { signal });
  }

  private async readWaiting(): Promise<void> {
    try {
      const page = await this.session.get<Page<WaitingRequest>>("v2/device-requests", { limit: WAITING_ROWS });
      this.waiting.value = { requests: page.data, hasMore: page.has_more, problem: "" };
    } catch (error) {
      if (!(error instanceof RequestError) || error.code !== 403) throw error;
      this.waiting.value = { requests: [], hasMore: false, problem: error.message };
    }
  }

  // Events

  private async follow(session: Session): Promise<void> {
    const opened = (): void => {
      // Initially everything has just been read.
      const isAgain = this.stream.peek().state === "away";
      this.stream.value = { state: "live" };
      this.say("");
      this.dirty.directory ||= isAgain;
      this.dirty.changes = this.dirty.waiting = true;
      this.gatherSoon();
    };
    const closed = (seconds: number): Promise<void> => {
      this.stream.value = { state: "away", seconds };
      return new Promise((resolve) => {
        this.reconnect = resolve;
        setTimeout(resolve, seconds * 1000);
      });
    };
    try {
      for await (const event of readEvents("v2/notification/events", session, { opened, closed })) this.noteEvent(event);
    } catch (error) {
      if (session.signal.aborted) return;
      this.stream.value = { state: "ended", reason: error instanceof Error ? error.message : String(error) };
      this.report(error);
    }
  }

  private noteEvent({ id, name: kind, data }: ServerEvent): void {
    const entry = JSON.parse(data) as Entry;
    // A gap names no device, nor does a response in the log of an older version: it may concern the chosen device.
    const deviceId = entry.ep ?? this.chosen.peek();
    if (deviceId) this.dirty.devices.add(deviceId);
    if (kind === "async-responses") this.requests.peek().noteResponse(entry);
    if (kind === "gap") {
      this.requests.peek().noteLostResponses();
      this.dirty.directory = true;
    }
    this.dirty.waiting ||= kind === "async-responses" || kind === "gap";
    this.recent.peek().noteEntry(kind, entry);
    if (kind === "notifications") this.fleet.peek().noteValue(entry);
    this.gatherSoon();
    if (this.unshown.push({ id: id ?? "", kind, entry }) === 1) requestAnimationFrame(() => this.showEvents());
    if (this.unshown.length > EVENT_ROWS) this.unshown.shift();
  }

  /** Events are shown once per frame. */
  private showEvents(): void {
    this.events.value = [...this.unshown.reverse(), ...this.events.peek()].slice(0, EVENT_ROWS);
    this.unshown = [];
  }

  // Requests to the chosen device

  async send(method: Method, path: string, typed: string | null): Promise<void> {
    const device = this.device.peek();
    if (!device) return;
    // The argument of an execution is a text, independent of the declared type of the resource.
    const content = typed === null ? {} : readTyped(typed, method === "POST" ? "" : path);
    if ("problem" in content) return;
    await this.requests.peek().send(method, device, path, content).then(this.submitted, this.report);
  }

  /** Acknowledge the displayed failed write. The server rejects this if another write has failed since. */
  async acknowledge({ resource_path: path, desired: { revision } }: Resource): Promise<void> {
    const route = `v3/devices/${encodeURIComponent(this.chosen.peek() ?? "")}/echo/acknowledgements`;
    const body = { resource_path: path, revision };
    await this.session.call("POST", route, { body }).then(this.submitted, this.report);
  }

  private submitted = (): void => {
    this.dirty.waiting = true;
    const chosen = this.chosen.peek();
    if (chosen !== null) this.dirty.devices.add(chosen);
    this.gatherSoon();
  };

  // Subscriptions

  /** Return the state of this key's subscription to a resource, or null without a subscription. */
  async readSubscription(path: string): Promise<string | null> {
    try {
      const response = await this.session.call("GET", this.subscription(path));
      return response.headers.get("Mirror-Subscription");
    } catch (error) {
      if (error instanceof RequestError && error.code === 404) return null;
      throw error;
    }
  }

  async changeSubscription(path: string, isWanted: boolean): Promise<void> {
    await this.session.call(isWanted ? "PUT" : "DELETE", this.subscription(path));
  }

  private subscription(path: string): string {
    return `v2/subscriptions/${encodeURIComponent(this.chosen.peek() ?? "")}${path}`;
  }
}
