/**
 * Parses typed texts by the declaration of a resource, without guessing. The client has the same rules, and the same texts
 * are tested with both.
 */

import { base64Of, declaredFor } from "./objects";
import type { Declaration, ValueType } from "./wire";

const NUMBER = /^([+-]?)(?:(\d{1,400})(?:\.(\d{0,400}))?|\.(\d{1,400}))(?:[eE]([+-]?\d{1,3}))?$/;
const BOOLEANS: ReadonlyMap<string, boolean> = new Map([
  ["true", true], ["on", true], ["yes", true], ["1", true],
  ["false", false], ["off", false], ["no", false], ["0", false],
]);
const TIME = /^(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.0+)?([Zz]|[+-]\d\d:?\d\d)$/;
const TIME_WITHOUT_ZONE = /^\d{4}-\d\d-\d\d([Tt ][\d:.]+)?$/;
const DATE_AND_HOUR = /^(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:[01]\d|2[0-3])(?:[0-5]\d)?$/;
const BASE64 = /^(?:[A-Za-z\d+/]{4})*(?:[A-Za-z\d+/]{2}==|[A-Za-z\d+/]{3}=)?$/;
const WORDS: Record<ValueType, string> = {
  string: "a string",
  corelink: "links as a string",
  float: "a finite number",
  integer: "a whole number",
  unsigned: "a whole number from 0 on",
  boolean: "true or false",
  time: "a time",
  objlink: "an object link",
  opaque: "bytes",
};
const SIGNED_LIMITS: [bigint, bigint] = [-(2n ** 63n), 2n ** 63n - 1n];
const UNSIGNED_LIMITS: [bigint, bigint] = [0n, 2n ** 64n - 1n];
const HIGHEST_ID = 65535;
const EARLIEST_SECONDS = -62135596800;
const LATEST_SECONDS = 253402300799;

class NoValue extends Error {}

export interface Payload {
  payload: string;
  contentType: string;
}

export interface Problem {
  problem: string;
}

/** Return the expected value of a resource in words. */
export function expected({ type, range }: Declaration): string {
  return range ? `${WORDS[type]} from ${range[0]} to ${range[1]}` : WORDS[type];
}

export function readTyped(text: string, path: string): Payload | Problem {
  const declared = declaredFor(path);
  if (declared?.access === "E") return { problem: "It has no value: execute it instead of writing it." };
  if (declared && !declared.access.includes("W")) return { problem: "It is read-only." };
  try {
    return declared ? READ[declared.type](text, declared) : ofText(text);
  } catch (error) {
    if (!(error instanceof NoValue)) throw error;
    return { problem: `Expected ${declared ? expected(declared) : "text"}; ${error.message}.` };
  }
}

function ofText(text: string): Payload {
  if (/\p{Cs}/u.test(text)) throw new NoValue("remove its lone surrogates");
  return { payload: base64Of(new TextEncoder().encode(text)), contentType: "text/plain" };
}

function readBoolean(text: string): Payload {
  const found = BOOLEANS.get(text.trim().toLowerCase());
  if (found === undefined) throw new NoValue("write true or false; on and off, yes and no, 1 and 0 are the same");
  return ofText(found ? "1" : "0");
}

function readInteger(text: string, { type, range }: Declaration): Payload {
  const [low, high] = range ?? [0, 80];
  const cure = `write it like ${Math.floor((low + high) / 2)}`;
  const { sign, digits, exponent } = numberParts(text, cure);
  const integerDigits = exponent < 0 ? digits.slice(0, exponent) : digits + "0".repeat(exponent);
  if (exponent < 0 && /[^0]/.test(digits.slice(exponent))) throw new NoValue(cure);
  const number = BigInt(integerDigits || "0") * (sign === "-" ? -1n : 1n);
  const [least, most] = type === "unsigned" ? UNSIGNED_LIMITS : SIGNED_LIMITS;
  if (number < least || number > most) throw new NoValue("the limit is 64 bits");
  checkRange(number, range);
  return ofText(String(number));
}

function readFloat(text: string, { range }: Declaration): Payload {
  const [low, high] = range ?? [0, 43];
  const cure = `write it like ${(low + high) / 2}`;
  const { digits } = numberParts(text, cure);
  const number = Number(text.trim());
  if (!Number.isFinite(number) || (number === 0 && /[^0]/.test(digits))) {
    throw new NoValue(`a float cannot represent this number; ${cure}`);
  }
  checkRange(number, range);
  return ofText(decimals(number));
}

function checkRange(number: number | bigint, range: Declaration["range"]): void {
  if (range && (number < range[0] || number > range[1])) throw new NoValue("write a number in this range");
}

