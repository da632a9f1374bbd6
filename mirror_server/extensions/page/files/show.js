// Making elements. Everything from outside becomes text, never markup.

import { SIGNIFICANT_DIGITS, bytesOf, declaredFor, isNumber, numberOf, numberText, textOf } from "./objects.js";
import { instancesOf } from "./tlv.js";

const LONGEST = 200;

export function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

export const block = (className, ...children) => element("div", { className }, ...children);

// Display these elements, each with a key in its data. An existing equal element stays, with its focus and typed text,
// because lists are updated at any moment.
export function show(parent, children) {
  const focused = parent.contains(document.activeElement) ? document.activeElement : null;
  const appearance = focused && appearanceOf(focused);
  const existing = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  const arranged = children.map((child) => {
    const old = existing.get(child.dataset.key);
    return old?.isEqualNode(child) ? old : child;
  });
  const staying = new Set(arranged);
  for (const child of [...parent.children]) if (!staying.has(child)) child.remove();
  let position = parent.firstElementChild;
  for (const child of arranged) {
    if (child === position) position = position.nextElementSibling;
    else parent.insertBefore(child, position);
  }
  if (focused === null || focused === document.activeElement) return;
  [...parent.querySelectorAll("*")].find((each) => appearanceOf(each) === appearance)?.focus({ preventScroll: true });
}

function appearanceOf({ tagName, title, textContent }) {
  return [tagName, title, textContent].join("\n");
}

const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu;
const SHORTEST_ID = 8;

// A text with invisible characters as escapes. If it is not in the Unicode form NFC, combining characters are escaped too.
export function visible(text) {
  const escaped = text.replace(INVISIBLE, escape);
  return text === text.normalize("NFC") ? escaped : escaped.replace(/\p{Mn}/gu, escape);
}

function escape(character) {
  const code = character.codePointAt(0);
  if (code < 0x100) return `\\x${code.toString(16).padStart(2, "0")}`;
  return code < 0x10000 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
}

// The names of devices by id. If names differ only by case or Unicode form, the beginning of the id is added, as much of
// it as is needed. The same rule as in the notebooks and the mirror command.
export function displayNames(devices) {
  const alike = new Map();
  for (const { id, endpoint_name } of devices) {
    const folded = foldedName(endpoint_name);
    if (!alike.has(folded)) alike.set(folded, []);
    alike.get(folded).push({ id, name: endpoint_name });
  }
  const names = new Map();
  for (const twins of alike.values()) {
    const length = twins.length > 1 ? distinguishingLength(twins.map(({ id }) => id)) : 0;
    for (const { id, name } of twins) names.set(id, length ? `${visible(name)} (${visible(id.slice(0, length))})` : visible(name));
  }
  return names;
}

function foldedName(name) {
  // Upper case first, for a letter that becomes two of them.
  return name.normalize("NFKC").toUpperCase().toLowerCase().normalize("NFKC").replace(INVISIBLE, "");
}

function distinguishingLength(ids) {
  const longest = Math.max(...ids.map((id) => id.length));
  let length = SHORTEST_ID;
  while (length < longest && new Set(ids.map((id) => id.slice(0, length))).size < ids.length) length += 1;
  return length;
}

// The time zone of displayed times; null is the visitor's own.
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

// The time of day, with the date unless it is today.
function clockTime(date) {
  const isInUtc = zone === "UTC";
  const part = (name) => date[`get${isInUtc ? "UTC" : ""}${name}`]();
  const day = (moment) => (isInUtc ? moment.toISOString().slice(0, 10) : moment.toDateString());
  const time = [part("Hours"), part("Minutes"), part("Seconds")].map(two).join(":");
  if (day(date) === day(new Date())) return time;
  return `${part("FullYear")}-${two(part("Month") + 1)}-${two(part("Date"))} ${time}`;
}

// A time in the chosen zone; its tooltip is in UTC.
export function instant(moment) {
  if (moment === undefined || moment === null) return "";
  const date = new Date(moment);
  if (Number.isNaN(date.getTime())) return String(moment);
  return element("time", { dateTime: date.toISOString(), title: date.toISOString().replace(".000Z", "Z") }, clockTime(date));
}

// A payload: as text if possible, by instance if there are several, else as bytes.
export function formatValue(base64, path = "", unit = "", contentType = "") {
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
  const number = numberOf(base64, path);
  if (number === null) return element("span", {}, shortened(text));
  const hasRoundingErrors = text.includes(".") && text.replace(/\D/g, "").length > SIGNIFICANT_DIGITS;
  const made = element("span", {}, shortened(hasRoundingErrors ? numberText(number) : text));
  if (unit) made.append(element("span", { className: "unit" }, ` ${unit}`));
  return made;
}

function shortened(text) {
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}
