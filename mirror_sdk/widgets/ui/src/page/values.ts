/** Payloads as texts for people. */

import { bytesOf, declaredFor, isNumber, numberOf, textOf } from "./objects";
import { visible } from "./names";
import { instancesOf } from "./tlv";

const LONGEST = 200;
/** More digits of a number are rounding errors. */
const SIGNIFICANT_DIGITS = 15;

export const numberText = (number: number): string => String(Number(number.toPrecision(SIGNIFICANT_DIGITS)));

/** A displayed payload. An absent or empty one is `dim`, bytes are `code`, and `time` is an instant in milliseconds. */
export interface ValueText {
  text: string;
  unit: string;
  style: "plain" | "dim" | "code";
  title?: string;
  time?: number;
}

/** Display a payload: as text if possible, by instance if there are several, else as bytes. */
export function valueText(base64: string | undefined, path = "", unit = "", contentType = ""): ValueText {
  if (base64 === undefined) return dim("–");
  const instances = instancesOf(base64, path, contentType);
  if (instances !== null) {
    const values = instances.map(([id, value]) => `${id}: ${visible(value)}`).join(", ");
    return { text: shortened(`{${values}}`), unit: isNumber(declaredFor(path)) ? unit : "", style: "plain" };
  }
  const text = textOf(base64);
  if (text === "") return dim("empty");
  if (text === null) return bytesText(bytesOf(base64));
  const type = declaredFor(path)?.type;
  if (type === "boolean" && /^[01]$/.test(text)) return plain(text === "1" ? "true" : "false");
  if (type === "time" && /^\d{1,12}$/.test(text)) return { ...plain(text), time: Number(text) * 1000 };
  const number = numberOf(base64, path);
  if (number === null) return plain(shortened(text));
  // A device that rounds -0.04 reports -0.0.
  if (Object.is(number, -0)) return { ...plain("0"), unit };
  const hasRoundingErrors = text.includes(".") && text.replace(/\D/g, "").length > SIGNIFICANT_DIGITS;
  return { ...plain(shortened(hasRoundingErrors ? numberText(number) : text)), unit };
}

const plain = (text: string): ValueText => ({ text, unit: "", style: "plain" });
const dim = (text: string): ValueText => ({ text, unit: "", style: "dim" });

function bytesText(bytes: Uint8Array): ValueText {
  const pairs = Array.from(bytes.subarray(0, LONGEST), (byte) => byte.toString(16).padStart(2, "0"));
  return { text: shortened(pairs.join(" ")), unit: "", style: "code", title: `${bytes.length} bytes` };
}

function shortened(text: string): string {
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}
