// One device: its resources, and the panel of the opened resource, with its operations.

import { fleet, nameOf, typeAndState } from "./fleet.js";
import { callApi, RequestError } from "./interface.js";
import { declaredFor, isNumber, labelOf, unitOf } from "./objects.js";
import { submit, requestInWords, requestsOf } from "./requests.js";
import { findingOf, isReportedSince, markOf, whyOf } from "./resource.js";
import { block, element, instant, show, formatValue, visible } from "./show.js";
import { expected, readTyped } from "./typed.js";
import { followDevice, noteValue, Plot, readHistory, valuesOf } from "./values.js";

const WORDS = {
  none: "", pending: "pending", success: "success", failure: "failure",
  drift: "success, but differs", unconfirmed: "success, unconfirmed", unreported: "success, never reported",
  acknowledged: "failure, acknowledged",
};
const WHY = {
  failure: (desiredValue, last, { desired }) => ["The write of ", desiredValue, ` failed: ${whyOf(desired.category)}.`],
  acknowledged: (desiredValue, last, { desired }) => [
    "The write of ", desiredValue, ` failed: ${whyOf(desired.category)}. ${visible(desired.acknowledged_by)} acknowledged it `,
    instant(desired.acknowledged_at), ".",
  ],
  drift: (desiredValue, last) => [
    "The device accepted ", desiredValue, " and has reported ", last, " since: the value was changed at the device, or not stored.",
  ],
  unconfirmed: (desiredValue, last, { reported, desired }) => {
    const older = isReportedSince(reported, desired) === null ? "may be older" : "is older";
    return ["The device accepted ", desiredValue, "; the last report, ", last, `, ${older}. A read confirms it.`];
  },
  unreported: (desiredValue, last, { resource_path: path }) => [
    "The device accepted ", desiredValue, ` and has never reported a value here.${mayBe("R", path) ? " A read confirms it." : ""}`,
  ],
};
const SUBSCRIBED = {
  active: "This key is subscribed: it gets each change.",
  asked: "The subscription waits for the device to accept it.",
  refused: "The device rejected the subscription.",
  other: "Another application is subscribed: the mirror has each change, but this key is not notified.",
};
const CARRIERS = { coap: "CoAP", coaps: "CoAP with DTLS" };
const REREAD_MILLISECONDS = 1000;
const at = (id) => document.getElementById(id);
const mayBe = (operation, path) => declaredFor(path)?.access.includes(operation) ?? true;
const chosenDevice = () => fleet.devices.get(fleet.chosen);

// The opened resource: its path, its row with its controls, and the state of the subscription.
let panel = null;
let scopes = new Set();
let [report, submitted] = [() => {}, () => {}];

// Set the scopes of the key, and the callbacks for errors and for submitted requests.
export function useDevice(keyScopes, callbacks) {
  scopes = new Set(keyScopes);
  ({ report, submitted } = callbacks);
}

export function choose(deviceId, missing = null) {
  Object.assign(fleet, { chosen: deviceId, object: null, connection: null, missing });
  panel = null;
  followDevice(deviceId);
  showDevice();
}

export function showDevice() {
  const device = chosenDevice();
  const { object } = fleet;
  at("resources-table").hidden = !object;
  showConnection(object && fleet.connection);
  if (!object) {
    fillDevice(noneInWords());
    show(at("resources"), []);
    return;
  }
  const { device_id: deviceId, resources } = object;
  const kind = device ? typeAndState(device) : [];
  fillDevice(element("b", {}, nameOf(deviceId)), ", ", ...kind, ", id ", element("code", {}, deviceId));
  for (const { resource_path: path, reported } of resources) noteValue(deviceId, path, reported.reported_at, reported.value);
  const rowsOf = (resource) => {
    const unit = visible(unitOf(resource.resource_path, resources));
    const rows = [resourceRow(resource, unit), ...whyRow(resource, unit)];
    return panel?.path === resource.resource_path ? [...rows, panel.row] : rows;
  };
  show(at("resources"), resources.flatMap(rowsOf));
  refreshPanel();
}

function showConnection(connection) {
  at("connection").hidden = !connection;
  if (!connection) return;
  const { binding, reachable, lifetime_seconds: lifetime, last_contact_at: lastContact, address } = connection;
  const parts = [
    protocolsInWords(connection), binding && `binding ${visible(binding)}`, reachable ? "reachable" : "not reachable now",
    `lifetime ${lifetime} s`, address && `from ${visible(address)}`,
  ];
  at("connection").replaceChildren(parts.filter(Boolean).join(" · "), " · last contact ", instant(lastContact));
}

