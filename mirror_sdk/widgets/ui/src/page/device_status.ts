/**
 * The status and the main value of a device. The fleet table of the notebooks has the same rules, in fleet_model.py,
 * main_value.py and staleness.py: tests/sdk/device_rules.json has examples with which tests compare both.
 */

import { type Mark, markOf } from "./marks";
import { declaredFor, isNumber, neverChanges, numberOf, textOf, unitOf } from "./objects";
import { instancesOf } from "./tlv";
import type { Device, DeviceObject, Resource } from "./wire";

/** The statuses of devices, worst first. A device has the first one that applies. */
export const DEVICE_STATUSES = ["Failed", "Drifting", "Pending", "Stale", "Never reported", "Offline", "In sync"] as const;
export type DeviceStatus = (typeof DEVICE_STATUSES)[number];

type Counted = "failed" | "drifting" | "pending" | "stale" | "unconfirmed";

/** The numbers of resources. */
export type Counts = Readonly<Record<Counted, number>>;

const COUNTED: Partial<Record<Mark, Counted>> = {
  failed: "failed", reverted: "drifting", pending: "pending", unconfirmed: "unconfirmed", unreported: "unconfirmed",
};
const HOUR = 3_600_000;
/** A value is stale after a silence of so many times the longest pause between two reports of its resource. */
const PAUSES = 3;
const PAUSES_NEEDED = 3;
const LEAST_SILENCE = HOUR;
const LEAST_SILENCE_WITHOUT_PAUSES = 24 * HOUR;
/** Objects of sensors and actuators have these ids. Their values say more about a device than those of management objects. */
const FIRST_SENSOR_OBJECT = 3200;
const MAIN_RESOURCES = [5700, 5850, 5851];
const TEXT = /^(text\/plain\b.*|0)?$/;

export interface MainValue {
  path: string;
  payload: string | undefined;
  contentType: string | undefined;
  unit: string;
}

/** The last report of a resource, and the pauses before it, in milliseconds. */
interface Reports {
  at: number;
  longest: number;
  pauses: number;
}

/** A value that the device sends by itself. Its max-age decides whether it is stale, or else the silence of the device. */
interface SentValue {
  path: string;
  expiresAt: number | null;
  longestSilence: number;
}

/** The state of a device's resources, as they were last read. */
export class DeviceSummary {
  main: MainValue | undefined;
  /** The units that the device itself reports, by the path of the value. */
  units: ReadonlyMap<string, string> = new Map();
  private marks: Record<Exclude<Counted, "stale">, number> = { failed: 0, drifting: 0, pending: 0, unconfirmed: 0 };
  private newestReport: number | null = null;
  private sent: SentValue[] = [];
  private readonly reports = new Map<string, Reports>();

  /** Accept the resources of the device, and learn how often it reports. */
  read({ resources }: DeviceObject): void {
    this.marks = { failed: 0, drifting: 0, pending: 0, unconfirmed: 0 };
    this.newestReport = null;
    this.sent = [];
    for (const resource of resources) {
      const counted = COUNTED[markOf(resource)];
      if (counted !== undefined && counted !== "stale") this.marks[counted] += 1;
      const at = Date.parse(resource.reported.reported_at ?? "");
      if (Number.isNaN(at)) continue;
      this.newestReport = Math.max(this.newestReport ?? at, at);
      if (isSent(resource)) this.noteReport(resource, at);
    }
    this.units = reportedUnits(resources);
    this.main = mainValue(resources);
  }

  /** Return when anything last came from the device; null if nothing is known. */
  lastContact({ last_contact_at: contact }: Device): number | null {
    const known = [contact === undefined ? null : Date.parse(contact), this.newestReport].filter((at) => at !== null);
    return known.length ? Math.max(...known) : null;
  }

  /** Return the paths of the stale values. `now` is the server's time in milliseconds. */
  stalePaths(device: Device, now: number): string[] {
    const seenAt = this.lastContact(device) ?? 0;
    const isStale = ({ expiresAt, longestSilence }: SentValue): boolean => (expiresAt ?? seenAt + longestSilence) < now;
    return this.sent.filter(isStale).map(({ path }) => path);
  }

