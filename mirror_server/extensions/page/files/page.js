// The web page: reads the interface with the visitor's access key, displays the result, and sends requests to devices.

import { choose, showDevice, toggle, useDevice } from "./device.js";
import { fleet, clearFleet, nameOf, readChanges, readConnection, readDevices, readDirectory, showFleet, sortBy } from "./fleet.js";
import { get, RequestError, session, useKey } from "./interface.js";
import { labelOf, loadObjects, unitOf } from "./objects.js";
import { noteResponse, noteLostResponses, clearRequests } from "./requests.js";
import { whyOf } from "./resource.js";
import { readEvents } from "./stream.js";
import { block, element, instant, show, showTimesIn, formatValue, visible, zoneInWords } from "./show.js";
import { noteEntry } from "./values.js";

const WAITING_ROWS = 50;
const TAIL_ROWS = 200;
const GATHER_MILLISECONDS = 300;
const CHANGES_MILLISECONDS = 15_000;
const RETRY_MILLISECONDS = 2000;
const DIRECTORY_EACH = 4;
// The factor of the pause after a read that took long because the fleet is large.
const PAUSE_FACTOR = 10;
const MAX_DEVICES_PER_REQUEST = 100;
const KEY = "mirror-access-key";
const OPERATIONS = { GET: "read", PUT: "write", POST: "execute" };
const NARROW = matchMedia("(max-width: 60rem)");

const at = (id) => document.getElementById(id);

// Signing in and out

function signIn(key) {
  signOut();
  useKey(key);
  at("status").textContent = "Reading the devices …";
  at("status").className = "";
  keepStarting();
}

function keepStarting() {
  const { signal } = session.ending;
  start().catch((error) => {
    report(error);
    const isTemporary = error instanceof TypeError || error.code >= 500 || error.code === 429;
    if (!isTemporary) return;
    // The key is stored for a reload in the meantime.
    sessionStorage.setItem(KEY, session.key);
    setTimeout(() => signal.aborted || keepStarting(), RETRY_MILLISECONDS);
  });
}

async function start() {
  const { signal } = session.ending;
  const [access] = await Promise.all([get("v3/api-keys/me"), loadObjects(), readDirectory()]);
  useDevice(access.scopes, { report, submitted });
  sessionStorage.setItem(KEY, session.key);
  showSignedIn(true);
  at("status").textContent = "";
  showFleet();
  chooseFromAddress();
  dirty.changes = dirty.waiting = true;
  gatherSoon();
  keepRefreshing(signal);
  follow(signal);
}

function signOut() {
  useKey("");
  sessionStorage.removeItem(KEY);
  clearFleet();
  clearRequests();
  Object.assign(dirty, nothing());
  pendingEvents.length = 0;
  for (const id of ["devices", "waiting", "tail"]) at(id).replaceChildren();
  choose(null);
  showSignedIn(false);
}

function showSignedIn(isSignedIn) {
  for (const each of document.querySelectorAll(".signed-in")) each.hidden = !isSignedIn;
  for (const each of document.querySelectorAll(".signed-out")) each.hidden = isSignedIn;
  at("key").value = "";
}

function report(error) {
  if (error.name === "AbortError") return;
  const isRejected = error instanceof RequestError;
  if (!isRejected && !(error instanceof TypeError)) throw error;
  if (isRejected && error.code === 401) signOut();
  at("status").className = "failure";
  at("status").textContent = isRejected ? error.message : "The server does not respond; trying again.";
}

// Choosing a device: its id is in the address, so that the address can be stored and shared.

// On a narrow screen the resources are below the devices, and the page scrolls there.
let mustScroll = false;

function chooseDevice(deviceId) {
  choose(deviceId);
  history.replaceState(null, "", `#${new URLSearchParams({ device: deviceId })}`);
  dirty.devices.add(deviceId);
  showFleet();
  gatherNow();
  mustScroll = NARROW.matches;
  if (mustScroll) at("resources-title").focus();
}

function chooseFromAddress() {
  const deviceId = new URLSearchParams(location.hash.slice(1)).get("device");
  if (!deviceId || !session.key || deviceId === fleet.chosen) return;
  if (fleet.devices.has(deviceId)) chooseDevice(deviceId);
  else findDevice(deviceId).catch(report);
}

async function findDevice(deviceId) {
  await readDevices([deviceId]);
  if (fleet.devices.has(deviceId)) chooseDevice(deviceId);
  else choose(null, deviceId);
}

// Reading devices named by events: gathered, so that a thousand events per second do not cause a thousand requests.

