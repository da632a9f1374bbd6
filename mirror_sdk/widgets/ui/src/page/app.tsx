/** The page: the top bar and its parts, in the layout that fits the window. */

import { useEffect } from "preact/hooks";
import { Button, Select } from "../controls";
import { browserZone, offset } from "../format";
import { PanelButton } from "../menu";
import { chooseZone, isBrowserInUtc, useStore, zone } from "./context";
import { DeviceCard } from "./device_card";
import { DeviceList } from "./device_list";
import { Events, StreamText } from "./events";
import { layout, type View, view } from "./layout";
import { PendingRequests } from "./pending";
import { Links, Logo, SignIn } from "./sign_in";

export function App() {
  const store = useStore();
  return store.phase.value === "signed-in" ? <SignedIn /> : <SignIn />;
}

function SignedIn() {
  const store = useStore();
  const message = store.message.value;
  const isNarrow = layout.value === "narrow";
  const isWide = layout.value === "wide";
  const isDeviceNamed = store.chosen.value !== null || store.missing.value !== null;
  useEffect(() => {
    view.value = isDeviceNamed ? "device" : "devices";
  }, [isDeviceNamed]);
  const shown = view.value === "devices" && !isNarrow ? "device" : view.value;
  const showDevice = (): void => {
    view.value = "device";
    if (isNarrow) requestAnimationFrame(() => document.getElementById("mirror-device-title")?.focus());
  };
  const showDevices = (): void => {
    view.value = "devices";
    requestAnimationFrame(() => document.getElementById("mirror-devices-title")?.focus());
  };
  return (
    <div class={`page-app page-app-${layout.value}${isNarrow && shown === "devices" ? " page-app-list" : ""}`}>
      <TopBar />
      <p id="mirror-status" role="status" aria-live="polite" class="page-banner" hidden={!message}>
        {message?.text ?? ""}
      </p>
      {isNarrow && <Tabs shown={shown} />}
      <main>
        {(!isNarrow || shown === "devices") && <DeviceList onChoose={showDevice} />}
        {isWide && <DeviceCard onBack={null} />}
        {isWide && (
          <div class="page-activity">
            <PendingRequests />
            <Events />
          </div>
        )}
        {!isWide && (!isNarrow || shown !== "devices") && (
          <div class="page-detail">
            {!isNarrow && <Tabs shown={shown} />}
            {shown === "device" && <DeviceCard onBack={isNarrow ? showDevices : null} />}
            {shown === "pending" && <PendingRequests />}
            {shown === "events" && <Events />}
          </div>
        )}
      </main>
    </div>
  );
}

function Tabs({ shown }: { shown: View }) {
  const store = useStore();
  const { requests, hasMore } = store.waiting.value;
  const tabs: [View, string, string][] = [
    ["device", "Device", ""],
    ["events", "Events", ""],
    ["pending", "Pending", requests.length ? `${requests.length}${hasMore ? "+" : ""}` : ""],
  ];
  if (layout.value === "narrow") tabs.unshift(["devices", "Devices", ""]);
  return (
    <nav class="page-tabs" aria-label="Parts of the page">
      {tabs.map(([name, label, number]) => (
        <button
          key={name}
          type="button"
          class="page-tab"
          aria-current={shown === name ? "page" : undefined}
          onClick={() => (view.value = name)}
        >
          {label}
          {number && <span class="page-pill">{number}</span>}
        </button>
      ))}
    </nav>
  );
}

function TopBar() {
  return (
    <header class="page-top">
      <h1>
        <Logo /> <span>Device state mirror</span>
      </h1>
      <StreamText />
      {layout.value === "narrow" ? (
        <PanelButton label="More" icon="more" isIcon>
          {() => <TopControls />}
        </PanelButton>
      ) : (
        <TopControls />
      )}
    </header>
  );
}

function TopControls() {
  const store = useStore();
  return (
    <div class="page-top-controls">
      <Links />
      <ZoneSelect />
      <Button label="Sign out" onClick={() => store.signOut()} />
    </div>
  );
}

/** The choice of the time zone. It is absent in a browser whose zone is UTC. */
function ZoneSelect() {
  if (isBrowserInUtc()) return <span class="mirror-dim mirror-zone">Times in UTC</span>;
  const choices = [
    { value: "", label: `${browserZone()} (${offsetText()})` },
    { value: "UTC", label: "UTC" },
  ];
  return <Select label="Time zone" isBare value={zone.value} choices={choices} onChange={chooseZone} />;
}

function offsetText(): string {
  const minutes = Math.round(offset(Date.now(), "") / 60_000);
  const two = (number: number): string => String(Math.trunc(number)).padStart(2, "0");
  return `UTC${minutes < 0 ? "-" : "+"}${two(Math.abs(minutes) / 60)}:${two(Math.abs(minutes) % 60)}`;
}
