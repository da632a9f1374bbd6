// The fleet: reads the devices of the directory and the mirror, and filters and sorts them here.

import { callApi, get, readLines, RequestError } from "./interface.js";
import { markOf } from "./resource.js";
import { block, element, instant, show, displayNames, visible } from "./show.js";

const ROWS = 50;
const MAX_DEVICES_PER_REQUEST = 1000;
const MAX_DEVICES = 20_000;
const NDJSON = "application/x-ndjson";
const MARKS = [
  ["failure", "failed"], ["drift", "differ"], ["pending", "pending"], ["unconfirmed", "unconfirmed"],
  ["unreported", "never reported"],
];
const byName = new Intl.Collator(undefined, { numeric: true });

const at = (id) => document.getElementById(id);

export const fleet = {};
clearFleet();

export function clearFleet() {
  Object.assign(fleet, {
    devices: new Map(), marks: new Map(), names: new Map(), total: 0, revision: null, isPartial: false,
    object: null, connection: null, chosen: null, missing: null, visible: new Set(), page: 0, sort: "name", isDescending: false,
  });
}

// The name of a device; the endpoint name or the id of one that is not listed.
export function nameOf(deviceId, endpointName = deviceId) {
  return fleet.names.get(deviceId) ?? visible(endpointName);
}

// Reading

export async function readDirectory() {
  const found = new Map();
  let page = null;
  do {
    const after = page ? { after: page.data.at(-1).id } : {};
    page = await get("v3/devices", { limit: MAX_DEVICES_PER_REQUEST, include: "total_count", ...serverFilters(), ...after });
    for (const device of page.data) found.set(device.id, device);
  } while (page.has_more && found.size < MAX_DEVICES);
  // The chosen device stays, even if a filter excludes it.
  const chosen = fleet.devices.get(fleet.chosen);
  if (chosen && !found.has(chosen.id)) found.set(chosen.id, chosen);
  Object.assign(fleet, { devices: found, total: page.total_count, isPartial: fleet.isPartial || page.has_more });
  nameDevices();
}

// Read these devices again from the directory and the mirror.
export async function readDevices(deviceIds) {
  const query = { id__in: deviceIds.join(",") };
  const page = await get("v3/devices", { ...query, limit: MAX_DEVICES_PER_REQUEST });
  const isNew = page.data.some(({ id, endpoint_name }) => fleet.devices.get(id)?.endpoint_name !== endpoint_name);
  // A device that is missing in the response was erased.
  for (const id of deviceIds) fleet.devices.delete(id);
  for (const device of page.data) fleet.devices.set(device.id, device);
  if (isNew) nameDevices();
  await readObjects(query);
}

// Read the changes of all devices since the last call.
export async function readChanges() {
  const { revision } = fleet;
  const since = revision === null ? {} : { changed_after: revision };
  const last = fleet.isPartial ? { id__lte: [...fleet.devices.keys()].sort().at(-1) } : {};
  fleet.revision = null;
  try {
    fleet.revision = await readObjects({ ...since, ...serverFilters(), ...last });
  } catch (error) {
    // A reset mirror never had this revision: the next call reads everything.
    const isBeyond = revision !== null && error instanceof RequestError && error.code === 400;
    if (!isBeyond) throw error;
  }
}

async function readObjects(query) {
  const response = await callApi("GET", "v3/device-echo", { query, accept: NDJSON });
  let revision = null;
  for await (const line of readLines(response)) {
    if (line.object === "snapshot-end") revision = line.revision;
    if (line.object === "device-echo") noteObject(line);
  }
  // A response without its end was cut off, for example by a server that stops.
  if (revision === null) throw new TypeError("the snapshot has no end");
  return revision;
}

// Read the connection of the chosen device.
export async function readConnection() {
  const { chosen } = fleet;
  const connection = await get(`v3/devices/${encodeURIComponent(chosen)}/connection`);
  if (chosen === fleet.chosen) fleet.connection = connection;
}

function noteObject(object) {
  const counts = {};
  for (const resource of object.resources) {
    const mark = markOf(resource);
    counts[mark] = (counts[mark] ?? 0) + 1;
  }
  fleet.marks.set(object.device_id, counts);
  // Two responses may arrive out of order.
  const isNewest = !fleet.object || fleet.object.created_at <= object.created_at;
  if (object.device_id === fleet.chosen && isNewest) fleet.object = object;
}

