// Making elements. Everything from outside becomes text, never markup.

import { bytesOf, declaredFor, isNumber, numberOf, textOf } from "./objects.js";
import { instancesOf } from "./tlv.js";

const LONGEST = 200;

export function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

export const block = (className, ...children) => element("div", { className }, ...children);

// Shows these elements, each with a key in its data: what is there already and looks the same stays as it is, with its
// focus and what was typed into it, for lists are shown anew at any moment.
export function show(parent, children) {
  const focused = parent.contains(document.activeElement) ? document.activeElement : null;
  const looks = focused && looksOf(focused);
  const before = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  const wanted = children.map((child) => {
    const old = before.get(child.dataset.key);
    return old?.isEqualNode(child) ? old : child;
  });
  const staying = new Set(wanted);
  for (const child of [...parent.children]) if (!staying.has(child)) child.remove();
  let place = parent.firstElementChild;
  for (const child of wanted) {
    if (child === place) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
  }
  if (focused === null || focused === document.activeElement) return;
  [...parent.querySelectorAll("*")].find((each) => looksOf(each) === looks)?.focus({ preventScroll: true });
}

function looksOf({ tagName, title, textContent }) {
  return [tagName, title, textContent].join("\n");
}

const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu;
const SHORTEST_ID = 8;

// A text with what cannot be seen as an escape; one in another Unicode form than NFC with its combining characters so.
export function visible(text) {
  const escaped = text.replace(UNSEEN, escape);
  return text === text.normalize("NFC") ? escaped : escaped.replace(/\p{Mn}/gu, escape);
}

function escape(character) {
  const code = character.codePointAt(0);
  if (code < 0x100) return `\\x${code.toString(16).padStart(2, "0")}`;
  return code < 0x10000 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
}

// What devices are called, by id: names that are equal but for case or Unicode form with the beginning of the id, as
// much of it as tells them apart. The same rule as that of the notebooks and of the mirror command.
export function shownNames(devices) {
  const alike = new Map();
  for (const { id, endpoint_name } of devices) {
    const look = looksLike(endpoint_name);
    if (!alike.has(look)) alike.set(look, []);
    alike.get(look).push({ id, name: endpoint_name });
  }
  const shown = new Map();
  for (const twins of alike.values()) {
    const length = twins.length > 1 ? tellingLength(twins.map(({ id }) => id)) : 0;
    for (const { id, name } of twins) shown.set(id, length ? `${visible(name)} (${visible(id.slice(0, length))})` : visible(name));
  }
  return shown;
}

function looksLike(name) {
  // Upper case first, for a letter that becomes two of them.
  return name.normalize("NFKC").toUpperCase().toLowerCase().normalize("NFKC").replace(UNSEEN, "");
}

function tellingLength(ids) {
  const longest = Math.max(...ids.map((id) => id.length));
  let length = SHORTEST_ID;
  while (length < longest && new Set(ids.map((id) => id.slice(0, length))).size < ids.length) length += 1;
  return length;
}

// The zone in which moments are shown; null is the visitor's own.
let zone = null;

export function showTimesIn(name) {
  zone = name;
  for (const each of document.querySelectorAll("time")) each.textContent = clockTime(new Date(each.dateTime));
}

export function zoneInWords() {
  if (zone === "UTC") return "UTC";
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  const minutes = -new Date().getTimezoneOffset();
  const offset = `${minutes < 0 ? "-" : "+"}${two(Math.trunc(Math.abs(minutes) / 60))}:${two(Math.abs(minutes) % 60)}`;
  return timeZone === "UTC" ? "UTC" : `${timeZone} (UTC${offset})`;
}

const two = (number) => String(number).padStart(2, "0");

// The time of day, with its date where that is not today's.
function clockTime(date) {
  const isInUtc = zone === "UTC";
  const part = (name) => date[`get${isInUtc ? "UTC" : ""}${name}`]();
  const day = (moment) => (isInUtc ? moment.toISOString().slice(0, 10) : moment.toDateString());
  const time = [part("Hours"), part("Minutes"), part("Seconds")].map(two).join(":");
  if (day(date) === day(new Date())) return time;
  return `${part("FullYear")}-${two(part("Month") + 1)}-${two(part("Date"))} ${time}`;
}

// A moment in the zone that is chosen, in UTC when pointed at.
export function instant(moment) {
  if (moment === undefined || moment === null) return "";
  const date = new Date(moment);
  if (Number.isNaN(date.getTime())) return String(moment);
  return element("time", { dateTime: date.toISOString(), title: date.toISOString() }, clockTime(date));
}

// A payload: as text where it is one that can be shown, by instance where there are several, else its bytes.
export function shownValue(base64, path = "", unit = "", contentType = "") {
  if (base64 === undefined) return element("span", { className: "quiet" }, "–");
  const instances = instancesOf(base64, path, contentType);
  if (instances !== null) {
    const values = instances.map(([id, value]) => `${id}: ${visible(value)}`).join(", ");
    const named = unit && isNumber(declaredFor(path)) ? [element("span", { className: "unit" }, ` ${unit}`)] : [];
    return element("span", {}, shortened(`{${values}}`), ...named);
  }
  const text = textOf(base64);
  if (text === "") return element("span", { className: "quiet" }, "empty");
  if (text === null) {
    const bytes = bytesOf(base64);
    const pairs = Array.from(bytes.subarray(0, LONGEST), (byte) => byte.toString(16).padStart(2, "0"));
    return element("code", { title: `${bytes.length} bytes` }, shortened(pairs.join(" ")));
  }
  const type = declaredFor(path)?.type;
  if (type === "boolean" && /^[01]$/.test(text)) return element("span", {}, text === "1" ? "true" : "false");
  if (type === "time" && /^\d{1,12}$/.test(text)) return element("span", {}, instant(Number(text) * 1000));
  const shown = element("span", {}, shortened(text));
  if (unit && numberOf(base64, path) !== null) shown.append(element("span", { className: "unit" }, ` ${unit}`));
  return shown;
}

function shortened(text) {
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}
