/** The fleet: reads the devices of the directory and of the mirror, and keeps them as rows of a table. */

import { signal } from "@preact/signals";
import { type Row, Rows } from "../bridge";
import { DeviceSummary } from "./device_status";
import { type Query, readLines, RequestError, type Session } from "./http";
import { displayNames, visible } from "./names";
import { labelOf, unitOf } from "./objects";
import { valueText } from "./values";
import type { Device, DeviceObject, Entry, Page, SnapshotEnd, UnchangedDevice } from "./wire";

export const MAX_DEVICES_PER_REQUEST = 1000;
export const MAX_DEVICES = 20_000;
const FIRST_DEVICES = 200;
const NDJSON = "application/x-ndjson";
const COLLATOR = new Intl.Collator("en", { numeric: true });

export interface Filters {
  name: string;
  type: string;
  state: string;
}

export const NO_FILTERS: Filters = { name: "", type: "", state: "" };

export interface Limits {
  maxDevices: number;
  devicesPerRequest: number;
}

/** A member of the fleet, as it was last read. */
interface Member {
  device: Device;
  /** Undefined until its resources were read. */
  summary?: DeviceSummary;
}

export class Fleet {
  readonly rows = new Rows();
  readonly total = signal(0);
  /** Whether the fleet is too large to be read completely. */
  readonly isPartial = signal(false);
  readonly types = signal<string[]>([]);
  readonly version = signal(0);
  private readonly members = new Map<string, Member>();
  private names = new Map<string, string>();
  private revision: number | null = null;

  constructor(
    private readonly session: Session,
    private readonly limits: Limits,
    /** Called with each device object that was read. */
    private readonly noteObject: (object: DeviceObject) => void,
    /** Returns the server's time in milliseconds. */
    private readonly now: () => number,
  ) {}

  has(deviceId: string): boolean {
    return this.members.has(deviceId);
  }

  /** Whether the resources of a device have been read. */
  isSummarized(deviceId: string): boolean {
    return this.members.get(deviceId)?.summary !== undefined;
  }

  device(deviceId: string | null): Device | undefined {
    return deviceId === null ? undefined : this.members.get(deviceId)?.device;
  }

  /** Return the displayed name of a device; the endpoint name or the id of one that is not listed. */
  nameOf(deviceId: string, endpointName = deviceId): string {
    return this.names.get(deviceId) ?? visible(endpointName);
  }

  /** Return the unit of a resource as people write it. */
  unitOf(deviceId: string | undefined, path: string): string {
    return visible(this.members.get(deviceId ?? "")?.summary?.units.get(path) ?? unitOf(path, []));
  }

  /** Return the paths of a device's stale values. */
  stalePaths(deviceId: string): ReadonlySet<string> {
    const member = this.members.get(deviceId);
    return new Set(member?.summary?.stalePaths(member.device, this.now()));
  }

  /** Read and show the first devices of the directory, which takes no longer if the fleet is large. Return whether it has more. */
  async readFirstDevices(): Promise<boolean> {
    const limit = Math.min(FIRST_DEVICES, this.limits.devicesPerRequest);
    const page = await this.session.get<Page<Device>>("v3/devices", { limit, include: "total_count" });
    for (const device of page.data) this.setDevice(device);
    this.total.value = page.total_count ?? page.data.length;
    this.nameAll();
    return page.has_more;
  }

  /** Read the directory. `kept` is a device that stays even if a filter excludes it. */
  async readDirectory(filters: Filters, kept: string | null): Promise<void> {
    const found = new Map<string, Device>();
    const { maxDevices, devicesPerRequest: limit } = this.limits;
    let page: Page<Device>;
    let after: string | undefined;
    do {
      const query = { limit, include: "total_count", ...this.serverFilters(filters), ...(after && { after }) };
      page = await this.session.get<Page<Device>>("v3/devices", query);
      for (const device of page.data) found.set(device.id, device);
      after = page.data.at(-1)?.id;
    } while (page.has_more && found.size < maxDevices);
    for (const id of [...this.members.keys()]) if (!found.has(id) && id !== kept) this.members.delete(id);
    for (const device of found.values()) this.setDevice(device);
    this.total.value = page.total_count ?? found.size;
    this.isPartial.value ||= page.has_more;
    this.nameAll();
  }

  /** Read these devices again from the directory and the mirror. Devices that are missing in the response were erased. */
  async readDevices(deviceIds: string[]): Promise<void> {
    const query = { id__in: deviceIds.join(",") };
    const page = await this.session.get<Page<Device>>("v3/devices", { ...query, limit: MAX_DEVICES_PER_REQUEST });
    const found = new Set(page.data.map(({ id }) => id));
    const gone = deviceIds.filter((id) => !found.has(id));
    const isNamedAnew = page.data.some(({ id, endpoint_name: name }) => this.device(id)?.endpoint_name !== name);
    for (const id of gone) this.members.delete(id);
    for (const device of page.data) this.setDevice(device);
    if (isNamedAnew) this.nameAll();
    else this.show([...found], gone);
    await this.readObjects(query);
  }

