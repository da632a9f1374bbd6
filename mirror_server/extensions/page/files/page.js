// The page for people: reads the interface with the visitor's access key, shows what it says, and asks devices.

import { choose, showDevice, toggle, useDevice } from "./device.js";
import { fleet, forgetFleet, nameOf, readChanges, readConnection, readDevices, readDirectory, showFleet, sortBy } from "./fleet.js";
import { get, Refused, session, useKey } from "./interface.js";
import { labelOf, loadObjects, unitOf } from "./objects.js";
import { answered, answersAreGone, forgetRequests } from "./requests.js";
import { whyOf } from "./resource.js";
import { readEvents } from "./stream.js";
import { block, element, instant, show, showTimesIn, shownValue, visible, zoneInWords } from "./show.js";
import { noteEntry } from "./values.js";

const WAITING_ROWS = 50;
const TAIL_ROWS = 200;
const GATHER_MILLISECONDS = 300;
const CHANGES_MILLISECONDS = 15_000;
const AGAIN_MILLISECONDS = 2000;
const DIRECTORY_EACH = 4;
// What takes long because the fleet is large is not done all the time.
const REST = 10;
const DEVICES_AT_ONCE = 100;
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
  begin();
}

function begin() {
  const { signal } = session.ending;
  start().catch((error) => {
    tell(error);
    const passes = error instanceof TypeError || error.code >= 500 || error.code === 429;
    if (!passes) return;
    // For a reload meanwhile.
    sessionStorage.setItem(KEY, session.key);
    setTimeout(() => signal.aborted || begin(), AGAIN_MILLISECONDS);
  });
}

async function start() {
  const { signal } = session.ending;
  const [access] = await Promise.all([get("v3/api-keys/me"), loadObjects(), readDirectory()]);
  useDevice(access.scopes, { tell, placed });
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
  forgetFleet();
  forgetRequests();
  Object.assign(dirty, nothing());
  unshown.length = 0;
  for (const id of ["devices", "waiting", "tail"]) at(id).replaceChildren();
  choose(null);
  showSignedIn(false);
}

function showSignedIn(isSignedIn) {
  for (const each of document.querySelectorAll(".signed-in")) each.hidden = !isSignedIn;
  for (const each of document.querySelectorAll(".signed-out")) each.hidden = isSignedIn;
  at("key").value = "";
}

function tell(error) {
  if (error.name === "AbortError") return;
  const isRefused = error instanceof Refused;
  if (!isRefused && !(error instanceof TypeError)) throw error;
  if (isRefused && error.code === 401) signOut();
  at("status").className = "failure";
  at("status").textContent = isRefused ? error.message : "The server does not answer; trying again.";
}

// Choosing a device: its id stands in the address, which can be kept and handed on.

// Beside the devices it is in view; below them, on a phone, it is brought there.
let isToBeSeen = false;

function take(deviceId) {
  choose(deviceId);
  history.replaceState(null, "", `#${new URLSearchParams({ device: deviceId })}`);
  dirty.devices.add(deviceId);
  showFleet();
  gatherNow();
  isToBeSeen = NARROW.matches;
  if (isToBeSeen) at("resources-title").focus();
}

function chooseFromAddress() {
  const deviceId = new URLSearchParams(location.hash.slice(1)).get("device");
  if (!deviceId || !session.key || deviceId === fleet.chosen) return;
  if (fleet.devices.has(deviceId)) take(deviceId);
  else findDevice(deviceId).catch(tell);
}

async function findDevice(deviceId) {
  await readDevices([deviceId]);
  if (fleet.devices.has(deviceId)) take(deviceId);
  else choose(null, deviceId);
}

// What events name is read again, gathered, so that a thousand events a second are no thousand requests.

const nothing = () => ({ devices: new Set(), changes: false, directory: false, waiting: false });
const dirty = nothing();
let gathering = null;
let restUntil = 0;

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
    tell(error);
  } finally {
    gathering = null;
    if (session.key && wantedDevices().length) gatherSoon();
  }
}

// Of what events name only what can be seen is read at once, and what is new.
function wantedDevices() {
  const isNew = (id) => !fleet.isPart && !fleet.devices.has(id);
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
  const wanted = wantedDevices().slice(0, DEVICES_AT_ONCE);
  for (const id of wanted) dirty.devices.delete(id);
  if (wanted.length) await readDevices(wanted);
  if (wanted.includes(fleet.chosen) && fleet.devices.has(fleet.chosen)) await readConnection();
  if (fleet.chosen && !fleet.devices.has(fleet.chosen)) choose(null, fleet.chosen);
  showAll();
  if (!dirty.changes || performance.now() < restUntil) return;
  dirty.changes = false;
  dirty.devices.clear();
  const began = performance.now();
  await readChanges();
  restUntil = performance.now() + REST * (performance.now() - began);
  showAll();
}