function nameDevices() {
  fleet.names = displayNames([...fleet.devices.values()]);
  const types = [...new Set([...fleet.devices.values()].map((device) => device.endpoint_type))].sort(byName.compare);
  const chosen = at("type").value;
  const options = ["", ...new Set([...types, chosen].filter(Boolean))].map((type) => {
    const option = element("option", { value: type }, type ? visible(type) : "all types");
    option.dataset.key = type;
    return option;
  });
  show(at("type"), options);
  at("type").value = chosen;
}

// If the fleet is too large to be read completely, the service applies the filters.
function serverFilters() {
  if (!fleet.isPartial) return {};
  const { name, type, state } = filters();
  return {
    ...(name && { endpoint_name__gte: name, endpoint_name__lte: `${name}\u{10ffff}` }),
    ...(type && { endpoint_type: type }),
    ...(state && { state }),
  };
}

function filters() {
  return { name: at("name").value, type: at("type").value, state: at("state").value };
}

// Showing

export function showFleet() {
  const found = sorted(filtered());
  fleet.page = Math.max(0, Math.min(fleet.page, Math.ceil(found.length / ROWS) - 1));
  const first = fleet.page * ROWS;
  const rows = found.slice(first, first + ROWS);
  fleet.visible = new Set(rows.map((device) => device.id));
  show(at("devices"), rows.map(deviceRow));
  at("shown").textContent = rows.length ? `${first + 1} to ${first + rows.length} of ${found.length}` : noneInWords();
  at("previous").disabled = first === 0;
  at("next").disabled = first + ROWS >= found.length;
  at("part").hidden = !fleet.isPartial;
  at("part").textContent = `Of ${fleet.total} devices the first ${MAX_DEVICES} are listed;`
    + " the beginning of a name, a type or a state finds others.";
  for (const head of document.querySelectorAll("#devices-table th")) {
    const { sort } = head.querySelector("button").dataset;
    if (sort === fleet.sort) head.ariaSort = fleet.isDescending ? "descending" : "ascending";
    else head.removeAttribute("aria-sort");
  }
}

function noneInWords() {
  return fleet.devices.size ? "No device matches the filters." : "No device. Devices appear here when they register.";
}

function filtered() {
  const { name, type, state } = filters();
  const part = name.toLowerCase();
  return [...fleet.devices.values()].filter(
    (device) => (!type || device.endpoint_type === type) && (!state || device.state === state)
      && (!part || device.endpoint_name.toLowerCase().includes(part)),
  );
}

function sorted(devices) {
  const comparators = {
    name: (one, other) => byName.compare(nameOf(one.id), nameOf(other.id)),
    contact: (one, other) => Date.parse(one.last_contact_at) - Date.parse(other.last_contact_at),
    drift: (one, other) => driftOf(one) - driftOf(other),
  };
  const sign = fleet.isDescending ? -1 : 1;
  return devices.sort((one, other) => sign * comparators[fleet.sort](one, other) || comparators.name(one, other));
}

// Values that differ for good count before values that may still agree.
function driftOf(device) {
  const { failure = 0, drift = 0, pending = 0, unconfirmed = 0, unreported = 0 } = fleet.marks.get(device.id) ?? {};
  return (failure + drift) * 1e6 + pending * 1e3 + unconfirmed + unreported * 1e-3;
}

export function sortBy(column) {
  // By time and by drift, the greatest comes first.
  fleet.isDescending = fleet.sort === column ? !fleet.isDescending : column !== "name";
  Object.assign(fleet, { sort: column, page: 0 });
  showFleet();
}

function deviceRow(device) {
  const isChosen = device.id === fleet.chosen;
  const name = element("button", { type: "button", title: device.id, className: "name" }, nameOf(device.id));
  name.dataset.device = device.id;
  if (isChosen) name.setAttribute("aria-current", "true");
  const row = element(
    "tr",
    { className: isChosen ? "chosen" : "" },
    element("td", {}, name, block("sub", ...typeAndState(device))),
    element("td", {}, instant(device.last_contact_at)),
    element("td", {}, ...marksInWords(fleet.marks.get(device.id))),
  );
  row.dataset.key = device.id;
  return row;
}

export function typeAndState({ endpoint_type: type, state, queue_mode: sleeps }) {
  const stateWord = element("span", { className: state === "registered" ? "" : "pending" }, state);
  return [type ? `${visible(type)} · ` : "", stateWord, sleeps ? " · sleeps" : ""];
}

function marksInWords(counts) {
  if (!counts) return [element("span", { className: "quiet" }, "…")];
  const words = MARKS.filter(([mark]) => counts[mark]).map(([mark, word]) => block(mark, `${counts[mark]} ${word}`));
  if (words.length === 0 && counts.success) return [element("span", { className: "success" }, "agree")];
  return words;
}
