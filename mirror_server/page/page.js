// The page for people: reads the interface with the visitor's access key, and shows what it says.

import { readEvents } from "./stream.js";
import { element, fill, instant, shownNames, shownValue, visible } from "./show.js";

const PAGE_SIZE = 50;
const AT_ONCE = 4;
const TAIL_LENGTH = 200;
const REFRESH_MILLISECONDS = 15_000;
const GATHER_MILLISECONDS = 300;
const KEY = "mirror-access-key";
const STATUSES = ["pending", "success", "failure"];

const at = (id) => document.getElementById(id);
const state = { key: "", devices: [], names: new Map(), objects: new Map(), waiting: [], chosen: null, before: [], after: null, more: false, total: 0 };
let session = new AbortController();

class Refused extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

async function get(path, parameters = {}) {
  const query = new URLSearchParams(parameters).toString();
  const headers = { Authorization: `Bearer ${state.key}` };
  const answer = await fetch(query ? `${path}?${query}` : path, { headers, signal: session.signal, cache: "no-cache" });
  const body = await answer.json();
  if (!answer.ok) throw new Refused(answer.status, body.message);
  return body;
}

// Signing in and out

function signIn(key) {
  signOut();
  Object.assign(state, { key, devices: [], names: new Map(), objects: new Map(), waiting: [], chosen: null, before: [], after: null });
  at("status").textContent = "Reading the devices …";
  at("status").className = "";
  start().catch(tell);
}

async function start() {
  const signal = session.signal;
  await readDevices();
  sessionStorage.setItem(KEY, state.key);
  showSignedIn(true);
  at("status").textContent = "";
  gatherSoon();
  keepRefreshing(signal);
  follow(signal);
}

function signOut() {
  session.abort();
  session = new AbortController();
  sessionStorage.removeItem(KEY);
  state.key = "";
  for (const id of ["devices", "resources", "waiting", "tail"]) fill(at(id));
  at("resources-table").hidden = true;
  at("device").textContent = "Choose a device to see its resources.";
  showSignedIn(false);
}

function showSignedIn(isSignedIn) {
  document.querySelector("main").hidden = !isSignedIn;
  at("sign-out").hidden = !isSignedIn;
  for (const each of document.querySelectorAll(".signed-out")) each.hidden = isSignedIn;
  at("key").value = "";
}

function tell(error) {
  if (error.name === "AbortError") return;
  if (error instanceof Refused && error.code === 401) signOut();
  at("status").className = "failure";
  at("status").textContent = error instanceof Refused ? `${error.message}` : "The server does not answer; trying again.";
}

// Devices

async function readDevices() {
  const prefix = at("prefix").value;
  const filter = prefix ? { endpoint_name__gte: prefix, endpoint_name__lte: `${prefix}\u{10ffff}` } : {};
  const after = state.after ? { after: state.after } : {};
  const page = await get("v3/devices", { limit: PAGE_SIZE, include: "total_count", ...filter, ...after });
  Object.assign(state, { devices: page.data, names: shownNames(page.data), more: page.has_more, total: page.total_count });
  showDevices();
  dirty.devices = new Set(page.data.map((device) => device.id));
  gatherSoon();
}

function showDevices() {
  fill(at("devices"), ...state.devices.map(deviceRow));
  const first = state.before.length * PAGE_SIZE;
  at("shown").textContent = state.devices.length
    ? `${first + 1} to ${first + state.devices.length} of ${state.total}`
    : "No device. Devices show up here when they register.";
  at("previous").disabled = state.before.length === 0;
  at("next").disabled = !state.more;
}

function deviceRow(device) {
  const object = state.objects.get(device.id);
  const name = element("button", { type: "button", title: device.id }, nameOf(device.id));
  name.addEventListener("click", () => choose(device.id));
  const isChosen = device.id === state.chosen;
  if (isChosen) name.setAttribute("aria-current", "true");
  return element(
    "tr",
    { className: isChosen ? "chosen" : "" },
    element("td", {}, name),
    element("td", { className: "less" }, device.endpoint_type),
    element("td", { className: device.state === "registered" ? "" : "quiet" }, device.state),
    element("td", { className: "whole less" }, instant(object?.last_reported_at)),
    element("td", {}, ...marks(object)),
  );
}

