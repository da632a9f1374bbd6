/* A line without axes, for a cell of a table or a card. */

const WIDTH = 96;
const HEIGHT = 20;
const NAMESPACE = "http://www.w3.org/2000/svg";

export interface SparklineData {
  /** Milliseconds since 1970, in order. */
  readonly at: readonly number[];
  /** A number for each instant; null interrupts the line. */
  readonly values: readonly (number | null)[];
}

/** The path of a line in a box of 96 by 20. */
export function pathOf({ at, values }: SparklineData): string {
  const numbers = values.filter((value) => value !== null);
  if (!numbers.length) return "";
  const begin = at[0] ?? 0;
  const length = Math.max(1, (at.at(-1) ?? 0) - begin);
  let low = Infinity;
  let high = -Infinity;
  for (const value of numbers) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  const y = (value: number) => (high === low ? HEIGHT / 2 : 2 + (1 - (value - low) / (high - low)) * (HEIGHT - 4));
  let path = "";
  let isBroken = true;
  values.forEach((value, index) => {
    if (value === null) {
      isBroken = true;
      return;
    }
    const x = 1 + (((at[index] ?? begin) - begin) / length) * (WIDTH - 2);
    path += `${isBroken ? "M" : "L"}${x.toFixed(1)} ${y(value).toFixed(1)}`;
    isBroken = false;
  });
  return path;
}

/** The element of a sparkline, for a cell of a table. */
export function sparkline(data: SparklineData | null | undefined): HTMLElement {
  const box = document.createElement("span");
  box.className = "mirror-sparkline";
  const path = data ? pathOf(data) : "";
  if (!path) return box;
  const picture = document.createElementNS(NAMESPACE, "svg");
  picture.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  picture.setAttribute("preserveAspectRatio", "none");
  picture.setAttribute("aria-hidden", "true");
  const line = document.createElementNS(NAMESPACE, "path");
  line.setAttribute("d", path);
  line.setAttribute("vector-effect", "non-scaling-stroke");
  picture.append(line);
  box.append(picture);
  return box;
}

export function Sparkline({ data }: { data: SparklineData }) {
  return (
    <span class="mirror-sparkline">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
        <path d={pathOf(data)} vector-effect="non-scaling-stroke" />
      </svg>
    </span>
  );
}