const nothing = () => ({ devices: new Set(), changes: false, directory: false, waiting: false });
const dirty = nothing();
let gathering = null;
let pausedUntil = 0;

function gatherSoon(milliseconds = GATHER_MILLISECONDS) {
  gathering ??= setTimeout(gatherAll, milliseconds);
}

function gatherNow() {
  clearTimeout(gathering);
  gathering = null;
  gatherSoon(0);
}

async function gatherAll() {
  try {
    if (session.key) await gather();
    if (session.key) at("status").textContent = "";
  } catch (error) {
    report(error);
  } finally {
    gathering = null;
    if (session.key && devicesToRead().length) gatherSoon();
  }
}

// Of the devices that events name, only visible and new ones are read at once.
function devicesToRead() {
  const isNew = (id) => !fleet.isPartial && !fleet.devices.has(id);
  return [...dirty.devices].filter((id) => fleet.visible.has(id) || id === fleet.chosen || isNew(id));
}

async function gather() {
  if (dirty.waiting) {
    dirty.waiting = false;
    await readWaiting();
  }
  if (dirty.directory) {
    dirty.directory = false;
    await readDirectory();
  }
  const deviceIds = devicesToRead().slice(0, MAX_DEVICES_PER_REQUEST);
  for (const id of deviceIds) dirty.devices.delete(id);
  if (deviceIds.length) await readDevices(deviceIds);
  if (deviceIds.includes(fleet.chosen) && fleet.devices.has(fleet.chosen)) await readConnection();
  if (fleet.chosen && !fleet.devices.has(fleet.chosen)) choose(null, fleet.chosen);
  showAll();
  if (!dirty.changes || performance.now() < pausedUntil) return;
  dirty.changes = false;
  dirty.devices.clear();
  const began = performance.now();
  await readChanges();
  pausedUntil = performance.now() + PAUSE_FACTOR * (performance.now() - began);
  showAll();
}

function showAll() {
  showFleet();
  showDevice();
  if (!mustScroll || !fleet.object) return;
  mustScroll = false;
  at("resources-card").scrollIntoView({ block: "start" });
}

// Writes of other applications cause no event for this key, so everything is read again from time to time.
function keepRefreshing(signal) {
  let count = 0;
  const refresh = () => {
    if (document.hidden) return;
    count += 1;
    for (const deviceId of fleet.visible) dirty.devices.add(deviceId);
    if (fleet.chosen) dirty.devices.add(fleet.chosen);
    dirty.changes = dirty.waiting = true;
    dirty.directory ||= count % DIRECTORY_EACH === 0;
    gatherSoon();
  };
  const timer = setInterval(refresh, CHANGES_MILLISECONDS);
  signal.addEventListener("abort", () => clearInterval(timer));
  document.addEventListener("visibilitychange", refresh, { signal });
}

// Waiting requests

async function readWaiting() {
  try {
    const page = await get("v2/device-requests", { limit: WAITING_ROWS });
    const none = page.data.length ? "" : "This key has no waiting requests.";
    at("waiting-note").textContent = page.has_more ? `The oldest ${WAITING_ROWS} of the waiting requests.` : none;
    at("waiting-table").hidden = !page.data.length;
    show(at("waiting"), page.data.map(waitingRow));
  } catch (error) {
    if (!(error instanceof RequestError) || error.code !== 403) throw error;
    at("waiting-note").textContent = error.message;
  }
}

function submitted() {
  dirty.waiting = true;
  if (fleet.chosen) dirty.devices.add(fleet.chosen);
  gatherSoon();
}

function waitingRow(request) {
  const row = element(
    "tr",
    {},
    element("td", {}, instant(request.placed_at)),
    element("td", {}, nameOf(request.device_id)),
    element(
      "td",
      { title: request.async_response_id },
      `${OPERATIONS[request.method]} ${labelOf(request.uri)} `,
      element("span", { className: "quiet" }, request.uri),
      block("sub", request.state === "with_device" ? "the device has it" : "waits for the device", ", until ", instant(request.expires_at)),
    ),
  );
  row.dataset.key = request.async_response_id;
  return row;
}

// Events

const pendingEvents = [];

async function follow(signal) {
  const setText = (text, className = "") => {
    at("stream").className = className;
    at("stream").textContent = text;
  };
  const opened = () => {
    setText("Live: new events appear here.");
    at("status").textContent = "";
    dirty.changes = dirty.directory = dirty.waiting = true;
    gatherSoon();
  };
  const closed = (seconds) => setText(`The server does not respond; trying again in ${seconds} s.`, "failure");
  try {
    for await (const event of readEvents("v2/notification/events", { key: session.key, signal, opened, closed })) noteEvent(event);
  } catch (error) {
    if (signal.aborted) return;
    setText(error.message, "failure");
    report(error);
  }
}

