/* The time zone in which this browser shows instants: the same for all widgets and for the page, and for later visits. */

import { signal } from "@preact/signals";

const NAME = "mirror-time-zone";

function stored(): string {
  try {
    return localStorage.getItem(NAME) ?? "";
  } catch {
    // A page without storage starts in the zone of the browser.
    return "";
  }
}

/** A name of a time zone, such as "UTC"; "" is the zone of the browser. */
export const zone = signal(stored());

export function chooseZone(name: string): void {
  zone.value = name;
  try {
    localStorage.setItem(NAME, name);
  } catch {
    // It is stored only while the page is open.
  }
}
