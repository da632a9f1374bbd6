/* Ids of elements. Preact's own useId() repeats them on a page with several widgets, each of which is a root of its own. */

import { useState } from "preact/hooks";

let made = 0;

/** An id that no other component of the page has, of any widget. */
export function useUniqueId(): string {
  return useState(() => {
    made += 1;
    return `mirror-id-${made}`;
  })[0];
}
