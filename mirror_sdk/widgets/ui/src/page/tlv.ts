/**
 * LwM2M TLV: the values of a resource with several instances. The client has the same rules.
 * Source: LwM2M core, TLV data format (1.1: 7.4.3).
 */

import { bytesOf, declaredFor } from "./objects";
import type { ValueType } from "./wire";

const CONTENT_TYPES = ["application/vnd.oma.lwm2m+tlv", "application/nanoservice-tlv"];
const RESOURCE_INSTANCE = 1;
const MULTIPLE_RESOURCE = 2;
/** A float of this many bytes whose bits are an integer in this range is more likely an integer that a client wrote. */
const WHOLE_NUMBERS: Record<number, [bigint, bigint]> = {
  4: [-(2n ** 22n), 2n ** 27n],
  8: [-(2n ** 51n), 2n ** 52n],
};

class Unreadable extends Error {}

interface TlvEntry {
  kind: number;
  id: number;
  content: Uint8Array;
}

/** Return the values of a multiple resource, each as [instance id, text]; null if the payload is not one. */
export function instancesOf(base64: string, path: string, contentType: string | undefined): [number, string][] | null {
  if (!CONTENT_TYPES.includes((contentType ?? "").split(";")[0]?.trim().toLowerCase() ?? "")) return null;
  try {
    const [resource, ...others] = entriesOf(bytesOf(base64));
    if (others.length || resource?.kind !== MULTIPLE_RESOURCE || resource.id !== Number(path.split("/")[3])) return null;
    const instances = entriesOf(resource.content);
    const isTwice = new Set(instances.map(({ id }) => id)).size < instances.length;
    if (isTwice || instances.some(({ kind }) => kind !== RESOURCE_INSTANCE)) return null;
    const read = READ[declaredFor(path)?.type ?? "opaque"];
    return instances.sort((one, other) => one.id - other.id).map(({ id, content }) => [id, read(content)]);
  } catch (error) {
    if (error instanceof Unreadable || error instanceof TypeError) return null;
    throw error;
  }
}

function entriesOf(bytes: Uint8Array): TlvEntry[] {
  const found: TlvEntry[] = [];
  let at = 0;
  const next = (count: number): Uint8Array => {
    if (at + count > bytes.length) throw new Unreadable();
    at += count;
    return bytes.subarray(at - count, at);
  };
  const number = (octets: Uint8Array): number => octets.reduce((sum, byte) => sum * 256 + byte, 0);
  while (at < bytes.length) {
    const head = number(next(1));
    const id = number(next(head & 0x20 ? 2 : 1));
    const lengthBytes = (head >> 3) & 3;
    const length = lengthBytes ? number(next(lengthBytes)) : head & 7;
    found.push({ kind: head >> 6, id, content: next(length) });
  }
  return found;
}

function viewOf(content: Uint8Array, ...sizes: number[]): DataView {
  if (!sizes.includes(content.length)) throw new Unreadable();
  return new DataView(content.buffer, content.byteOffset, content.length);
}

function integerOf(content: Uint8Array): bigint {
  const view = viewOf(content, 1, 2, 4, 8);
  if (content.length === 8) return view.getBigInt64(0);
  return BigInt(content.length === 4 ? view.getInt32(0) : content.length === 2 ? view.getInt16(0) : view.getInt8(0));
}

function unsignedOf(content: Uint8Array): bigint {
  return BigInt.asUintN(content.length * 8, integerOf(content));
}

function floatOf(content: Uint8Array): string {
  const view = viewOf(content, 4, 8);
  const [low, high] = WHOLE_NUMBERS[content.length] ?? [0n, 0n];
  const asInteger = integerOf(content);
  const float = content.length === 4 ? view.getFloat32(0) : view.getFloat64(0);
  if ((asInteger !== 0n && asInteger > low && asInteger < high) || !Number.isFinite(float)) throw new Unreadable();
  return String(float);
}

function booleanOf(content: Uint8Array): string {
  const [byte = 2] = content;
  if (content.length !== 1 || byte > 1) throw new Unreadable();
  return String(byte === 1);
}

function timeOf(content: Uint8Array): string {
  const date = new Date(Number(integerOf(content)) * 1000);
  if (Number.isNaN(date.getTime())) throw new Unreadable();
  return JSON.stringify(date.toISOString());
}

function linkOf(content: Uint8Array): string {
  const view = viewOf(content, 4);
  return JSON.stringify(`${view.getUint16(0)}:${view.getUint16(2)}`);
}

/** Bytes that are not UTF-8 raise a TypeError. */
const quotedOf = (content: Uint8Array): string =>
  JSON.stringify(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content as Uint8Array<ArrayBuffer>));
const hexOf = (content: Uint8Array): string =>
  JSON.stringify(Array.from(content, (byte) => byte.toString(16).padStart(2, "0")).join(" "));

const READ: Record<ValueType, (content: Uint8Array) => string> = {
  string: quotedOf,
  corelink: quotedOf,
  integer: (content) => String(integerOf(content)),
  unsigned: (content) => String(unsignedOf(content)),
  float: floatOf,
  time: timeOf,
  boolean: booleanOf,
  objlink: linkOf,
  opaque: hexOf,
};
