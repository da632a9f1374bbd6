/* The meanings of colors. No tone stands alone: a sign or a word is always next to it. */

export type Tone = "bad" | "warn" | "note" | "good" | "dim";
export const TONES: readonly Tone[] = ["bad", "warn", "note", "good", "dim"];

/** Whether a cell has content. */
export function isShown(value: unknown): boolean {
  return value !== null && value !== undefined && value !== "";
}