function protocolsInWords({ protocol, lwm2m_version: version }) {
  if (!(protocol in CARRIERS)) return visible(protocol ?? "");
  return `LwM2M ${version ? `${visible(version)} ` : ""}over ${CARRIERS[protocol]}`;
}

function noneInWords() {
  if (fleet.missing) return `There is no device with the id ${visible(fleet.missing)}.`;
  return fleet.chosen ? `Reading ${nameOf(fleet.chosen)} …` : "Choose a device to see its resources.";
}

function fillDevice(...content) {
  at("device").replaceChildren(...content);
}

const formatPart = (part, path, unit) => formatValue(part.value, path, unit, part.content_type);

function resourceRow(resource, unit) {
  const { reported, desired, resource_path: path, subscribed } = resource;
  const mark = markOf(resource);
  const name = element("button", { type: "button", className: "name", title: path }, labelOf(path) || path);
  name.dataset.path = path;
  name.ariaExpanded = String(panel?.path === path);
  const row = element(
    "tr",
    { className: panel?.path === path ? "chosen" : "" },
    element("td", {}, name, block("sub", path, subscribed ? " · subscribed" : "")),
    element("td", {}, block("value", formatPart(reported, path, unit)), block("sub", instant(reported.reported_at))),
    element(
      "td", {}, block("value", formatPart(desired, path, unit)), block(mark, WORDS[mark]), block("sub", instant(desired.desired_at)),
    ),
  );
  row.dataset.key = path;
  return row;
}

// The reason why a write did not lead to the desired value, in a row of its own.
function whyRow(resource, unit) {
  const { desired, reported, resource_path: path } = resource;
  const mark = markOf(resource);
  if (!(mark in WHY)) return [];
  const [desiredValue, last] = [formatPart(desired, path, unit), formatPart(reported, path, unit)];
  const words = element("td", { colSpan: 3, className: mark }, ...WHY[mark](desiredValue, last, resource));
  const row = element("tr", { className: panel?.path === path ? "why chosen" : "why" }, words);
  row.dataset.key = `${path} why`;
  return [row];
}

// The panel of a resource

export function toggle(path) {
  panel = panel?.path === path ? null : makePanel(path);
  showDevice();
  if (!panel) return;
  readSubscription();
  if (isNumber(declaredFor(path)) || !declaredFor(path)) readHistory().then(showDevice).catch(report);
}

function makePanel(path) {
  const row = at("panel").content.firstElementChild.cloneNode(true);
  row.dataset.key = `${path} panel`;
  const parts = Object.fromEntries([...row.querySelectorAll("[data-part]")].map((part) => [part.dataset.part, part]));
  const plot = new Plot(parts.plot, parts.caption);
  const opened = { path, row, parts, plot, subscription: null, wasSubscribed: null, readAt: 0, problem: "", isTried: false };
  prepareField(opened);
  parts.read.addEventListener("click", () => send(opened, "GET"));
  parts.subscribe.addEventListener("click", () => changeSubscription(opened));
  parts.acknowledge.addEventListener("click", () => acknowledge(opened));
  parts.execute.addEventListener("click", () => { parts.sure.hidden = !parts.sure.hidden; });
  parts.sure.addEventListener("submit", (event) => {
    event.preventDefault();
    parts.sure.hidden = true;
    send(opened, "POST", parts.argument.value === "" ? {} : readTyped(parts.argument.value, ""));
  });
  parts.write.addEventListener("submit", (event) => {
    event.preventDefault();
    write(opened);
  });
  return opened;
}

// Prepare the field for a new value: a choice for a boolean, else a text field.
function prepareField({ path, parts }) {
  const declared = declaredFor(path);
  const may = (operation) => mayBe(operation, path);
  parts.read.hidden = parts.subscribe.hidden = !may("R");
  parts.execute.hidden = !may("E");
  parts.write.hidden = !may("W");
  if (declared?.type === "boolean") {
    const choices = ["", "true", "false"].map((word) => element("option", { value: word }, word || "choose"));
    const select = element("select", { id: "typed" }, ...choices);
    select.dataset.part = "typed";
    parts.typed.replaceWith(select);
    parts.typed = select;
  }
  if (isNumber(declared)) parts.typed.inputMode = "decimal";
  parts.typed.addEventListener("input", () => refreshPanel());
}

