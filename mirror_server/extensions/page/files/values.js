// The recent numbers of the chosen device's resources, and a small picture of one resource's.

import { ask } from "./interface.js";
import { numberOf } from "./objects.js";
import { instant } from "./show.js";

const ENTRIES_BACK = 5000;
const MOST_MESSAGES = 25;
const MOST_VALUES = 1000;
const MOST_DOTS = 60;
// Beyond it the distance of two numbers may be none.
const LARGEST_DRAWN = 1e100;
const HEIGHT = 150;
const EDGE = { left: 8, right: 8, top: 22, bottom: 24 };
const series = { deviceId: null, paths: new Map(), isRead: false };

export function followDevice(deviceId) {
  Object.assign(series, { deviceId, paths: new Map(), isRead: false });
}

// Notes a value that was reported or read; those of other devices are passed over.
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
  if (values.length > MOST_VALUES) values.shift();
}

export function noteEntry(kind, entry) {
  const isValue = kind === "notifications" || (kind === "async-responses" && entry.status === 200 && entry.payload);
  if (isValue) noteValue(entry.ep, entry.path, entry.timestamp, entry.payload);
}

// What the log of this key still holds of the device: its last entries, read by a reader of its own.
export async function readHistory() {
  const { deviceId } = series;
  if (series.isRead) return;
  series.isRead = true;
  const end = await readLog("latest");
  let after = Math.max(0, end.cursor - ENTRIES_BACK);
  for (let count = 0; after < end.cursor && count < MOST_MESSAGES && deviceId === series.deviceId; count += 1) {
    const { message, cursor } = await readLog(after);
    for (const [kind, entries] of Object.entries(message)) for (const entry of entries) noteEntry(kind, entry);
    after = cursor;
  }
}

async function readLog(after) {
  const answer = await ask("GET", "v2/notification/pull", { query: { after, hold: 0 } });
  const message = answer.status === 200 ? await answer.json() : {};
  return { message, cursor: Number(answer.headers.get("Mirror-Cursor")) };
}

export function valuesOf(path) {
  return series.paths.get(path) ?? [];
}

function limitsOf(values, name) {
  const found = values.map((value) => value[name]);
  return [Math.min(...found), Math.max(...found)];
}

// A picture of numbers over time in an empty svg; its caption tells the value that is pointed at, or walked to by keys.
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
    const dots = values.length > MOST_DOTS ? [] : values.map((value) => this.dot(value));
    const bottom = HEIGHT - EDGE.bottom;
    svg.replaceChildren(
      this.shape("line", { x1: EDGE.left, x2: this.width - EDGE.right, y1: bottom, y2: bottom, class: "axis" }),
      this.shape("polyline", { points: line, class: "line" }),
      ...dots,
      this.text(EDGE.left, 14, "start", low === high ? this.named(high) : `${this.named(low)} to ${this.named(high)}`),
      ...this.ends(),
      this.shape("circle", { r: 5, class: "marked", ...this.markedPlace() }),
    );
    this.tell();
  }

  dot(value) {
    return this.shape("circle", { cx: this.x(value), cy: this.y(value), r: 2.5, class: "dot" });
  }

  ends() {
    const [first, last] = [this.values[0], this.values.at(-1)].map(({ time }) => instant(time).textContent);
    const y = HEIGHT - 7;
    return [this.text(EDGE.left, y, "start", first), ...(first === last ? [] : [this.text(this.width - EDGE.right, y, "end", last)])];
  }

  markedPlace() {
    const value = this.values[this.marked];
    return value ? { cx: this.x(value), cy: this.y(value) } : { visibility: "hidden" };
  }

  place(value, name, from, to) {
    const [low, high] = this.limits[name];
    const part = low === high ? 0.5 : (value[name] - low) / (high - low);
    return Math.round((from + part * (to - from)) * 10) / 10;
  }

  x(value) {
    return this.place(value, "time", EDGE.left + 4, this.width - EDGE.right - 4);
  }

  y(value) {
    return this.place(value, "number", HEIGHT - EDGE.bottom - 8, EDGE.top + 4);
  }

  nearest(event) {
    const x = event.clientX - this.svg.getBoundingClientRect().left;
    const distances = this.values.map((value) => Math.abs(this.x(value) - x));
    return distances.length ? distances.indexOf(Math.min(...distances)) : null;
  }

  walk(event) {
    const last = this.values.length - 1;
    const [before, behind] = [(this.marked ?? last + 1) - 1, (this.marked ?? last - 1) + 1];
    const to = { ArrowLeft: before, ArrowRight: behind, Home: 0, End: last }[event.key];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    this.mark(Math.max(0, Math.min(last, to)));
  }

  mark(index) {
    this.marked = index;
    for (const [name, value] of Object.entries({ visibility: "visible", ...this.markedPlace() })) {
      this.svg.lastElementChild?.setAttribute(name, value);
    }
    this.tell();
  }

  tell() {
    const value = this.values[this.marked];
    if (value) this.caption.replaceChildren(instant(value.time), `: ${this.named(value.number)}`);
    else this.caption.replaceChildren(`${this.values.length} values that this key was told of, or read`);
  }

  inWords() {
    const [low, high] = this.limits.number;
    return `${this.label}: ${this.values.length} values from ${this.named(low)} to ${this.named(high)}; arrow keys walk along them`;
  }

  named(number) {
    const digits = Number(number.toPrecision(6));
    return this.unit ? `${digits} ${this.unit}` : `${digits}`;
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
