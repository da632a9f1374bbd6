/* Ids of elements. Preact's own useId() repeats them on a page with several widgets, each of which has its own root. */

import { useState } from "preact/hooks";

let made = 0;

/** An id that no other component of the page has, of any widget. */
export function useUniqueId(): string {
  return useState(() => {
    made += 1;
    return `mirror-id-${made}`;
  })[0];
}
