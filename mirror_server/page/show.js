// Making elements. Everything from outside becomes text, never markup.

const LONGEST = 200;

export function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

// The focus stays with what looks the same: lists are shown anew at any moment.
export function fill(parent, ...children) {
  const focused = parent.contains(document.activeElement) ? looksOf(document.activeElement) : null;
  parent.replaceChildren(...children);
  if (focused === null) return;
  [...parent.querySelectorAll("*")].find((each) => looksOf(each) === focused)?.focus({ preventScroll: true });
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
    alike.set(look, [...(alike.get(look) ?? []), { id, name: endpoint_name }]);
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

// A moment in the visitor's time zone, in UTC when pointed at.
export function instant(moment) {
  if (moment === undefined || moment === null) return "";
  const date = new Date(moment);
  if (Number.isNaN(date.getTime())) return String(moment);
  const isToday = date.toDateString() === new Date().toDateString();
  const shown = isToday ? date.toLocaleTimeString() : date.toLocaleString(undefined, { dateStyle: "short", timeStyle: "medium" });
  return element("time", { dateTime: date.toISOString(), title: date.toISOString() }, shown);
}

// A payload: as text where it is one that can be shown, else its bytes.
export function shownValue(base64) {
  if (base64 === undefined) return element("span", { className: "quiet" }, "–");
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const text = readText(bytes);
  const whole = text ?? Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join(" ");
  const shown = whole.length > LONGEST ? `${whole.slice(0, LONGEST)}…` : whole;
  const made = element(text === null ? "code" : "span", {}, shown);
  if (text === null) made.title = `${bytes.length} bytes`;
  if (text === "") made.append(element("span", { className: "quiet" }, "empty"));
  return made;
}

function readText(bytes) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return /[\p{Cc}\p{Cf}\p{Co}\p{Cn}]/u.test(text) ? null : text;
  } catch {
    return null;
  }
}