function marks(object) {
  if (!object) return ["…"];
  const found = object.resources.map(markOf);
  const shown = [];
  for (const [mark, word] of [["failure", "failed"], ["drift", "differ"], ["pending", "pending"], ["unconfirmed", "unconfirmed"]]) {
    const count = found.filter((each) => each === mark).length;
    if (count) shown.push(element("span", { className: mark }, `${count} ${word}`), " ");
  }
  if (shown.length === 0 && found.includes("success")) return [element("span", { className: "success" }, "agree")];
  return shown;
}

function markOf({ desired, reported }) {
  if (desired.status === undefined) return "none";
  if (desired.status !== 1) return STATUSES[desired.status];
  if (reported.value === undefined || reported.value === desired.value) return "success";
  return isReportedSince(reported, desired) ? "drift" : "unconfirmed";
}

// The numbers of the mirror's changes tell what came first, without them the times; null where these are the same.
function isReportedSince(reported, desired) {
  const isTold = reported.revision !== undefined && desired.revision !== undefined && reported.revision !== desired.revision;
  if (isTold) return reported.revision > desired.revision;
  return reported.reported_at === desired.desired_at ? null : Date.parse(reported.reported_at) > Date.parse(desired.desired_at);
}

function turn(step) {
  if (step > 0) state.before.push(state.after);
  state.after = step > 0 ? state.devices.at(-1).id : state.before.pop();
  readDevices().catch(tell);
}

// One device

function choose(deviceId) {
  state.chosen = deviceId;
  showDevices();
  showResources();
  dirty.devices.add(deviceId);
  gatherSoon();
  at("resources-title").scrollIntoView({ block: "nearest" });
}

function showResources() {
  const object = state.objects.get(state.chosen);
  if (!object) return;
  at("resources-table").hidden = false;
  fill(at("device"), `${visible(object.endpoint_name)}, id `, element("code", {}, object.device_id));
  fill(at("resources"), ...object.resources.flatMap(resourceRows));
}

function resourceRows(resource) {
  const { reported, desired } = resource;
  const mark = markOf(resource);
  const words = { none: "", drift: "success, but differs", pending: "pending", success: "success", failure: "failure", unconfirmed: "success, unconfirmed" };
  const row = element(
    "tr",
    {},
    element("th", { scope: "row" }, resource.resource_path),
    element("td", { className: "value" }, shownValue(reported.value)),
    element("td", { className: "whole" }, instant(reported.reported_at)),
    element("td", { className: "value" }, shownValue(desired.value)),
    element("td", { className: "whole" }, instant(desired.desired_at)),
    element("td", { className: mark }, words[mark]),
    element("td", {}, resource.subscribed ? "yes" : ""),
  );
  return mark === "unconfirmed" ? [row, unconfirmedRow(resource, row.cells.length)] : [row];
}

function unconfirmedRow({ desired, reported }, width) {
  const older = isReportedSince(reported, desired) === null ? "may be older" : "is older";
  const words = ["The device took ", shownValue(desired.value), "; the last report, ", shownValue(reported.value), `, ${older}. A read confirms it.`];
  return element("tr", {}, element("td", { className: "unconfirmed", colSpan: width }, ...words));
}

// Waiting requests

async function readWaiting() {
  try {
    const page = await get("v2/device-requests", { limit: PAGE_SIZE });
    state.waiting = page.data;
    at("waiting-note").textContent = page.has_more ? `The oldest ${PAGE_SIZE} of the requests that wait.` : page.data.length ? "" : "None of this key's requests waits.";
  } catch (error) {
    if (!(error instanceof Refused) || error.code !== 403) throw error;
    at("waiting-note").textContent = error.message;
  }
  fill(at("waiting"), ...state.waiting.map(waitingRow));
}

function waitingRow(request) {
  const words = { GET: "read", PUT: "write", POST: "execute" };
  return element(
    "tr",
    {},
    element("td", { className: "whole" }, instant(request.placed_at)),
    element("td", {}, nameOf(request.device_id)),
    element("td", { title: request.async_response_id }, `${words[request.method]} ${request.uri}`),
    element("td", {}, request.state === "with_device" ? "the device has it" : "waits for the device"),
    element("td", { className: "whole less" }, instant(request.expires_at)),
  );
}

function nameOf(deviceId) {
  return state.names.get(deviceId) ?? visible(state.objects.get(deviceId)?.endpoint_name ?? deviceId);
}

