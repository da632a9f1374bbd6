/* A field for a name, or for several names separated by commas, with completion. */

import { TextField } from "./controls";
import { useUniqueId } from "./unique_id";

const MOST_OFFERED = 20;
/** Longer texts may be cut, so that they need a tooltip. */
const MOST_SHOWN = 20;

export interface NameFieldProps {
  readonly label: string;
  readonly value: string;
  /** The names to choose from. */
  readonly names: readonly string[];
  /** Whether the field takes one name only. */
  readonly isSingle?: boolean;
  readonly placeholder?: string;
  readonly problem?: string;
  readonly isBare?: boolean;
  onChange(text: string): void;
}

interface Typed {
  before: string;
  begun: string;
}

function split(text: string): Typed {
  const comma = text.lastIndexOf(",") + 1;
  return { before: comma ? `${text.slice(0, comma)} ` : "", begun: text.slice(comma).trimStart() };
}

/** The names that match the text, first those that begin with it. */
export function matching(names: readonly string[], { before, begun }: Typed): { beginning: string[]; all: string[] } {
  const given = new Set(before.split(",").map((name) => name.trim()));
  const sought = begun.toLowerCase();
  const open = names.filter((name) => !given.has(name) && !name.includes(",") && name.toLowerCase().includes(sought));
  const beginning = open.filter((name) => name.toLowerCase().startsWith(sought));
  return { beginning, all: [...beginning, ...open.filter((name) => !beginning.includes(name))] };
}

function commonPrefix(names: readonly string[]): string {
  const first = names[0] ?? "";
  let length = 0;
  while (length < first.length && names.every((name) => name[length] === first[length])) length += 1;
  return first.slice(0, length);
}

export function NameField({ names, isSingle = false, value, ...rest }: NameFieldProps) {
  const id = useUniqueId();
  const complete = (event: KeyboardEvent) => {
    const input = event.currentTarget as HTMLInputElement;
    if (event.key !== "Tab" || event.shiftKey || isSingle) return;
    const typed = split(input.value);
    const { beginning } = typed.begun ? matching(names, typed) : { beginning: [] };
    const completed = commonPrefix(beginning);
    // If there is nothing to complete, Tab moves to the next field as usual.
    if (completed.length <= typed.begun.length) return;
    event.preventDefault();
    input.value = typed.before + completed;
    input.dispatchEvent(new Event("input", { bubbles: true }));
  };
  const offer = (event: Event) => {
    const list = document.getElementById(id);
    const typed = split((event.currentTarget as HTMLInputElement).value);
    const offered = isSingle ? names : matching(names, typed).all.slice(0, MOST_OFFERED).map((name) => typed.before + name);
    list?.replaceChildren(...offered.map((name) => Object.assign(document.createElement("option"), { value: name })));
  };
  const title = value.length > MOST_SHOWN ? value : undefined;
  const attributes = { list: id, title, onFocus: offer, onKeyUp: offer, onKeyDownCapture: complete };
  return (
    <TextField {...rest} value={value} attributes={attributes}>
      <datalist id={id} />
    </TextField>
  );
}
