// The requests that the visitor sent to devices, and their results.

import { callApi, RequestError } from "./interface.js";
import { whyOf } from "./resource.js";
import { element, instant, formatValue } from "./show.js";

// How long a request waits for a device that stays connected; others get the default of the service.
const CONNECTED_EXPIRY_SECONDS = 60;
const MAX_REQUESTS = 200;
const NAMES = { GET: "Read", PUT: "Write", POST: "Execution" };
const requests = new Map();

export function clearRequests() {
  requests.clear();
}

// Send a request. It is stored before it is sent, because the response of a fast device can arrive before that of the server.
export async function submit(method, device, path, { payload, contentType, unit = "" } = {}) {
  const asyncId = [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const request = { method, deviceId: device.id, path, payload, unit, state: "sent" };
  requests.set(asyncId, request);
  if (requests.size > MAX_REQUESTS) requests.delete(requests.keys().next().value);
  const isAwake = device.state === "registered" && !device.queue_mode;
  const body = {
    method, uri: path,
    ...(payload !== undefined && { "payload-b64": payload, "content-type": contentType }),
    ...(isAwake && { expiry_seconds: CONNECTED_EXPIRY_SECONDS }),
  };
  try {
    const target = `v2/device-requests/${encodeURIComponent(device.id)}`;
    const response = await callApi("POST", target, { query: { "async-id": asyncId }, body });
    request.until = response.headers.get("Mirror-Expires-At");
    if (request.state === "sent") request.state = "waits";
  } catch (error) {
    request.state = "rejected";
    const isRejected = error instanceof RequestError;
    request.reason = isRejected ? error.message : "The server does not respond; it is unknown whether it received the request.";
    if (isRejected && error.code === 401) throw error;
  }
}

// Note a response from the log. A response to a request of another program with this key is ignored.
export function noteResponse(entry) {
  const request = requests.get(entry.id);
  if (!request) return;
  Object.assign(request, { state: entry.error ? "failed" : "done", entry });
}

// After a gap in the log, the responses to waiting requests may be lost.
export function noteLostResponses() {
  for (const request of requests.values()) if (request.state === "waits") request.state = "lost";
}

export function requestsOf(deviceId, path) {
  return [...requests].filter(([, each]) => each.deviceId === deviceId && each.path === path).reverse();
}

export function requestInWords([asyncId, request]) {
  const { method, payload, path, unit, state } = request;
  const value = method === "PUT" ? [" of ", formatValue(payload, path, unit)] : [];
  const className = state === "failed" || state === "rejected" ? "failure" : "";
  const item = element("li", { className }, NAMES[method], ...value, ": ", ...outcome[state](request));
  item.dataset.key = asyncId;
  return item;
}

const outcome = {
  sent: () => ["is sent …"],
  waits: ({ until }) => ["waits for the device", ...(until ? [", until ", instant(until), " at most"] : [])],
  rejected: ({ reason }) => ["was not accepted. ", reason],
  lost: () => ["its response may be among the missing events; a read shows the current value"],
  failed: ({ entry }) => ["failed. ", `${whyOf(entry.error)} (${entry.status}), `, instant(entry.timestamp)],
  done: ({ method, entry, path, unit }) => {
    const result = method === "GET" ? formatValue(entry.payload, path, unit, entry.ct) : "done";
    return [result, ", ", instant(entry.timestamp)];
  },
};
