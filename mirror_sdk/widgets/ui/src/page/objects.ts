/** The declarations of objects of the server, and payloads parsed by them. */

import type { Session } from "./http";
import type { Declaration, Resource, ValueType } from "./wire";

interface DeclaredObject {
  name: string;
  resources: Record<string, Declaration>;
}

interface DeclarationTable {
  objects: Record<string, DeclaredObject>;
  units_resource: number | null;
  in_those_units: number[];
  /** The ids of resources whose values never change: in the Device object, and in all other objects. */
  constant_in_device: number[];
  constant: number[];
  display_units: Record<string, string>;
  keeps_history: boolean;
}

const NUMBERS: ReadonlySet<ValueType> = new Set<ValueType>(["integer", "unsigned", "float"]);
const DEVICE_OBJECT = "3";
let table: DeclarationTable = {
  objects: {}, units_resource: null, in_those_units: [], constant_in_device: [], constant: [], display_units: {}, keeps_history: false,
};

export async function loadObjects(session: Session): Promise<void> {
  table = await session.get<DeclarationTable>("page/objects.json");
}

/** Whether the server keeps a history of values. */
export const keepsHistory = (): boolean => table.keeps_history;

export interface Declared extends Declaration {
  object: string;
}

/** Return the declaration of a resource or of one of its instances; undefined if there is none. */
export function declaredFor(path: string): Declared | undefined {
  const [, objectId = "", , resourceId = ""] = path.split("/");
  const object = table.objects[objectId];
  const declared = object?.resources[resourceId];
  return object && declared && { ...declared, object: object.name };
}

export function objectName(objectId: string): string {
  return table.objects[objectId]?.name ?? `Object ${objectId}`;
}

/** Return the name of a resource without its object; its ids if it is not declared. */
export function resourceName(path: string): string {
  return declaredFor(path)?.name ?? path;
}

/** Return the names of object and resource; an empty text if the resource is not declared. */
export function labelOf(path: string): string {
  const declared = declaredFor(path);
  return declared ? `${declared.object} · ${declared.name}` : "";
}

export const isNumber = (declared: Declaration | undefined): boolean => declared !== undefined && NUMBERS.has(declared.type);

/** Whether a resource may have an operation (R, W or E). One that is not declared may have all. */
export const mayBe = (operation: string, path: string): boolean => declaredFor(path)?.access.includes(operation) ?? true;

/** Whether each number lasts until the next one: that of a set point or an integer. */
export function isStepped(path: string): boolean {
  const declared = declaredFor(path);
  return declared !== undefined && (declared.access.includes("W") || declared.type === "integer" || declared.type === "unsigned");
}

/** Whether the values of a resource are constant: serial numbers, versions, units, ranges. */
export function neverChanges(path: string): boolean {
  const [, object, , resource] = path.split("/");
  return (object === DEVICE_OBJECT ? table.constant_in_device : table.constant).includes(Number(resource));
}

/** Return the unit as people write it: the one that the device reports for the object instance, else the declared one. */
export function unitOf(path: string, resources: readonly Resource[]): string {
  const code = unitCodeOf(path, resources);
  return Object.hasOwn(table.display_units, code) ? (table.display_units[code] ?? code) : code;
}

function unitCodeOf(path: string, resources: readonly Resource[]): string {
  const declared = declaredFor(path);
  const [, objectId, instanceId, resourceId] = path.split("/");
  if (declared && table.in_those_units.includes(Number(resourceId))) {
    const named = resources.find((each) => each.resource_path === `/${objectId}/${instanceId}/${table.units_resource}`);
    const text = named && textOf(named.reported.value);
    if (text) return text;
  }
  return declared?.unit ?? "";
}

export const bytesOf = (base64: string): Uint8Array => Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));

/** Return the text in a payload; null if it is not a displayable text. */
export function textOf(base64: string | undefined): string | null {
  if (base64 === undefined) return null;
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytesOf(base64));
    return /[\p{Cc}\p{Cf}\p{Co}\p{Cn}]/u.test(text) ? null : text;
  } catch {
    return null;
  }
}

export function base64Of(bytes: Iterable<number>): string {
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}

/** Return the number in a payload; null if it is not a number. */
export function numberOf(base64: string | undefined, path: string): number | null {
  const declared = declaredFor(path);
  if (declared && !isNumber(declared)) return null;
  const text = textOf(base64);
  if (text === null || !/^[+-]?\d+(\.\d+)?([eE][+-]?\d{1,3})?$/.test(text)) return null;
  return Number.isFinite(Number(text)) ? Number(text) : null;
}

/** Whether two payloads of a resource have the same value: 55 and 55.0 are equal if a number is declared. */
export function isSameValue(one: string | undefined, other: string | undefined, path: string): boolean {
  if (one === other) return true;
  if (!isNumber(declaredFor(path))) return false;
  const number = numberOf(one, path);
  return number !== null && number === numberOf(other, path);
}