function noteEvent(event) {
  const data = JSON.parse(event.data);
  // A gap names no device, nor does a response in the log of an older version: it may concern the chosen device.
  const deviceId = data.ep ?? fleet.chosen;
  if (deviceId) dirty.devices.add(deviceId);
  if (event.name === "async-responses") noteResponse(data);
  if (event.name === "gap") {
    noteLostResponses();
    dirty.directory = true;
  }
  dirty.waiting ||= event.name === "async-responses" || event.name === "gap";
  noteEntry(event.name, data);
  gatherSoon();
  if (pendingEvents.push([event, data]) === 1) requestAnimationFrame(showEvents);
  if (pendingEvents.length > TAIL_ROWS) pendingEvents.shift();
}

// Rows are made once per frame, and only for events that stay in the list.
function showEvents() {
  const tail = at("tail");
  tail.prepend(...pendingEvents.splice(0).reverse().map(([event, data]) => eventRow(event, data)));
  while (tail.rows.length > TAIL_ROWS) tail.lastElementChild.remove();
}

function eventRow(event, data) {
  return element(
    "tr",
    { className: event.name === "gap" ? "failure" : "" },
    // An event without a time gets none: the clock of this browser can differ from that of the service.
    element("td", {}, instant(data.timestamp), block("sub", `no. ${event.id}`)),
    element("td", {}, data.ep ? nameOf(data.ep, data["original-ep"]) : "", block("sub", event.name)),
    element("td", {}, ...details(event.name, data)),
  );
}

function details(name, data) {
  const { path } = data;
  const resource = path ? [labelOf(path), block("sub", path)] : [];
  const unit = path && visible(unitOf(path, data.ep === fleet.chosen ? (fleet.object?.resources ?? []) : []));
  const value = () => block("value", formatValue(data.payload, path, unit, data.ct));
  if (name === "notifications") return [value(), ...resource];
  if (name === "async-responses") {
    const outcome = data.error ? block("failure", `${whyOf(data.error)} (${data.status})`) : block("", `done (${data.status})`);
    return [outcome, ...(data.payload ? [value()] : []), ...resource];
  }
  if (name === "gap") return [`${data.first} to ${data.last} are missing`];
  return [];
}

// Start

function showZone() {
  at("zone").textContent = `Times are in ${zoneInWords()}.`;
}

at("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  signIn(at("key").value.trim());
});
at("sign-out").addEventListener("click", () => {
  signOut();
  at("status").className = "";
  at("status").textContent = "Signed out.";
  at("key").focus();
});
at("utc").addEventListener("change", ({ target }) => {
  showTimesIn(target.checked ? "UTC" : null);
  showZone();
  showAll();
});
at("find").addEventListener("submit", (event) => event.preventDefault());
at("find").addEventListener("input", () => {
  fleet.page = 0;
  showFleet();
  if (!fleet.isPartial) return;
  // The devices that are listed then may not have been read yet.
  fleet.revision = null;
  dirty.directory = dirty.changes = true;
  gatherSoon();
});
at("devices-table").addEventListener("click", ({ target }) => {
  const { device, sort } = target.closest("button")?.dataset ?? {};
  if (device) chooseDevice(device);
  if (sort) sortBy(sort);
});
at("resources").addEventListener("click", ({ target }) => {
  const { path } = target.closest("button")?.dataset ?? {};
  if (path) toggle(path);
});
for (const [id, step] of [["previous", -1], ["next", 1]]) {
  at(id).addEventListener("click", () => {
    fleet.page += step;
    showFleet();
  });
}
at("to-devices").addEventListener("click", () => {
  at("devices-title").scrollIntoView();
  at("devices").querySelector("[aria-current]")?.focus({ preventScroll: true });
});
addEventListener("hashchange", chooseFromAddress);
showZone();
// In the zone UTC the choice is superfluous.
if (zoneInWords() === "UTC") at("utc").parentElement.remove();

// A browser never sends the part after the #. The key is removed from the address at once.
const address = new URLSearchParams(location.hash.slice(1));
const keyInAddress = address.get("key");
if (keyInAddress) {
  address.delete("key");
  history.replaceState(null, "", `${location.pathname}${location.search}${address.size ? `#${address}` : ""}`);
}
const key = keyInAddress ?? sessionStorage.getItem(KEY);
if (key) signIn(key);
