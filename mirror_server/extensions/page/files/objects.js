// What objects declare of their resources, as the server has it, and values read by it.

import { ask } from "./interface.js";

const NUMBERS = ["integer", "unsigned", "float"];
let table = { objects: {}, units_resource: null, in_those_units: [] };

export async function loadObjects() {
  table = await (await ask("GET", "page/objects.json")).json();
}

// What is declared for a resource or one of its instances; null where nothing is.
export function declaredFor(path) {
  const [, objectId, , resourceId] = path.split("/");
  const object = table.objects[objectId];
  const declared = object?.resources[resourceId];
  return declared ? { unit: "", range: null, ...declared, object: object.name } : null;
}

export function labelOf(path) {
  const declared = declaredFor(path);
  return declared ? `${declared.object} · ${declared.name}` : "";
}

export const isNumber = (declared) => NUMBERS.includes(declared?.type);

// The unit of a resource: what its device names for the object instance, else what is declared.
export function unitOf(path, resources) {
  const declared = declaredFor(path);
  const [, objectId, instanceId, resourceId] = path.split("/");
  if (declared && table.in_those_units.includes(Number(resourceId))) {
    const named = resources.find((each) => each.resource_path === `/${objectId}/${instanceId}/${table.units_resource}`);
    const text = named && textOf(named.reported.value);
    if (text) return text;
  }
  return declared?.unit ?? "";
}

export const bytesOf = (base64) => Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));

// The text in a payload; null where it is none that can be shown.
export function textOf(base64) {
  if (base64 === undefined) return null;
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytesOf(base64));
    return /[\p{Cc}\p{Cf}\p{Co}\p{Cn}]/u.test(text) ? null : text;
  } catch {
    return null;
  }
}

export function base64Of(bytes) {
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}

// The number in a payload; null where it is none.
export function numberOf(base64, path) {
  const declared = declaredFor(path);
  if (declared && !isNumber(declared)) return null;
  const text = textOf(base64);
  return text !== null && /^[+-]?\d+(\.\d+)?([eE][+-]?\d{1,3})?$/.test(text) && Number.isFinite(Number(text)) ? Number(text) : null;
}

// Whether two payloads of a resource mean the same: 55 and 55.0 do where a number is declared.
export function isSameValue(one, other, path) {
  if (one === other) return true;
  const numbers = isNumber(declaredFor(path)) ? [numberOf(one, path), numberOf(other, path)] : [null, null];
  return numbers[0] !== null && numbers[0] === numbers[1];
}