function refreshPanel() {
  const resource = openedResource();
  if (!resource) return;
  const { path, parts, plot } = panel;
  const { resources } = fleet.object;
  const unit = visible(unitOf(path, resources));
  const values = valuesOf(path);
  parts.figure.hidden = values.length < 2;
  plot.show(values, unit, labelOf(path) || path);
  refreshSubscription(resource);
  parts.acknowledge.hidden = markOf(resource) !== "failure";
  const declared = declaredFor(path);
  const expectation = declared && declared.type !== "string" ? `: ${expected(declared)}` : "";
  parts.field.textContent = `New value${expectation}${unit && `, in ${unit}`}`;
  const finding = findingNow(resource);
  parts.finding.textContent = finding?.words ?? "";
  parts.finding.className = finding?.decision === "reject" ? "failure" : "quiet";
  parts.send.textContent = finding?.decision === "offline" ? "Write anyway" : "Write";
  show(parts.responses, requestsOf(fleet.chosen, path).slice(0, 5).map(requestInWords));
  parts.read.disabled = !scopes.has("read");
  for (const control of [parts.typed, parts.send, parts.execute, parts.acknowledge]) control.disabled = !scopes.has("write");
  parts.subscribe.disabled = !scopes.has("subscribe");
  parts.lacking.textContent = lackingInWords(parts);
}

function openedResource() {
  return panel && fleet.object?.resources.find((each) => each.resource_path === panel.path);
}

function lackingInWords({ write, execute, read, subscribe }) {
  const needs = [["read", !read.hidden], ["write", !write.hidden || !execute.hidden], ["subscribe", !subscribe.hidden]];
  const lacking = needs.filter(([scope, isNeeded]) => isNeeded && !scopes.has(scope)).map(([scope]) => scope);
  return lacking.length ? `This key lacks the scope ${lacking.join(" and ")}, so some of these actions are disabled.` : "";
}

// Requests to the device

function findingNow(resource) {
  const { parts, path } = panel;
  if (parts.typed.value === "" && !panel.isTried) return null;
  return findingOf(readTyped(parts.typed.value, path), resource, chosenDevice());
}

function write(opened) {
  opened.isTried = true;
  const finding = findingNow(openedResource());
  refreshPanel();
  if (finding.decision === "reject" || finding.decision === "skip") return;
  send(opened, "PUT", readTyped(opened.parts.typed.value, opened.path));
  opened.parts.typed.value = "";
  opened.isTried = false;
  refreshPanel();
}

async function send({ path }, method, value = {}) {
  const unit = visible(unitOf(path, fleet.object.resources));
  const request = submit(method, chosenDevice(), path, { ...value, unit });
  refreshPanel();
  await request.then(submitted, report);
  refreshPanel();
}

// Acknowledge the displayed failed write. The server rejects this if another write has failed since.
async function acknowledge({ path }) {
  const { revision } = openedResource().desired;
  const route = `v3/devices/${encodeURIComponent(fleet.chosen)}/echo/acknowledgements`;
  await callApi("POST", route, { body: { resource_path: path, revision } }).then(submitted, report);
}

// Subscriptions

function subscriptionPath({ path }) {
  return `v2/subscriptions/${encodeURIComponent(fleet.chosen)}${path}`;
}

async function readSubscription() {
  const opened = panel;
  const { subscribed } = openedResource() ?? {};
  Object.assign(opened, { wasSubscribed: subscribed, readAt: performance.now() });
  if (!scopes.has("subscribe")) return;
  // If no one is subscribed and this page requested nothing, there is no subscription to read.
  if (!subscribed && !["asked", "refused"].includes(opened.subscription)) {
    opened.subscription = null;
    return;
  }
  try {
    opened.subscription = (await callApi("GET", subscriptionPath(opened))).headers.get("Mirror-Subscription");
  } catch (error) {
    if (!(error instanceof RequestError) || error.code !== 404) return report(error);
    opened.subscription = subscribed ? "other" : null;
  }
  refreshPanel();
}

function refreshSubscription({ subscribed }) {
  const { parts, subscription, problem } = panel;
  const isOwn = ["active", "asked", "refused"].includes(subscription);
  parts.subscribe.textContent = isOwn ? "Unsubscribe" : "Subscribe";
  parts.subscription.textContent = problem || (SUBSCRIBED[subscription] ?? "");
  // A rejection by the device does not change the resource, so the state is read again.
  const isOverdue = subscription === "asked" && performance.now() - panel.readAt > REREAD_MILLISECONDS;
  if (subscribed !== panel.wasSubscribed || isOverdue) readSubscription();
}

async function changeSubscription(opened) {
  const isOwn = ["active", "asked", "refused"].includes(opened.subscription);
  opened.parts.subscribe.disabled = true;
  opened.problem = "";
  try {
    await callApi(isOwn ? "DELETE" : "PUT", subscriptionPath(opened));
    opened.subscription = isOwn ? null : "asked";
    if (panel === opened && !isOwn) await readSubscription();
  } catch (error) {
    if (!(error instanceof RequestError) || error.code === 401) report(error);
    else opened.problem = error.message;
  }
  refreshPanel();
}