  counts(device: Device, now: number): Counts {
    return { ...this.marks, stale: this.stalePaths(device, now).length };
  }

  /** Return the worst status that applies. */
  status(device: Device, now: number): DeviceStatus {
    const counts = this.counts(device, now);
    if (counts.failed) return "Failed";
    if (counts.drifting) return "Drifting";
    if (counts.pending) return "Pending";
    if (counts.stale) return "Stale";
    if (this.newestReport === null) return "Never reported";
    return device.state === "registered" ? "In sync" : "Offline";
  }

  /** Return all statuses that apply, in words. */
  text(device: Device, now: number): string {
    const counts = this.counts(device, now);
    const counted = ["failed", "drifting", "pending", "stale", "unconfirmed"] as const;
    const parts: string[] = counted.filter((name) => counts[name]).map((name) => `${counts[name]} ${name}`);
    if (this.newestReport === null) parts.push("never reported");
    if (device.state !== "registered") parts.push("offline");
    return parts.join(", ") || "in sync";
  }

  private noteReport({ resource_path: path, reported }: Resource, at: number): void {
    const reports = this.reports.get(path) ?? { at, longest: 0, pauses: 0 };
    if (at > reports.at) {
      reports.longest = Math.max(reports.longest, at - reports.at);
      reports.pauses += 1;
      reports.at = at;
    }
    this.reports.set(path, reports);
    const longestSilence =
      reports.pauses < PAUSES_NEEDED ? LEAST_SILENCE_WITHOUT_PAUSES : Math.max(PAUSES * reports.longest, LEAST_SILENCE);
    const expiresAt = reported.expires_at === undefined ? null : Date.parse(reported.expires_at);
    this.sent.push({ path, expiresAt, longestSilence });
  }
}

/** Whether a value is one that the device sends by itself, and that may change. */
function isSent({ resource_path: path, subscribed, reported }: Resource): boolean {
  return (subscribed === true || reported.origin === "auto_observation") && !neverChanges(path);
}

function reportedUnits(resources: readonly Resource[]): ReadonlyMap<string, string> {
  const units = new Map<string, string>();
  for (const { resource_path: path } of resources) {
    const unit = unitOf(path, resources);
    if (unit !== unitOf(path, [])) units.set(path, unit);
  }
  return units;
}

/** Return the reported number or boolean that says most about its device: of a sensor or an actuator if there is one. */
function mainValue(resources: readonly Resource[]): MainValue | undefined {
  let best: Resource | undefined;
  for (const resource of resources) {
    if (isReading(resource) && (!best || isBefore(rank(resource), rank(best)))) best = resource;
  }
  if (!best) return undefined;
  const { resource_path: path, reported } = best;
  return { path, payload: reported.value, contentType: reported.content_type, unit: unitOf(path, resources) };
}

/** Whether a reported value is a number or a boolean that may change. */
function isReading({ resource_path: path, reported }: Resource): boolean {
  const { value, content_type: contentType = "" } = reported;
  const declared = declaredFor(path);
  if (value === undefined || !declared || neverChanges(path)) return false;
  if (!isNumber(declared) && declared.type !== "boolean") return false;
  // The page does not decode other formats.
  if (!TEXT.test(contentType)) return instancesOf(value, path, contentType) === null;
  return declared.type === "boolean" ? /^[01]$/.test(textOf(value) ?? "") : numberOf(value, path) !== null;
}

function rank({ resource_path: path }: Resource): number[] {
  const ids = path.split("/").slice(1).map(Number);
  const [object = 0, , resource = 0] = ids;
  const position = MAIN_RESOURCES.indexOf(resource);
  return [object < FIRST_SENSOR_OBJECT ? 1 : 0, position < 0 ? MAIN_RESOURCES.length : position, ...ids];
}

function isBefore(one: readonly number[], other: readonly number[]): boolean {
  const index = one.findIndex((number, at) => number !== other[at]);
  return index < 0 ? one.length < other.length : (one[index] ?? 0) < (other[index] ?? -1);
}
