// The meaning of a resource's two values together, and the check of a write before it is sent.

import { isSameValue } from "./objects.js";

const STATUSES = ["pending", "success", "failure"];
// After these failures it is unknown whether the device acted.
const UNCERTAIN = ["DEVICE_REMOVED_REGISTRATION", "NOT_CONNECTED", "TIMEOUT"];
const WHY = {
  REQUEST_EXPIRED: "not delivered in time: the device was not connected, or did not respond to an earlier request",
  DEVICE_REMOVED_REGISTRATION: "the device deregistered; send the request again after its next registration",
  RESOURCE_NOT_FOUND: "the device has no such resource",
  METHOD_NOT_ALLOWED: "the resource does not allow this",
  BAD_VALUE: "the device does not accept this value; check its type and range",
  REJECTED: "the device rejected the request; its own log may say why",
  PRECONDITION_FAILED: "the device cannot do this in its current state",
  TOO_LARGE: "the value is too large for the device",
  UNSUPPORTED_CONTENT_TYPE: "the device does not support this content type",
  NOT_CONNECTED: "the device cannot be reached; try again later",
  TIMEOUT: "the device did not respond in time; a read shows whether it acted",
};

// The state of a resource: none, pending, success, failure, drift (success, but another value was reported since),
// unconfirmed (the last report is older than the success), unreported (success, but nothing was ever reported), or
// acknowledged (a failure that someone acknowledged, which does not count).
export function markOf({ desired, reported, resource_path }) {
  if (desired.status === undefined) return "none";
  if (desired.acknowledged_at !== undefined) return "acknowledged";
  if (desired.status !== 1) return STATUSES[desired.status];
  if (reported.value === undefined) return "unreported";
  if (isSameValue(reported.value, desired.value, resource_path)) return "success";
  return isReportedSince(reported, desired) ? "drift" : "unconfirmed";
}

// By the revisions of the mirror, or by the times if there are no revisions; null if the times are equal.
export function isReportedSince(reported, desired) {
  const hasRevisions = reported.revision !== undefined && desired.revision !== undefined && reported.revision !== desired.revision;
  if (hasRevisions) return reported.revision > desired.revision;
  return reported.reported_at === desired.desired_at ? null : Date.parse(reported.reported_at) > Date.parse(desired.desired_at);
}

// A category of failure in words; an unknown one is returned as it is.
export function whyOf(category) {
  if (category === undefined) return "only the application that requested it gets the reason";
  return category in WHY ? `${category}, ${WHY[category]}` : category;
}

// The decision about a write (write, skip, offline, reject) and its reason, like a plan of the client.
export function findingOf(typed, resource, device) {
  if (typed.problem) return { decision: "reject", words: typed.problem };
  const { desired, resource_path: path } = resource;
  const isPending = desired.status === 0;
  const current = currentOf(resource);
  if (isPending && isSameValue(desired.value, typed.payload, path)) {
    return { decision: "skip", words: "A write of this value is already in progress." };
  }
  if (!isPending && current !== undefined && !isUncertain(resource) && isSameValue(current, typed.payload, path)) {
    return { decision: "skip", words: "This is already the current value." };
  }
  if (device.state !== "registered") {
    return { decision: "offline", words: "The device is not registered: a write waits for it, and may expire." };
  }
  if (isPending) return { decision: "write", words: "Another write is in progress before this one." };
  return { decision: "write", words: device.queue_mode ? "The device sleeps and gets it at its next contact." : "" };
}

// The last reported value, or one that was successfully written since.
function currentOf({ reported, desired }) {
  if (desired.status !== 1) return reported.value;
  return reported.value !== undefined && isReportedSince(reported, desired) ? reported.value : desired.value;
}

// Whether a failed write may have changed the value since the last report.
function isUncertain({ reported, desired }) {
  if (desired.status !== 2) return false;
  if (desired.category !== undefined && !UNCERTAIN.includes(desired.category)) return false;
  return reported.value === undefined || !isReportedSince(reported, desired);
}
