/** The layouts of the page: one column with tabs, two columns, or three. */

import { signal } from "@preact/signals";

export type Layout = "narrow" | "medium" | "wide";

const MEDIUM = "(min-width: 60rem)";
const WIDE = "(min-width: 100rem)";

export const layout = signal<Layout>("medium");

/** Follow the width of the window. */
export function watchLayout(): void {
  const [medium, wide] = [matchMedia(MEDIUM), matchMedia(WIDE)];
  const update = (): void => {
    layout.value = wide.matches ? "wide" : medium.matches ? "medium" : "narrow";
  };
  for (const query of [medium, wide]) query.addEventListener("change", update);
  update();
}

/** The parts of the page. In a narrow layout one is shown; in a wide one all of them. */
export type View = "devices" | "device" | "events" | "pending";

export const view = signal<View>("devices");
