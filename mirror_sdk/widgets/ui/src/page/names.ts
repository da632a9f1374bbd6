/** Texts of devices, displayed safely: control characters do nothing, and different texts look different. */

const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu;
const SHORTEST_ID = 8;

/** Return a text with escapes for invisible characters, and for combining ones unless the text is in Unicode form NFC. */
export function visible(text: string): string {
  const escaped = text.replace(INVISIBLE, escape);
  return text === text.normalize("NFC") ? escaped : escaped.replace(/\p{Mn}/gu, escape);
}

function escape(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  const digits = (count: number): string => code.toString(16).padStart(count, "0");
  if (code < 0x100) return `\\x${digits(2)}`;
  return code < 0x10000 ? `\\u${digits(4)}` : `\\U${digits(8)}`;
}

interface Named {
  id: string;
  endpoint_name: string;
}

/**
 * Return the displayed name of each device by its id. Names that differ only by case or Unicode form are followed by
 * the distinguishing part of the id. Notebooks and the mirror command have the same rule.
 */
export function displayNames(devices: Iterable<Named>): Map<string, string> {
  const alike = new Map<string, Named[]>();
  for (const device of devices) {
    const folded = foldedName(device.endpoint_name);
    const twins = alike.get(folded);
    if (twins) twins.push(device);
    else alike.set(folded, [device]);
  }
  const names = new Map<string, string>();
  for (const twins of alike.values()) {
    const length = twins.length > 1 ? distinguishingLength(twins.map(({ id }) => id)) : 0;
    for (const { id, endpoint_name: name } of twins) {
      names.set(id, length ? `${visible(name)} (${visible(id.slice(0, length))})` : visible(name));
    }
  }
  return names;
}

function foldedName(name: string): string {
  // Upper case first, for letters whose upper case has two characters.
  return name.normalize("NFKC").toUpperCase().toLowerCase().normalize("NFKC").replace(INVISIBLE, "");
}

function distinguishingLength(ids: string[]): number {
  const longest = Math.max(...ids.map((id) => id.length));
  let length = SHORTEST_ID;
  while (length < longest && new Set(ids.map((id) => id.slice(0, length))).size < ids.length) length += 1;
  return length;
}
