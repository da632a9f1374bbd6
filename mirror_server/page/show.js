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
