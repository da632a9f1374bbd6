/** The devices, with their statuses and live values. */

import { computed } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Row } from "../bridge";
import { Select } from "../controls";
import { Empty } from "../empty";
import { Grid, type GridColumn } from "../grid";
import { useStore, zone } from "./context";
import { meets } from "./fleet";
import { visible } from "./names";

const STATES = ["registered", "deregistered"];

const COLUMNS: readonly GridColumn[] = [
  { name: "name", heading: "Device", width: 150, sort: "asc" },
  { name: "status", heading: "Status", kind: "status", width: 118, least: 100 },
  { name: "value", heading: "Value", kind: "value", width: 75, hint: "The main value of the device" },
  { name: "last_contact", heading: "Last contact", kind: "age", width: 100, rank: 1 },
  { name: "failed", heading: "Failed", kind: "count", width: 70, hidden: true },
  { name: "drifting", heading: "Drifting", kind: "count", width: 70, hidden: true },
  { name: "pending", heading: "Pending", kind: "count", width: 70, hidden: true },
  { name: "stale", heading: "Stale", kind: "count", width: 70, hidden: true },
  { name: "type", heading: "Type", width: 100, hidden: true },
  { name: "state", heading: "State", width: 100, hidden: true },
];

export function DeviceList({ onChoose }: { onChoose: () => void }) {
  const store = useStore();
  const fleet = store.fleet.value;
  const filters = store.filters.value;
  const whole = useRef<HTMLDivElement>(null);
  useEffect(() => {
    // The grid renders only rows in view.
    store.visibleDevices = () => {
      const rows = whole.current?.querySelectorAll("[row-id]") ?? [];
      return new Set([...rows].map((row) => row.getAttribute("row-id") ?? ""));
    };
    return () => void (store.visibleDevices = () => new Set());
  }, [store]);
  const chosen = store.chosen.value;
  const selected = useMemo(() => (chosen === null ? [] : [chosen]), [chosen]);
  const shows = useMemo(() => (row: Row) => meets(row, { ...filters, name: "" }), [filters.type, filters.state]);
  const open = (deviceId: string): void => {
    store.choose(deviceId);
    onChoose();
  };
  return (
    <div class="page-card page-devices" ref={whole}>
      <h2 id="mirror-devices-title" class="page-card-head" tabIndex={-1}>
        Devices
      </h2>
      <Grid
        label="Devices"
        columns={COLUMNS}
        rows={fleet.rows}
        selection="one"
        selected={selected}
        onSelect={([deviceId]) => deviceId !== undefined && open(deviceId)}
        onOpen={open}
        onPress={open}
        search={filters.name}
        onSearch={(name) => store.filter({ ...filters, name })}
        shows={shows}
        tools={<FilterFields />}
        height="100%"
        zone={zone.value}
        clockAhead={store.clockOffset.value}
        empty={<NoDevices />}
      />
      <PartOfFleet />
    </div>
  );
}

function FilterFields() {
  const store = useStore();
  const filters = store.filters.value;
  const types = store.fleet.value.types.value;
  const choices = [...new Set([...types, filters.type])].filter(Boolean);
  return (
    <>
      <Select
        label="Type"
        isBare
        value={filters.type}
        choices={[{ value: "", label: "All types" }, ...choices.map((value) => ({ value, label: visible(value) }))]}
        onChange={(type) => store.filter({ ...filters, type })}
      />
      <Select
        label="State"
        isBare
        value={filters.state}
        choices={[{ value: "", label: "All states" }, ...STATES.map((value) => ({ value, label: value }))]}
        onChange={(state) => store.filter({ ...filters, state })}
      />
    </>
  );
}

function NoDevices() {
  return <Empty title="No devices">A device appears here when it registers.</Empty>;
}

/** A note that the fleet is too large to be listed completely. */
function PartOfFleet() {
  const { isPartial, total, rows } = useStore().fleet.value;
  const listed = computed(() => {
    void rows.version.value;
    return rows.size;
  }).value;
  if (!isPartial.value) return null;
  return (
    <p class="page-note">
      {`Of ${total.value.toLocaleString("en")} devices the first ${listed.toLocaleString("en")} are listed. To find others, `}
      search for the beginning of a name, or choose a type or a state.
    </p>
  );
}