// What events name is read again, gathered, so that a thousand events a second are no thousand requests.

const dirty = { devices: new Set(), list: false, waiting: true };
let gathering = null;

function gatherSoon() {
  gathering ??= setTimeout(() => gather().catch(tell).finally(() => { gathering = null; if (dirty.devices.size || dirty.list) gatherSoon(); }), GATHER_MILLISECONDS);
}

async function gather() {
  if (!state.key) return;
  if (dirty.list) {
    dirty.list = false;
    await readDevices();
  }
  if (dirty.waiting) {
    dirty.waiting = false;
    await readWaiting();
  }
  const wanted = [...dirty.devices];
  dirty.devices.clear();
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    while (wanted.length) {
      const deviceId = wanted.shift();
      state.objects.set(deviceId, await get(`v3/devices/${encodeURIComponent(deviceId)}/echo`));
    }
  }));
  showDevices();
  showResources();
}

// What other applications write is told by no event of this key, so it is looked for now and then.
function keepRefreshing(signal) {
  const timer = setInterval(() => {
    if (document.hidden) return;
    for (const device of state.devices) dirty.devices.add(device.id);
    if (state.chosen) dirty.devices.add(state.chosen);
    dirty.waiting = true;
    gatherSoon();
  }, REFRESH_MILLISECONDS);
  signal.addEventListener("abort", () => clearInterval(timer));
}

// Events

async function follow(signal) {
  const told = (text, className = "") => {
    at("stream").className = className;
    at("stream").textContent = text;
  };
  const opened = () => {
    told("Live: what happens from now on is shown here.");
    at("status").textContent = "";
    dirty.list = dirty.waiting = true;
    gatherSoon();
  };
  const closed = (seconds) => told(`The server does not answer; trying again in ${seconds} s.`, "failure");
  try {
    const url = "v2/notification/events";
    for await (const event of readEvents(url, { key: state.key, signal, opened, closed })) took(event);
  } catch (error) {
    if (!signal.aborted) told(error.message, "failure");
  }
}

function took(event) {
  const data = JSON.parse(event.data);
  const deviceId = data.ep;
  // A gap names no device, nor does an answer that an older version logged: it may be the one that is looked at.
  const touched = deviceId ?? state.chosen;
  if (touched) dirty.devices.add(touched);
  if (event.name === "async-responses" || event.name === "gap") dirty.waiting = true;
  if (/regist|reg-updates|gap/.test(event.name)) dirty.list = true;
  gatherSoon();
  const tail = at("tail");
  tail.prepend(eventRow(event, data, deviceId));
  while (tail.rows.length > TAIL_LENGTH) tail.lastElementChild.remove();
}

function eventRow(event, data, deviceId) {
  return element(
    "tr",
    { className: event.name === "gap" ? "failure" : "" },
    element("td", { className: "less" }, event.id),
    // Of what does not tell its time it stays open: the clock here need not be the service's.
    element("td", { className: "whole" }, instant(data.timestamp)),
    element("td", {}, event.name),
    element("td", {}, deviceId ? nameOf(deviceId) : ""),
    element("td", { className: "value" }, ...what(event.name, data)),
  );
}

function what(name, data) {
  if (name === "notifications") return [`${data.path} = `, shownValue(data.payload)];
  if (name === "async-responses") return [`${data.error ?? "done"} (${data.status}) `, data.payload ? shownValue(data.payload) : ""];
  if (name === "gap") return [`${data.first} to ${data.last} are gone`];
  return [];
}

// Beginning

at("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  signIn(at("key").value.trim());
});
at("sign-out").addEventListener("click", () => {
  signOut();
  at("status").className = "";
  at("status").textContent = "The key is forgotten.";
  at("key").focus();
});
at("find").addEventListener("submit", (event) => event.preventDefault());
at("prefix").addEventListener("input", () => {
  Object.assign(state, { before: [], after: null });
  dirty.list = true;
  gatherSoon();
});
at("previous").addEventListener("click", () => turn(-1));
at("next").addEventListener("click", () => turn(1));

// A browser never sends what stands behind the #, and it is taken out of the address at once.
const given = new URLSearchParams(location.hash.slice(1)).get("key");
if (given) history.replaceState(null, "", location.pathname + location.search);
const key = given ?? sessionStorage.getItem(KEY);
if (key) signIn(key);
