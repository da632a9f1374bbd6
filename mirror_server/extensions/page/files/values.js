// The recent numbers of the chosen device's resources, and a plot of one resource.

import { callApi } from "./interface.js";
import { numberOf, numberText } from "./objects.js";
import { instant } from "./show.js";

const ENTRIES_BACK = 5000;
const MAX_MESSAGES = 25;
const MAX_VALUES = 1000;
const MAX_DOTS = 60;
// Beyond this limit, the difference of two numbers can overflow.
const LARGEST_DRAWN = 1e100;
const HEIGHT = 150;
const EDGE = { left: 8, right: 8, top: 22, bottom: 24 };
const series = { deviceId: null, paths: new Map(), isRead: false };

export function followDevice(deviceId) {
  Object.assign(series, { deviceId, paths: new Map(), isRead: false });
}

// Note a value that was reported or read; values of other devices are ignored.
export function noteValue(deviceId, path, moment, base64) {
  if (deviceId !== series.deviceId || path === undefined || base64 === undefined) return;
  const number = numberOf(base64, path);
  const time = new Date(moment).getTime();
  if (number === null || Math.abs(number) > LARGEST_DRAWN || Number.isNaN(time)) return;
  if (!series.paths.has(path)) series.paths.set(path, []);
  const values = series.paths.get(path);
  if (values.some((value) => value.time === time && value.number === number)) return;
  let index = values.length;
  while (index > 0 && values[index - 1].time > time) index -= 1;
  values.splice(index, 0, { time, number });
  if (values.length > MAX_VALUES) values.shift();
}

export function noteEntry(kind, entry) {
  const isValue = kind === "notifications" || (kind === "async-responses" && entry.status === 200 && entry.payload);
  if (isValue) noteValue(entry.ep, entry.path, entry.timestamp, entry.payload);
}

// Read the last entries of this key's log about the device, with a position of its own.
export async function readHistory() {
  const { deviceId } = series;
  if (series.isRead) return;
  series.isRead = true;
  const end = await readLog("latest");
  let after = Math.max(0, end.cursor - ENTRIES_BACK);
  for (let count = 0; after < end.cursor && count < MAX_MESSAGES && deviceId === series.deviceId; count += 1) {
    const { message, cursor } = await readLog(after);
    for (const [kind, entries] of Object.entries(message)) for (const entry of entries) noteEntry(kind, entry);
    after = cursor;
  }
}

async function readLog(after) {
  const response = await callApi("GET", "v2/notification/pull", { query: { after, hold: 0 } });
  const message = response.status === 200 ? await response.json() : {};
  return { message, cursor: Number(response.headers.get("Mirror-Cursor")) };
}

export function valuesOf(path) {
  return series.paths.get(path) ?? [];
}

function limitsOf(values, name) {
  const found = values.map((value) => value[name]);
  return [Math.min(...found), Math.max(...found)];
}

// A plot of numbers over time in an empty svg. Its caption shows the value at the pointer, or the one chosen by arrow keys.
export class Plot {
  constructor(svg, caption) {
    Object.assign(this, { svg, caption, values: [], unit: "", label: "", marked: null, limits: {} });
    svg.addEventListener("pointermove", (event) => this.mark(this.nearest(event)));
    svg.addEventListener("pointerleave", () => this.mark(null));
    svg.addEventListener("blur", () => this.mark(null));
    svg.addEventListener("keydown", (event) => this.walk(event));
    new ResizeObserver(() => this.draw()).observe(svg);
  }

  show(values, unit, label) {
    Object.assign(this, { values: [...values], unit, label });
    this.limits = { time: limitsOf(values, "time"), number: limitsOf(values, "number") };
    if (this.marked >= values.length) this.marked = null;
    this.draw();
  }

  draw() {
    const { svg, values } = this;
    if (!values.length) return;
    this.width = svg.clientWidth;
    svg.setAttribute("viewBox", `0 0 ${this.width || 1} ${HEIGHT}`);
    svg.setAttribute("aria-label", this.inWords());
    const line = values.map((value) => `${this.x(value)},${this.y(value)}`).join(" ");
    const [low, high] = this.limits.number;
    const dots = values.length > MAX_DOTS ? [] : values.map((value) => this.dot(value));
    const bottom = HEIGHT - EDGE.bottom;
    svg.replaceChildren(
      this.shape("line", { x1: EDGE.left, x2: this.width - EDGE.right, y1: bottom, y2: bottom, class: "axis" }),
      this.shape("polyline", { points: line, class: "line" }),
      ...dots,
      this.text(EDGE.left, 14, "start", low === high ? this.named(high) : `${this.named(low)} to ${this.named(high)}`),
      ...this.ends(),
      this.shape("circle", { r: 5, class: "marked", ...this.markedPosition() }),
    );
    this.updateCaption();
  }

  dot(value) {
    return this.shape("circle", { cx: this.x(value), cy: this.y(value), r: 2.5, class: "dot" });
  }

  ends() {
    const [first, last] = [this.values[0], this.values.at(-1)].map(({ time }) => instant(time).textContent);
    const y = HEIGHT - 7;
    return [this.text(EDGE.left, y, "start", first), ...(first === last ? [] : [this.text(this.width - EDGE.right, y, "end", last)])];
  }

  markedPosition() {
    const value = this.values[this.marked];
    return value ? { cx: this.x(value), cy: this.y(value) } : { visibility: "hidden" };
  }

  scale(value, name, from, to) {
    const [low, high] = this.limits[name];
    const fraction = low === high ? 0.5 : (value[name] - low) / (high - low);
    return Math.round((from + fraction * (to - from)) * 10) / 10;
  }

  x(value) {
    return this.scale(value, "time", EDGE.left + 4, this.width - EDGE.right - 4);
  }

  y(value) {
    return this.scale(value, "number", HEIGHT - EDGE.bottom - 8, EDGE.top + 4);
  }

  nearest(event) {
    const x = event.clientX - this.svg.getBoundingClientRect().left;
    const distances = this.values.map((value) => Math.abs(this.x(value) - x));
    return distances.length ? distances.indexOf(Math.min(...distances)) : null;
  }

  walk(event) {
    const last = this.values.length - 1;
    const [before, after] = [(this.marked ?? last + 1) - 1, (this.marked ?? last - 1) + 1];
    const to = { ArrowLeft: before, ArrowRight: after, Home: 0, End: last }[event.key];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    this.mark(Math.max(0, Math.min(last, to)));
  }

  mark(index) {
    this.marked = index;
    for (const [name, value] of Object.entries({ visibility: "visible", ...this.markedPosition() })) {
      this.svg.lastElementChild?.setAttribute(name, value);
    }
    this.updateCaption();
  }

  updateCaption() {
    const value = this.values[this.marked];
    if (value) this.caption.replaceChildren(instant(value.time), `: ${this.named(value.number)}`);
    else this.caption.replaceChildren(`${this.values.length} values that this key received or read`);
  }

  inWords() {
    const [low, high] = this.limits.number;
    return `${this.label}: ${this.values.length} values from ${this.named(low)} to ${this.named(high)}; use the arrow keys to step through them`;
  }

  named(number) {
    return this.unit ? `${numberText(number)} ${this.unit}` : numberText(number);
  }

  text(x, y, anchor, words) {
    const made = this.shape("text", { x, y, "text-anchor": anchor });
    made.textContent = words;
    return made;
  }

  shape(name, attributes) {
    const made = document.createElementNS(this.svg.namespaceURI, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }
}
