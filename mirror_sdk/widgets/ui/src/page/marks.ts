/** The status of a resource by its two values, and the check of a write before it is sent. */

import { isSameValue } from "./objects";
import type { Payload, Problem } from "./typed";
import type { Desired, Device, Reported, Resource } from "./wire";

/** After these failures it is unknown whether the device acted. */
const UNCERTAIN = ["DEVICE_REMOVED_REGISTRATION", "NOT_CONNECTED", "TIMEOUT"];
const WHY: Record<string, string> = {
  REQUEST_EXPIRED: "the request expired: the device was not connected, or was still busy with an earlier request",
  DEVICE_REMOVED_REGISTRATION: "the device deregistered; send the request again after its next registration",
  RESOURCE_NOT_FOUND: "the device has no such resource",
  METHOD_NOT_ALLOWED: "the resource does not allow this",
  BAD_VALUE: "the device does not accept this value; check its type and range",
  REJECTED: "the device rejected the request; its own log may say why",
  PRECONDITION_FAILED: "the device cannot do this in its current state",
  TOO_LARGE: "the value is too large for the device",
  UNSUPPORTED_CONTENT_TYPE: "the device does not support this content type",
  NOT_CONNECTED: "the connection to the device was lost; a read shows whether it acted",
  TIMEOUT: "the device did not respond in time; a read shows whether it acted",
};

/**
 * The state of a resource. `success`: the desired value is the reported one, even if the write failed. `reverted`: the
 * write succeeded, but another value was reported since. `unconfirmed`: the last report is older than the success.
 * `unreported`: it succeeded, but nothing was ever reported. `acknowledged`: someone acknowledged the failure, so that it
 * does not count.
 */
export type Mark =
  | "none" | "pending" | "success" | "failed" | "reverted" | "unconfirmed" | "unreported" | "acknowledged";

export function markOf({ desired, reported, resource_path: path }: Resource): Mark {
  if (desired.status === undefined) return "none";
  if (desired.acknowledged_at !== undefined) return "acknowledged";
  if (desired.status === 0) return "pending";
  if (reported.value !== undefined && isSameValue(reported.value, desired.value, path)) return "success";
  if (desired.status === 2) return "failed";
  if (reported.value === undefined) return "unreported";
  return isReportedSince(reported, desired) ? "reverted" : "unconfirmed";
}

/** Compare the revisions of the mirror, or the times if there are no revisions; null if the times are equal. */
export function isReportedSince(reported: Reported, desired: Desired): boolean | null {
  const { revision: one } = reported;
  const { revision: other } = desired;
  if (one !== undefined && other !== undefined && one !== other) return one > other;
  if (reported.reported_at === desired.desired_at) return null;
  return Date.parse(reported.reported_at ?? "") > Date.parse(desired.desired_at ?? "");
}

/** Return a category of failure in words; an unknown one as it is. */
export function whyOf(category: string | undefined): string {
  if (category === undefined) return "only the application that requested it gets the reason";
  const why = WHY[category];
  return why ? `${category}, ${why}` : category;
}

export interface Finding {
  decision: "write" | "skip" | "offline" | "reject";
  words: string;
}

/** Decide about a write, and give the reason, like a plan of the client. */
export function findingOf(typed: Payload | Problem, resource: Resource, device: Device | undefined): Finding {
  if ("problem" in typed) return { decision: "reject", words: typed.problem };
  const { desired, resource_path: path } = resource;
  const isPending = desired.status === 0;
  const current = currentOf(resource);
  if (isPending && isSameValue(desired.value, typed.payload, path)) {
    return { decision: "skip", words: "A write of this value is already in progress." };
  }
  if (!isPending && current !== undefined && !isUncertain(resource) && isSameValue(current, typed.payload, path)) {
    return { decision: "skip", words: "This is already the current value." };
  }
  if (device?.state !== "registered") {
    return { decision: "offline", words: "The device is not registered: a write waits for it, and may expire." };
  }
  if (isPending) return { decision: "write", words: "Another write is in progress before this one." };
  return { decision: "write", words: device.queue_mode ? "The device sleeps and gets it at its next contact." : "" };
}

/** Return the last reported value, or one that was successfully written since. */
function currentOf({ reported, desired }: Resource): string | undefined {
  if (desired.status !== 1) return reported.value;
  return reported.value !== undefined && isReportedSince(reported, desired) ? reported.value : desired.value;
}

/** Whether a failed write may have changed the value since the last report. */
function isUncertain({ reported, desired }: Resource): boolean {
  if (desired.status !== 2) return false;
  if (desired.category !== undefined && !UNCERTAIN.includes(desired.category)) return false;
  return reported.value === undefined || !isReportedSince(reported, desired);
}
