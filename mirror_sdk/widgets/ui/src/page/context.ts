/** What all components of the page share: its store, the time zone and the time. */

import { computed, signal } from "@preact/signals";
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { browserZone } from "../format";
import type { Store } from "./store";

const ZONE = "mirror-zone";
const TICK_MILLISECONDS = 5_000;

export const StoreContext = createContext<Store | null>(null);

export function useStore(): Store {
  const store = useContext(StoreContext);
  if (store === null) throw new Error("no store above this component");
  return store;
}

/** The time zone of displayed times: "UTC", or "" for the browser's own. */
export const zone = signal("");

export function chooseZone(name: string): void {
  zone.value = name;
  localStorage.setItem(ZONE, name);
}

/** Whether the browser's own zone is UTC, so that there is nothing to choose. */
export const isBrowserInUtc = (): boolean => browserZone() === "UTC";

const ticks = signal(Date.now());

/** Use the time zone that was chosen before, and let time pass. */
export function startClock(): void {
  zone.value = localStorage.getItem(ZONE) === "UTC" ? "UTC" : "";
  setInterval(() => (ticks.value = Date.now()), TICK_MILLISECONDS);
}

/** Return the server's time in milliseconds. It changes every few seconds. */
export function useNow(): number {
  const store = useStore();
  return computed(() => ticks.value + store.clockOffset.value).value;
}
