/* Ranges of instants that Python can represent. */

import type { Range } from "./chart";

/* The years of Python. A day is missing at both ends, so that the ends have such a year in every time zone. */
const EARLIEST = Date.parse("0001-01-02T00:00:00Z");
const LATEST = Date.parse("9999-12-31T00:00:00Z");

/** Move a range into the years 1 to 9999, and shorten it if it is longer than these. */
export function withinYears({ begin, end }: Range): Range {
  const length = Math.min(end - begin, LATEST - EARLIEST);
  const moved = Math.min(Math.max(begin, EARLIEST), LATEST - length);
  return { begin: moved, end: moved + length };
}