function showAll() {
  showFleet();
  showDevice();
  if (!isToBeSeen || !fleet.object) return;
  isToBeSeen = false;
  at("resources-card").scrollIntoView({ block: "start" });
}

// What other applications write is told by no event of this key, so it is looked for now and then.
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
    const none = page.data.length ? "" : "None of this key's requests waits.";
    at("waiting-note").textContent = page.has_more ? `The oldest ${WAITING_ROWS} of the requests that wait.` : none;
    at("waiting-table").hidden = !page.data.length;
    show(at("waiting"), page.data.map(waitingRow));
  } catch (error) {
    if (!(error instanceof Refused) || error.code !== 403) throw error;
    at("waiting-note").textContent = error.message;
  }
}

function placed() {
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

const unshown = [];

async function follow(signal) {
  const told = (text, className = "") => {
    at("stream").className = className;
    at("stream").textContent = text;
  };
  const opened = () => {
    told("Live: what happens from now on is shown here.");
    at("status").textContent = "";
    dirty.changes = dirty.directory = dirty.waiting = true;
    gatherSoon();
  };
  const closed = (seconds) => told(`The server does not answer; trying again in ${seconds} s.`, "failure");
  try {
    for await (const event of readEvents("v2/notification/events", { key: session.key, signal, opened, closed })) took(event);
  } catch (error) {
    if (signal.aborted) return;
    told(error.message, "failure");
    tell(error);
  }
}

function took(event) {
  const data = JSON.parse(event.data);
  // A gap names no device, nor does an answer that an older version logged: it may be the one that is looked at.
  const touched = data.ep ?? fleet.chosen;
  if (touched) dirty.devices.add(touched);
  if (event.name === "async-responses") answered(data);
  if (event.name === "gap") {
    answersAreGone();
    dirty.directory = true;
  }
  dirty.waiting ||= event.name === "async-responses" || event.name === "gap";
  noteEntry(event.name, data);
  gatherSoon();
  if (unshown.push([event, data]) === 1) requestAnimationFrame(showEvents);
  if (unshown.length > TAIL_ROWS) unshown.shift();
}

// Rows are made once a frame, and only of what stays in the list.
function showEvents() {
  const tail = at("tail");
  tail.prepend(...unshown.splice(0).reverse().map(([event, data]) => eventRow(event, data)));
  while (tail.rows.length > TAIL_ROWS) tail.lastElementChild.remove();
}

function eventRow(event, data) {
  return element(
    "tr",
    { className: event.name === "gap" ? "failure" : "" },
    // Of what does not tell its time it stays open: the clock here need not be the service's.
    element("td", {}, instant(data.timestamp), block("sub", `no. ${event.id}`)),
    element("td", {}, data.ep ? nameOf(data.ep, data["original-ep"]) : "", block("sub", event.name)),
    element("td", {}, ...what(event.name, data)),
  );
}

function what(name, data) {
  const { path } = data;
  const place = path ? [labelOf(path), block("sub", path)] : [];
  const unit = path && visible(unitOf(path, data.ep === fleet.chosen ? (fleet.object?.resources ?? []) : []));
  const value = () => block("value", shownValue(data.payload, path, unit, data.ct));
  if (name === "notifications") return [value(), ...place];
  if (name === "async-responses") {
    const outcome = data.error ? block("failure", `${whyOf(data.error)} (${data.status})`) : block("", `done (${data.status})`);
    return [outcome, ...(data.payload ? [value()] : []), ...place];
  }
  if (name === "gap") return [`${data.first} to ${data.last} are gone`];
  return [];
}

// Beginning

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
  at("status").textContent = "The key is forgotten.";
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
  if (!fleet.isPart) return;
  // Of what is listed then nothing may be known yet.
  fleet.revision = null;
  dirty.directory = dirty.changes = true;
  gatherSoon();
});
at("devices-table").addEventListener("click", ({ target }) => {
  const { device, sort } = target.closest("button")?.dataset ?? {};
  if (device) take(device);
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
// Who lives by UTC need not choose it.
if (zoneInWords() === "UTC") at("utc").parentElement.remove();

// A browser never sends what stands behind the #, and the key is taken out of the address at once.
const address = new URLSearchParams(location.hash.slice(1));
const given = address.get("key");
if (given) {
  address.delete("key");
  history.replaceState(null, "", `${location.pathname}${location.search}${address.size ? `#${address}` : ""}`);
}
const key = given ?? sessionStorage.getItem(KEY);
if (key) signIn(key);
