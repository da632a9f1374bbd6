// What the visitor has asked devices for, and what came of it.

import { ask, Refused } from "./interface.js";
import { whyOf } from "./resource.js";
import { element, instant, shownValue } from "./show.js";

// How long a request waits for a device that stays connected; others get the service's own time.
const CONNECTED_EXPIRY_SECONDS = 60;
const MOST_KEPT = 200;
const NAMES = { GET: "Read", PUT: "Write", POST: "Execution" };
const asked = new Map();

export function forgetRequests() {
  asked.clear();
}

// Sends a request; it is known here before it is sent, because a fast device answers before the service does.
export async function place(method, device, path, { payload, contentType, unit = "" } = {}) {
  const asyncId = [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const request = { method, deviceId: device.id, path, payload, unit, state: "sent" };
  asked.set(asyncId, request);
  if (asked.size > MOST_KEPT) asked.delete(asked.keys().next().value);
  const isAwake = device.state === "registered" && !device.queue_mode;
  const body = {
    method, uri: path,
    ...(payload !== undefined && { "payload-b64": payload, "content-type": contentType }),
    ...(isAwake && { expiry_seconds: CONNECTED_EXPIRY_SECONDS }),
  };
  try {
    const target = `v2/device-requests/${encodeURIComponent(device.id)}`;
    const answer = await ask("POST", target, { query: { "async-id": asyncId }, body });
    request.until = answer.headers.get("Mirror-Expires-At");
    if (request.state === "sent") request.state = "waits";
  } catch (error) {
    request.state = "refused";
    const isRefused = error instanceof Refused;
    request.why = isRefused ? error.message : "The server does not answer; whether the request reached it is not known.";
    if (isRefused && error.code === 401) throw error;
  }
}

// Takes an answer out of the log; one to a request of somebody else with this key is no matter here.
export function answered(entry) {
  const request = asked.get(entry.id);
  if (!request) return;
  Object.assign(request, { state: entry.error ? "failed" : "done", entry });
}

// Of answers that are gone nothing is known any more.
export function answersAreGone() {
  for (const request of asked.values()) if (request.state === "waits") request.state = "gone";
}

export function requestsOf(deviceId, path) {
  return [...asked].filter(([, each]) => each.deviceId === deviceId && each.path === path).reverse();
}

export function requestInWords([asyncId, request]) {
  const { method, payload, path, unit, state } = request;
  const value = method === "PUT" ? [" of ", shownValue(payload, path, unit)] : [];
  const className = state === "failed" || state === "refused" ? "failure" : "";
  const item = element("li", { className }, NAMES[method], ...value, ": ", ...outcome[state](request));
  item.dataset.key = asyncId;
  return item;
}

const outcome = {
  sent: () => ["is sent …"],
  waits: ({ until }) => ["waits for the device", ...(until ? [", until ", instant(until), " at most"] : [])],
  refused: ({ why }) => ["was not placed. ", why],
  gone: () => ["its answer may be among the events that are gone; a read tells how the resource is"],
  failed: ({ entry }) => ["failed. ", `${whyOf(entry.error)} (${entry.status}), `, instant(entry.timestamp)],
  done: ({ method, entry, path, unit }) => {
    const what = method === "GET" ? shownValue(entry.payload, path, unit, entry.ct) : "done";
    return [what, ", ", instant(entry.timestamp)];
  },
};
