// The declarations of objects, as the server has them, and values parsed by them.

import { callApi } from "./interface.js";

const NUMBERS = ["integer", "unsigned", "float"];
let table = { objects: {}, units_resource: null, in_those_units: [], display_units: {} };

export async function loadObjects() {
  table = await (await callApi("GET", "page/objects.json")).json();
}

// The declaration of a resource or of one of its instances; null if there is none.
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

// The unit of a resource as people write it: the one that the device reports for the object instance, else the declared one.
export function unitOf(path, resources) {
  const code = unitCodeOf(path, resources);
  return Object.hasOwn(table.display_units, code) ? table.display_units[code] : code;
}

function unitCodeOf(path, resources) {
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

// The text in a payload; null if it is not a displayable text.
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

// The number in a payload; null if it is not a number.
export function numberOf(base64, path) {
  const declared = declaredFor(path);
  if (declared && !isNumber(declared)) return null;
  const text = textOf(base64);
  return text !== null && /^[+-]?\d+(\.\d+)?([eE][+-]?\d{1,3})?$/.test(text) && Number.isFinite(Number(text)) ? Number(text) : null;
}

// More digits of a number are rounding errors.
export const SIGNIFICANT_DIGITS = 15;

export const numberText = (number) => String(Number(number.toPrecision(SIGNIFICANT_DIGITS)));

// Whether two payloads of a resource have the same value: 55 and 55.0 are equal if a number is declared.
export function isSameValue(one, other, path) {
  if (one === other) return true;
  const numbers = isNumber(declaredFor(path)) ? [numberOf(one, path), numberOf(other, path)] : [null, null];
  return numbers[0] !== null && numbers[0] === numbers[1];
}
