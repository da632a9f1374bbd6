/** The chosen device: its name, status, attributes and connection, and its resources. */

import type { ComponentChildren } from "preact";
import { Empty } from "../empty";
import { StatusText } from "../status";
import { useStore } from "./context";
import { DEVICE_STATUSES } from "./device_status";
import { visible } from "./names";
import { Age } from "./parts";
import { Resources } from "./resources";
import type { Connection, Device } from "./wire";

const CARRIERS: Record<string, string> = { coap: "CoAP", coaps: "CoAP with DTLS" };

export function DeviceCard({ onBack }: { onBack: (() => void) | null }) {
  const store = useStore();
  const device = store.device.value;
  return (
    <section class="page-card page-device" aria-labelledby="mirror-device-title">
      {onBack && (
        <button type="button" class="mirror-button page-back-button" onClick={onBack}>
          Back to the devices
        </button>
      )}
      {device ? <ChosenDevice device={device} /> : <NoDevice />}
    </section>
  );
}

function NoDevice() {
  const missing = useStore().missing.value;
  return (
    <>
      <h2 id="mirror-device-title" class="page-card-head" tabIndex={-1}>
        {missing === null ? "Fleet" : "Device"}
      </h2>
      {missing === null ? (
        <Overview />
      ) : (
        <Empty kind="error" title={`There is no device with the id ${visible(missing)}.`}>
          It may have been erased. Choose another device in the list.
        </Empty>
      )}
    </>
  );
}

/** The number of devices by status. */
function Overview() {
  const store = useStore();
  const { rows, version } = store.fleet.value;
  void version.value;
  const counts = new Map<string, number>();
  for (const row of rows.all) counts.set(String(row["status"]), (counts.get(String(row["status"])) ?? 0) + 1);
  return (
    <>
      <ul class="page-overview">
        {DEVICE_STATUSES.filter((word) => counts.has(word)).map((word) => (
          <li key={word}>
            <button
              type="button"
              title={`Search for ${word} in the list`}
              onClick={() => store.filter({ ...store.filters.value, name: word })}
            >
              <strong>{counts.get(word)?.toLocaleString("en")}</strong>
              <StatusText word={word} />
            </button>
          </li>
        ))}
      </ul>
      <Empty title="No device chosen">Choose a device in the list to see its values, and to read, write and subscribe.</Empty>
    </>
  );
}

function ChosenDevice({ device }: { device: Device }) {
  const store = useStore();
  const fleet = store.fleet.value;
  void fleet.version.value;
  const status = String(fleet.rows.get(device.id)?.["status"] ?? "");
  const hint = fleet.rows.get(device.id)?.hints?.["status"] ?? "";
  const isOffline = device.state !== "registered";
  return (
    <>
      <header class="page-device-head">
        <h2 id="mirror-device-title" tabIndex={-1}>
          {fleet.nameOf(device.id)}
        </h2>
        <span class="page-device-status" title={hint}>
          {status && <StatusText word={status} />}
          {isOffline && status !== "Offline" && <StatusText word="Offline" />}
        </span>
        <Facts device={device} />
        {device.description && <p class="page-device-description">{visible(device.description)}</p>}
        <ConnectionText connection={store.connection.value} />
      </header>
      <Resources device={device} />
    </>
  );
}

function Facts({ device }: { device: Device }) {
  const { endpoint_type: type, queue_mode: sleeps, endpoint_name: endpoint, name, custom_attributes: attributes = {}, id } = device;
  return (
    <ul class="page-facts" aria-label="Attributes">
      {name && name !== endpoint && <Fact name="Name">{visible(name)}</Fact>}
      {type && <Fact name="Type">{visible(type)}</Fact>}
      <Fact name="State">{device.state}</Fact>
      {sleeps && <li title="The device uses queue mode: it gets requests at its next contact.">sleeps</li>}
      {Object.entries(attributes).map(([attribute, value]) => (
        <Fact key={attribute} name={visible(attribute)}>
          {visible(value)}
        </Fact>
      ))}
      <Fact name="Id">
        <code>{id}</code>
      </Fact>
    </ul>
  );
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <li>
      <span class="mirror-dim">{name}</span> {children}
    </li>
  );
}

function ConnectionText({ connection }: { connection: Connection | null }) {
  // The line exists from the beginning. Otherwise, its arrival would move the resources away from the pointer.
  if (!connection) return <p class="page-connection">&nbsp;</p>;
  const { binding, reachable, lifetime_seconds: lifetime, last_contact_at: lastContact, address } = connection;
  const parts = [
    protocolText(connection),
    binding && `binding ${visible(binding)}`,
    reachable ? "reachable" : "not reachable now",
    `lifetime ${lifetime.toLocaleString("en")} s`,
    address && `from ${visible(address)}`,
  ];
  return (
    <p class="page-connection mirror-dim">
      {parts.filter(Boolean).join(" · ")} · last contact <Age at={lastContact} />
    </p>
  );
}

function protocolText({ protocol = "", lwm2m_version: version }: Connection): string {
  const carrier = CARRIERS[protocol];
  if (!carrier) return visible(protocol);
  return `LwM2M ${version ? `${visible(version)} ` : ""}over ${carrier}`;
}
