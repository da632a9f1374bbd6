/* Numbers about a line within a range of time. NaN interrupts a line. */

import type { Points } from "./bridge";
import type { Range } from "./chart";

export interface Stats {
  readonly last: number;
  readonly lastAt: number;
  readonly min: number;
  readonly max: number;
  readonly mean: number;
  readonly count: number;
}

/** The index of the first point at or after an instant. */
export function firstAt(at: Float64Array, instant: number): number {
  let low = 0;
  let high = at.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((at[middle] as number) < instant) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The numbers of a line in a range; null without a point there. */
export function statsOf({ at, values }: Points, { begin, end }: Range): Stats | null {
  let count = 0;
  let sum = 0;
  let min = Infinity;
  let max = -Infinity;
  let last = NaN;
  let lastAt = NaN;
  for (let index = firstAt(at, begin); index < at.length && (at[index] as number) <= end; index += 1) {
    const value = values[index] as number;
    if (Number.isNaN(value)) continue;
    count += 1;
    sum += value;
    min = Math.min(min, value);
    max = Math.max(max, value);
    last = value;
    lastAt = at[index] as number;
  }
  return count ? { last, lastAt, min, max, mean: sum / count, count } : null;
}

/** The lowest and the highest number that is drawn in a range, with the lines that lead into and out of it. */
export function extentOf({ at, values }: Points, { begin, end }: Range): readonly [number, number] | null {
  let low = Infinity;
  let high = -Infinity;
  const first = Math.max(0, firstAt(at, begin) - 1);
  const after = Math.min(at.length, firstAt(at, end) + 1);
  for (let index = first; index < after; index += 1) {
    const value = values[index] as number;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : null;
}

/** How many milliseconds of a range a line was above a level. Between two points it is straight, unless it is stepped. */
export function timeAbove({ at, values }: Points, { begin, end }: Range, level: number, isStepped = false): number {
  let above = 0;
  for (let index = Math.max(1, firstAt(at, begin)); index < at.length && (at[index - 1] as number) < end; index += 1) {
    const [from, to] = [at[index - 1] as number, at[index] as number];
    const one = values[index - 1] as number;
    const after = values[index] as number;
    if (Number.isNaN(one) || Number.isNaN(after) || to <= from) continue;
    const other = isStepped ? one : after;
    if (one <= level && other <= level) continue;
    const crossing = from + ((level - one) / (other - one)) * (to - from);
    const first = one > level ? from : crossing;
    const last = other > level ? to : crossing;
    above += Math.max(0, Math.min(last, end) - Math.max(first, begin));
  }
  return above;
}

/** The index of the point of a stepped line whose value lasts at an instant; -1 for none, and after the last point. */
export function lastBefore({ at, values }: Points, instant: number): number {
  const after = firstAt(at, instant);
  return after < at.length && !Number.isNaN(values[after] as number) && !Number.isNaN(values[after - 1] ?? NaN) ? after - 1 : -1;
}

/** The index of the point of a line that is nearest to an instant, and not further than `within`; -1 for none. */
export function nearest({ at, values }: Points, instant: number, within: number): number {
  const after = firstAt(at, instant);
  let found = -1;
  let distance = within;
  for (const step of [-1, 1]) {
    let index = step < 0 ? after - 1 : after;
    while (index >= 0 && index < at.length && Number.isNaN(values[index] as number)) index += step;
    const away = Math.abs((at[index] ?? Infinity) - instant);
    if (away <= distance) [found, distance] = [index, away];
  }
  return found;
}
