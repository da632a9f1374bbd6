/** The fleet: reads the devices of the directory and of the mirror, and keeps them as rows of a table. */

import { signal } from "@preact/signals";
import { type Row, Rows } from "../bridge";
import { type Query, readLines, RequestError, type Session } from "./http";
import { type Mark, markOf } from "./marks";
import { displayNames, visible } from "./names";
import { isUnit, labelOf, mayBe, unitOf } from "./objects";
import { valueText } from "./values";
import type { Device, DeviceObject, Entry, Page, Resource, SnapshotEnd, UnchangedDevice } from "./wire";

export const MAX_DEVICES_PER_REQUEST = 1000;
export const MAX_DEVICES = 20_000;
const NDJSON = "application/x-ndjson";
/** Objects of sensors and actuators have these ids. Their values say more about a device than those of management objects. */
const FIRST_SENSOR_OBJECT = 3200;
const COLLATOR = new Intl.Collator("en", { numeric: true });
const MAIN_RESOURCES = ["5700", "5850", "5851"];

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

/** The counts of a device's resources by mark. */
export type Counts = Partial<Record<Mark, number>>;

interface MainValue {
  path: string;
  payload: string | undefined;
  contentType: string | undefined;
  unit: string;
}

/** A member of the fleet, as it was last read. */
interface Member {
  device: Device;
  counts?: Counts;
  hasReported?: boolean;
  main?: MainValue;
  /** The units that the device itself reports, by the path of the value. */
  units?: ReadonlyMap<string, string>;
}

export class Fleet {
  readonly rows = new Rows();
  readonly total = signal(0);
  /** Whether the fleet is too large to be read completely. */
  readonly isPartial = signal(false);
  readonly isRead = signal(false);
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
  ) {}

  has(deviceId: string): boolean {
    return this.members.has(deviceId);
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
    return visible(this.members.get(deviceId ?? "")?.units?.get(path) ?? unitOf(path, []));
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
    this.isRead.value = true;
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
    const main = this.members.get(ep ?? "")?.main;
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
    const counts: Counts = {};
    for (const resource of object.resources) {
      const mark = markOf(resource);
      counts[mark] = (counts[mark] ?? 0) + 1;
    }
    member.counts = counts;
    member.units = reportedUnits(object.resources);
    member.hasReported = object.resources.some(({ reported }) => reported.value !== undefined);
    const main = mainResource(object.resources);
    if (main) {
      const { resource_path: path, reported } = main;
      const unit = visible(unitOf(path, object.resources));
      member.main = { path, payload: reported.value, contentType: reported.content_type, unit };
    }
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

  private row({ device, counts, hasReported, main }: Member): Row {
    const { id, endpoint_type: type = "", state, last_contact_at: contact } = device;
    const name = this.nameOf(id);
    const value = main && valueText(main.payload, main.path, main.unit, main.contentType);
    return {
      key: id,
      name,
      type: visible(type),
      state,
      endpoint_name: device.endpoint_name,
      endpoint_type: type,
      status: counts ? statusOf(device, counts, hasReported ?? false) : "",
      value: value ? [value.text, value.unit].filter(Boolean).join(" ") : "",
      last_contact: contact === undefined ? null : Date.parse(contact),
      failed: counts?.failed ?? 0,
      drifting: counts?.reverted ?? 0,
      pending: counts?.pending ?? 0,
      tones: { failed: "bad", drifting: "warn", pending: "note" },
      hints: {
        name: `${name} (${id})`,
        status: counts ? statusText(device, counts, hasReported ?? false) : "Reading …",
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

/** Return the worst status of a device, as in the fleet table of the notebooks. */
export function statusOf(device: Device, counts: Counts, hasReported: boolean): string {
  if (counts.failed) return "Failed";
  if (counts.reverted) return "Drifting";
  if (counts.pending) return "Pending";
  if (!hasReported) return "Never reported";
  return device.state === "registered" ? "In sync" : "Offline";
}

function statusText(device: Device, counts: Counts, hasReported: boolean): string {
  const words: [Mark, string][] = [
    ["failed", "failed"], ["reverted", "drifting"], ["pending", "pending"], ["unconfirmed", "unconfirmed"],
    ["unreported", "written and never reported"],
  ];
  const parts = words.flatMap(([mark, word]) => (counts[mark] ? [`${counts[mark]} ${word}`] : []));
  if (!hasReported) parts.push("never reported");
  if (device.state !== "registered") parts.push("offline");
  return parts.join(", ") || "in sync";
}

function reportedUnits(resources: readonly Resource[]): ReadonlyMap<string, string> {
  const units = new Map<string, string>();
  for (const { resource_path: path } of resources) {
    const unit = unitOf(path, resources);
    if (unit !== unitOf(path, [])) units.set(path, unit);
  }
  return units;
}

/** Return the resource whose value says most about its device: of a sensor or actuator, and reported if possible. */
function mainResource(resources: readonly Resource[]): Resource | undefined {
  const rank = ({ resource_path: path, reported }: Resource): number => {
    const [, object = "", , resource = ""] = path.split("/");
    if (Number(object) < FIRST_SENSOR_OBJECT || !mayBe("R", path) || isUnit(path)) return Infinity;
    const position = MAIN_RESOURCES.indexOf(resource);
    return (position < 0 ? MAIN_RESOURCES.length : position) + (reported.value === undefined ? 100 : 0);
  };
  let best: Resource | undefined;
  for (const resource of resources) if (rank(resource) < (best ? rank(best) : Infinity)) best = resource;
  return best;
}
