/* Numbers, units, ages and instants as people read them. */

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
export const MISSING = "—";

const formats = new Map<string, Intl.DateTimeFormat>();

function format(key: string, zone: string, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const name = `${key} ${zone}`;
  let made = formats.get(name);
  if (made === undefined) {
    // The locale only determines the digits: the parts are joined here.
    made = new Intl.DateTimeFormat("en-GB", { hourCycle: "h23", ...(zone ? { timeZone: zone } : {}), ...options });
    formats.set(name, made);
  }
  return made;
}

export interface Clock {
  year: string;
  month: string;
  day: string;
  hour: string;
  minute: string;
  second: string;
}

/** The parts of an instant in a zone; "" is the zone of the browser. */
export function clock(at: number, zone: string): Clock {
  const digits = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit" };
  const parts = format("parts", zone, digits as Intl.DateTimeFormatOptions).formatToParts(at);
  const found = Object.fromEntries(parts.map(({ type, value }) => [type, value])) as unknown as Clock;
  return { ...found, year: found.year.padStart(4, "0") };
}

/** The milliseconds of an instant after its whole second. */
export function millisecondOf(at: number): number {
  return ((Math.floor(at) % 1000) + 1000) % 1000;
}

/** An instant to the second: `2026-11-22 10:20:30`. Milliseconds follow only if `precise` and they are not 0. */
export function instant(at: number | null | undefined, zone: string, precise = false): string {
  if (at === null || at === undefined || !Number.isFinite(at)) return "";
  const { year, month, day, hour, minute, second } = clock(at, zone);
  const fraction = millisecondOf(at);
  const rest = precise && fraction ? `.${String(fraction).padStart(3, "0")}` : "";
  return `${year}-${month}-${day} ${hour}:${minute}:${second}${rest}`;
}

/** An instant with its zone, for a tooltip: `2026-11-22 10:20:30 UTC`. */
export function instantIn(at: number | null | undefined, zone: string): string {
  const text = instant(at, zone, true);
  return text && `${text} ${zoneName(zone, at ?? undefined)}`;
}

/** An instant without the parts that equal those of now: `10:20:30` today, else `11-22 10:20`, or `2025-11-22`. */
export function shortInstant(at: number, zone: string, now: number = Date.now()): string {
  const one = clock(at, zone);
  const other = clock(now, zone);
  if (one.year !== other.year) return `${one.year}-${one.month}-${one.day}`;
  if (one.month === other.month && one.day === other.day) return `${one.hour}:${one.minute}:${one.second}`;
  return `${one.month}-${one.day} ${one.hour}:${one.minute}`;
}

/** The name of a zone: "UTC", "Europe/Berlin", or for the browser's own its short name, such as "CET". */
export function zoneName(zone: string, at: number = Date.now()): string {
  if (zone) return zone;
  const parts = format("zone", zone, { timeZoneName: "short" }).formatToParts(at);
  return parts.find(({ type }) => type === "timeZoneName")?.value ?? "local time";
}

/** The name of the browser's zone. */
export function browserZone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** The instant of a date and time as the user types it in a zone, `2026-11-22 10:20[:30]`; null if it is invalid. */
export function parsedInstant(text: string, zone: string): number | null {
  const found = /^\s*(\d{4})-(\d{1,2})-(\d{1,2})(?:[T ](\d{1,2}):(\d{2})(?::(\d{2})(\.\d{1,3})?)?)?\s*$/.exec(text);
  if (found === null) return null;
  const [, year, month, day, hour = "0", minute = "0", second = "0", fraction = "0"] = found;
  const milliseconds = Math.round(Number(fraction) * 1000);
  const wanted = utc(Number(year), Number(month), Number(day), Number(hour), Number(minute), Number(second));
  const back = new Date(wanted);
  if (Number(year) < 1 || back.getUTCMonth() !== Number(month) - 1 || back.getUTCDate() !== Number(day)) return null;
  if (Number(hour) > 23 || Number(minute) > 59 || Number(second) > 59) return null;
  // Twice, because the offset may change between the first guess and the instant.
  let at = wanted - offset(wanted, zone);
  at = wanted - offset(at, zone);
  return at + milliseconds;
}

/* Date.UTC() takes the years 0 to 99 for 1900 to 1999. */
function utc(year: number, month: number, day: number, hour: number, minute: number, second: number): number {
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  date.setUTCHours(hour, minute, second);
  return date.getTime();
}

