/** The entry of the server's page. */

import { render } from "preact";
import { axisNumber } from "../chart_panel";
import { number, parsedInstant, quantity } from "../format";
import { adopt, adoptStyles } from "../styles";
import { labelOf } from "../time_range";
import pageStyles from "../../page.css";
import { App } from "./app";
import { startClock, StoreContext } from "./context";
import { DEVICE_STATUSES, DeviceSummary } from "./device_status";
import type { Limits } from "./fleet";
import { Session } from "./http";
import { watchLayout } from "./layout";
import { displayNames } from "./names";
import { loadObjects } from "./objects";
import { Store } from "./store";
import { readTyped } from "./typed";
import { valueText } from "./values";

/** Show the page in an element. `limits` are for tests. */
export function mountPage(root: HTMLElement, limits: Partial<Limits> = {}): void {
  adoptStyles();
  adopt(pageStyles);
  startClock();
  watchLayout();
  const store = new Store(limits);
  root.classList.add("mirror-ui", "mirror-page");
  render(
    <StoreContext.Provider value={store}>
      <App />
    </StoreContext.Provider>,
    root,
  );
  addEventListener("hashchange", store.followAddress);
  addEventListener("popstate", store.followAddress);
  store.resume();
}

/** Functions that tests call, most of them to compare them with those of the client. */
export const comparable = {
  axisNumber, DEVICE_STATUSES, DeviceSummary, displayNames, labelOf, loadObjects, number, parsedInstant, quantity, readTyped, valueText, Session,
};