function numberParts(text: string, cure: string): { sign: string; digits: string; exponent: number } {
  const found = NUMBER.exec(text.trim());
  if (!found) {
    if (text.includes(",")) throw new NoValue(`a comma is not a decimal point; ${cure}`);
    throw new NoValue(/^\d/.test(text.trim()) ? `${cure}, without a unit` : cure);
  }
  const [, sign = "", integer = "", fraction = "", onlyFraction = "", power = "0"] = found;
  const digits = integer + fraction + onlyFraction;
  return { sign, digits, exponent: Number(power) - fraction.length - onlyFraction.length };
}

/** Write a number without an exponent, which not every device supports. */
function decimals(number: number): string {
  const sign = number < 0 || Object.is(number, -0) ? "-" : "";
  const [digits = "", power] = String(Math.abs(number)).split("e");
  if (power === undefined) return sign + digits + (Number.isInteger(number) && Math.abs(number) < 1e16 ? ".0" : "");
  const [integer = "", fraction = ""] = digits.split(".");
  const exponent = Number(power);
  if (exponent < 0) return `${sign}0.${"0".repeat(-exponent - 1)}${integer}${fraction}`;
  return sign + integer + fraction.padEnd(exponent, "0");
}

function readTime(text: string): Payload {
  const typed = text.trim();
  const cure = "write it like 2026-01-05T08:00:00Z";
  if (DATE_AND_HOUR.test(typed)) throw new NoValue(`the text could be a date or the seconds since 1970; ${cure}`);
  const seconds = /^[+-]?\d{9,12}$/.test(typed) ? Number(typed) : secondsOf(typed, cure);
  if (!(seconds >= EARLIEST_SECONDS && seconds <= LATEST_SECONDS)) throw new NoValue(cure);
  return ofText(String(seconds));
}

function secondsOf(typed: string, cure: string): number {
  if (TIME_WITHOUT_ZONE.test(typed)) {
    throw new NoValue(`the time zone is missing: Z for UTC or an offset such as +01:00; ${cure}`);
  }
  const found = TIME.exec(typed);
  if (!found) throw new NoValue(cure);
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = found.slice(1, 7).map(Number);
  const local = new Date(0);
  local.setUTCFullYear(year, month - 1, day);
  local.setUTCHours(hour, minute, second);
  const isDate = local.getUTCMonth() === month - 1 && local.getUTCDate() === day && year >= 1;
  const isTime = hour < 24 && minute < 60 && second < 60;
  const [, sign = "+", hours = "00", minutes = "00"] = /^([+-])(\d\d):?(\d\d)$/.exec(found[7] ?? "") ?? [];
  if (!isDate || !isTime || Number(hours) > 23 || Number(minutes) > 59) throw new NoValue(cure);
  const offset = (Number(hours) * 60 + Number(minutes)) * 60 * (sign === "-" ? -1 : 1);
  return local.getTime() / 1000 - offset;
}

function readLink(text: string): Payload {
  const found = /^(\d{1,5}):(\d{1,5})$/.exec(text.trim());
  if (!found || Math.max(Number(found[1]), Number(found[2])) > HIGHEST_ID) {
    throw new NoValue("write object and instance id like 3303:0");
  }
  return ofText(found[0]);
}

function readBytes(text: string): Payload {
  const typed = text.trim();
  const isMarked = typed.startsWith("base64:");
  const inBase64 = fromBase64(isMarked ? typed.slice("base64:".length) : typed);
  const inHex = fromHex(typed.replace(/^0x/, ""));
  if (!(isMarked && inBase64) && inHex?.length && inBase64?.length) {
    throw new NoValue("the text is both valid hex and valid base64; put blanks between the hex digits, or base64: in front");
  }
  const found = isMarked && inBase64 ? inBase64 : [inHex, inBase64].find((each) => each?.length);
  if (!found) throw new NoValue("write two hex digits for each byte like 00 ff 1a, or base64 like base64:AP8a");
  return { payload: base64Of(found), contentType: "application/octet-stream" };
}

function fromHex(text: string): number[] | null {
  if (!/^\s*(?:[\da-f]{2}\s*)*$/i.test(text)) return null;
  return (text.match(/[\da-f]{2}/gi) ?? []).map((pair) => Number.parseInt(pair, 16));
}

function fromBase64(text: string): number[] | null {
  return BASE64.test(text) ? Array.from(atob(text), (character) => character.charCodeAt(0)) : null;
}

const READ: Record<ValueType, (text: string, declared: Declaration) => Payload> = {
  string: ofText,
  corelink: ofText,
  boolean: readBoolean,
  integer: readInteger,
  unsigned: readInteger,
  float: readFloat,
  time: readTime,
  objlink: readLink,
  opaque: readBytes,
};