  /** Read the changes of all devices since the last call. */
  async readChanges(filters: Filters): Promise<void> {
    const { revision } = this;
    const since: Query = revision === null ? {} : { changed_after: revision };
    const last: Query = this.isPartial.value ? { id__lte: [...this.members.keys()].sort().at(-1) ?? "" } : {};
    this.revision = null;
    try {
      this.revision = await this.readObjects({ ...since, ...this.serverFilters(filters), ...last });
    } catch (error) {
      // A reset mirror never had this revision: the next call reads everything.
      const isBeyond = revision !== null && error instanceof RequestError && error.code === 400;
      if (!isBeyond) throw error;
    }
  }

  /** Have the next call of `readChanges` read everything. */
  forgetRevision(): void {
    this.revision = null;
  }

  /** Show a reported value at once. The counts of its device are read a moment later. */
  noteValue({ ep, path, payload, ct }: Entry): void {
    const main = this.members.get(ep ?? "")?.summary?.main;
    if (!ep || !main || main.path !== path) return;
    Object.assign(main, { payload, contentType: ct });
    this.show([ep]);
  }

  private async readObjects(query: Query): Promise<number> {
    const response = await this.session.call("GET", "v3/device-echo", { query, accept: NDJSON });
    let revision: number | null = null;
    const changed: string[] = [];
    for await (const line of readLines<DeviceObject | SnapshotEnd | UnchangedDevice>(response)) {
      if (line.object === "snapshot-end") revision = line.revision;
      // A device without changes in its resources has a line of another kind.
      else if (line.object === "device-echo" && this.setObject(line)) changed.push(line.device_id);
    }
    this.show(changed);
    // A response without its end was cut off, for example by a server that stops.
    if (revision === null) throw new TypeError("the snapshot has no end");
    return revision;
  }

  private setDevice(device: Device): void {
    const member = this.members.get(device.id);
    if (member) member.device = device;
    else this.members.set(device.id, { device });
  }

  private setObject(object: DeviceObject): boolean {
    this.noteObject(object);
    const member = this.members.get(object.device_id);
    if (!member) return false;
    member.summary ??= new DeviceSummary();
    member.summary.read(object);
    return true;
  }

  private nameAll(): void {
    const devices = [...this.members.values()].map(({ device }) => device);
    this.names = displayNames(devices);
    const types = new Set(devices.map(({ endpoint_type: type }) => type ?? "").filter(Boolean));
    this.types.value = [...types].sort();
    // In the order of the names, which the table keeps for rows that are equal in the sorted column.
    const named = [...this.members.values()].map((member) => this.row(member));
    this.rows.show(named.sort((one, other) => COLLATOR.compare(String(one["name"]), String(other["name"]))));
    this.version.value += 1;
  }

  private show(changed: readonly string[], gone: readonly string[] = []): void {
    const rows = changed.flatMap((id) => {
      const member = this.members.get(id);
      return member ? [this.row(member)] : [];
    });
    if (rows.length || gone.length) this.rows.apply({ rows, gone });
    this.version.value += 1;
  }

  private row({ device, summary }: Member): Row {
    const { id, endpoint_type: type = "", state, last_contact_at: contact } = device;
    const name = this.nameOf(id);
    const now = this.now();
    const main = summary?.main;
    const value = main && valueText(main.payload, main.path, visible(main.unit), main.contentType);
    const counts = summary?.counts(device, now);
    return {
      key: id,
      name,
      type: visible(type),
      state,
      endpoint_name: device.endpoint_name,
      endpoint_type: type,
      status: summary?.status(device, now) ?? "",
      value: value ? [value.text, value.unit].filter(Boolean).join(" ") : "",
      last_contact: summary?.lastContact(device) ?? (contact === undefined ? null : Date.parse(contact)),
      // Empty instead of 0, because it needs no attention.
      failed: counts?.failed || null,
      drifting: counts?.drifting || null,
      pending: counts?.pending || null,
      stale: counts?.stale || null,
      tones: { failed: "bad", drifting: "warn", pending: "note", stale: "warn" },
      hints: {
        name: `${name} (${id})`,
        status: summary?.text(device, now) ?? "Reading …",
        value: main ? `${labelOf(main.path)} ${main.path}`.trim() : "",
      },
    };
  }

  /** If the fleet is too large to be read completely, the service applies the filters. */
  private serverFilters({ name, type, state }: Filters): Query {
    if (!this.isPartial.value) return {};
    return {
      ...(name && { endpoint_name__gte: name, endpoint_name__lte: `${name}\u{10ffff}` }),
      ...(type && { endpoint_type: type }),
      ...(state && { state }),
    };
  }
}

/** Whether a row of the fleet meets the filters. */
export function meets(row: Row, { name, type, state }: Filters): boolean {
  return (
    (!type || row["endpoint_type"] === type) &&
    (!state || row["state"] === state) &&
    (!name || String(row["endpoint_name"]).toLowerCase().includes(name.toLowerCase()))
  );
}