/** Milliseconds by which the clocks of a zone are ahead of UTC. */
export function offset(at: number, zone: string): number {
  const { year, month, day, hour, minute, second } = clock(at, zone);
  const shown = utc(Number(year), Number(month), Number(day), Number(hour), Number(minute), Number(second));
  return shown - Math.floor(at / 1000) * 1000;
}

/** How long ago: "just now", "42 s ago", "3 min ago", "5 h ago", "2 d ago". */
export function ago(at: number | null | undefined, now: number = Date.now()): string {
  if (at === null || at === undefined) return "";
  const passed = now - at;
  if (passed < 5_000) return passed < -MINUTE ? `in ${duration(-passed)}` : "just now";
  return `${duration(passed)} ago`;
}

/** A duration in its largest unit: "42 s", "3 min", "5 h", "2 d". */
export function duration(milliseconds: number): string {
  if (milliseconds < 1000) return `${Math.max(0, Math.round(milliseconds))} ms`;
  if (milliseconds < MINUTE) return `${Math.floor(milliseconds / 1000)} s`;
  if (milliseconds < HOUR) return `${Math.floor(milliseconds / MINUTE)} min`;
  if (milliseconds < 2 * DAY) return `${Math.floor(milliseconds / HOUR)} h`;
  return `${Math.floor(milliseconds / DAY)} d`;
}

/** A duration in its two largest units: "3 h 12 min". */
export function longDuration(milliseconds: number): string {
  if (milliseconds < MINUTE) return duration(milliseconds);
  const [large, unit, small, smaller] =
    milliseconds < HOUR ? [MINUTE, "min", 1000, "s"] as const : milliseconds < DAY ? [HOUR, "h", MINUTE, "min"] as const : [DAY, "d", HOUR, "h"] as const;
  const rest = Math.floor((milliseconds % large) / small);
  return `${Math.floor(milliseconds / large)} ${unit}${rest ? ` ${rest} ${smaller}` : ""}`;
}

/** The exact number of the service, with at most 15 digits: 21.5, 18,900, 0.000123. */
export function number(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-6 || size >= 1e15)) return trimmed(value.toExponential(5));
  // A number in single precision has only the digits of that precision.
  const single = Math.fround(value) === value && !Number.isInteger(value) ? shortest(value) : value;
  return single.toLocaleString("en", { maximumSignificantDigits: 15, signDisplay: "negative" });
}

const numberFormats = new Map<string, Intl.NumberFormat>();

/** A format of numbers without a negative zero. Making a format takes far longer than using it. */
export function numberFormat(fewest: number, most: number): Intl.NumberFormat {
  const key = `${fewest} ${most}`;
  const made =
    numberFormats.get(key) ??
    new Intl.NumberFormat("en", { minimumFractionDigits: fewest, maximumFractionDigits: most, signDisplay: "negative" });
  numberFormats.set(key, made);
  return made;
}

/** A number for people: at most 4 digits after the point and 5 in all, but every digit before the point.
    `most` limits the digits after the point. */
export function rounded(value: number, most: number = 4): string {
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e12)) return trimmed(value.toExponential(2));
  const digits = Math.min(most, size >= 1000 ? 1 : size >= 100 ? 2 : size >= 1 ? 3 : 4);
  return numberFormat(0, Number.isInteger(value) ? 0 : digits).format(value);
}

/** The number of digits after the point in a number for people. */
export function digitsOf(value: number): number {
  return /e/.test(rounded(value)) ? 4 : (rounded(value).split(".")[1]?.length ?? 0);
}

function shortest(value: number): number {
  for (let digits = 6; digits < 15; digits += 1) {
    const text = Number(value.toPrecision(digits));
    if (Math.fround(text) === value) return text;
  }
  return value;
}

function trimmed(text: string): string {
  return text.replace(/\.?0+e/, "e").replace("e+", "e");
}

/** A number of things: "1 device", "1,200 devices". */
export function count(number_: number, noun: string, plural: string = `${noun}s`): string {
  return `${number_.toLocaleString("en")} ${number_ === 1 ? noun : plural}`;
}

/** A number with its unit: "21.5 °C", "40 %". */
export function quantity(value: number, unit: string): string {
  return unit ? `${rounded(value)} ${unit}` : rounded(value);
}
