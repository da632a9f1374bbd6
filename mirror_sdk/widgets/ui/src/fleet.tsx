/* The fleet: a row for each device, the worst first. A device opens in an explorer next to the table. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Bridge, Row } from "./bridge";
import { Button, Select, TextField } from "./controls";
import { Dialog } from "./dialog";
import { Empty } from "./empty";
import { Explorer, type ExplorerState } from "./explorer";
import { count, instantIn, shortInstant } from "./format";
import { Grid, type GridColumn, type GridLayout } from "./grid";
import { Menu } from "./menu";
import { Notices } from "./notices";
import { Legend, STATUSES, StatusText } from "./status";
import { WritePanel, type WriteState } from "./write_panel";
import { zone } from "./zone";

/** The arrangement of the table; the members are those of `FleetView` in Python. */
export interface FleetView {
  readonly columns: readonly string[];
  readonly group_by: string;
  readonly status: string;
  readonly search: string;
  readonly sort_by: string;
  readonly descending: boolean;
  readonly resource: string;
}

export interface FleetResource {
  readonly path: string;
  readonly label: string;
  readonly devices: number;
}

export interface FleetState {
  readonly notices: readonly string[];
  readonly isLoading: boolean;
  /** Milliseconds since 1970, by the mirror's clock; null before the fleet was read. */
  readonly takenAt: number | null;
  /** How far the mirror's clock is ahead of the clock here, in milliseconds. */
  readonly clockAhead: number;
  readonly devices: number;
  /** The number of devices by the name of their status, such as "failed", worst first. */
  readonly counts: Readonly<Record<string, number>>;
  readonly view: FleetView;
  readonly viewName: string;
  readonly viewNames: readonly string[];
  /** The file in which views are saved. */
  readonly viewsFile: string;
  readonly attributes: readonly string[];
  /** The name of the resource of the view; null if the main value of each device is shown. */
  readonly resource: string | null;
  readonly resources: readonly FleetResource[];
  readonly sparklineText: string;
  readonly selected: readonly string[];
  /** The number of selected devices that have a value in the table. */
  readonly selectedWithValue: number;
  readonly activity: string;
  readonly isActing: boolean;
  readonly explorer: ExplorerState | null;
  readonly writer: WriteState | null;
}

const SEARCH_STORED_AFTER_MS = 500;
const ATTRIBUTE = "attribute.";
const OBVIOUS = / · Sensor Value$/;

/** The word of a status by its name: "in_sync" is "In sync". */
export function wordOf(name: string): string {
  const words = name.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** The columns of the table in the order of the view; those that the view leaves out are last and hidden.

    In a narrow table the numbers of values go before the last contact, because the status names the worst and the filters
    above the table count the devices. */
export function columnsOf({ view, resource, attributes, sparklineText }: FleetState): GridColumn[] {
  const heading = resource === null ? "Value" : resource.replace(OBVIOUS, "");
  const all: GridColumn[] = [
    { name: "name", heading: "Device", width: 140, least: 76, pinned: true },
    { name: "status", heading: "Status", kind: "status", width: 118, least: 100 },
    { name: "value", heading, kind: "value", width: 84, rank: 1, hint: `Last reported: ${resource ?? "the main value of the device"}` },
    { name: "sparkline", heading: "Last 24 h", kind: "sparkline", width: 76, rank: 4, hint: `Last 24 h: ${sparklineText}` },
    { name: "last_contact", heading: "Last contact", kind: "age", width: 94, rank: 2, hint: "When the device last sent anything" },
    { name: "failed", heading: "Failed", kind: "count", rank: 3, width: 58, hint: "Writes that failed" },
    { name: "drifting", heading: "Drifting", kind: "count", rank: 3, width: 66, hint: "Values that differ from the desired ones" },
    { name: "pending", heading: "Pending", kind: "count", rank: 3, width: 66, hint: "Writes that have not ended" },
    { name: "stale", heading: "Stale", kind: "count", rank: 3, width: 52, hint: "Values that are overdue" },
    { name: "type", heading: "Type", width: 120, hidden: true },
    { name: "state", heading: "State", width: 100, hidden: true },
    ...attributes.map((name) => ({ name: ATTRIBUTE + name, heading: name, width: 110, hidden: true })),
  ];
  const place = new Map(view.columns.map((name, index) => [name, index]));
  const arranged = view.columns.length
    ? all
        .map((column) => ({ ...column, hidden: !place.has(column.name) }))
        .sort((one, other) => (place.get(one.name) ?? all.length) - (place.get(other.name) ?? all.length))
    : all;
  return arranged.map((column) =>
    column.name === view.sort_by ? { ...column, sort: view.descending ? ("desc" as const) : ("asc" as const) } : column,
  );
}

export function Fleet({ bridge }: { bridge: Bridge<FleetState> }) {
  const state = bridge.state.value;
  const { view, selected } = state;
  const [search, setSearch] = useStoredSearch(view.search, (text) => bridge.intent("change_view", { search: text }));
  const word = view.status ? wordOf(view.status) : "";
  const shows = useMemo(() => (word ? (row: Row) => row.status === word : undefined), [word]);
  const side = useRef<HTMLDivElement>(null);
  const openedId = state.explorer?.deviceId ?? null;
  useEffect(() => {
    if (openedId !== null) side.current?.scrollIntoView({ block: "nearest" });
  }, [openedId]);
  const change = (changes: Partial<FleetView>) => bridge.intent("change_view", changes as Record<string, string>);
  const rows = bridge.rows("devices");
  return (
    <div class="mirror-stack mirror-fleet">
      <Notices texts={state.notices} onDismiss={() => bridge.intent("dismiss")} />
      <div class="mirror-head">
        <h3 class="mirror-title">Fleet</h3>
        <span class="mirror-dim mirror-fleet-summary">
          {count(state.devices, "device")}
          {state.takenAt !== null && (
            <span title={instantIn(state.takenAt, zone.value)}>
              {" · as of "}
              {shortInstant(state.takenAt, zone.value, Date.now() + state.clockAhead)}
            </span>
          )}
        </span>
        <span class="mirror-bar-end">
          <Views bridge={bridge} />
          <Button label="Read the fleet again" icon="refresh" isIcon onClick={() => bridge.intent("load")} />
        </span>
      </div>
      <StatusFilter counts={state.counts} devices={state.devices} status={view.status} onChange={(status) => change({ status })} />
      <div class={`mirror-sides ${state.explorer ? "mirror-sides-open" : ""}`}>
        <div class="mirror-stack">
          <Grid
            label="Fleet"
            columns={columnsOf(state)}
            rows={rows}
            selection="many"
            selected={selected}
            onSelect={(keys) => bridge.intent("select", keys)}
            onOpen={(key) => bridge.intent("open", key)}
            search={search}
            onSearch={setSearch}
            group={view.group_by}
            shows={shows}
            maxHeight={460}
            zone={zone.value}
            clockAhead={state.clockAhead}
            onLayout={({ columns, sort }: GridLayout) =>
              change({ columns, sort_by: sort?.name ?? "", descending: sort?.isDescending ?? false })
            }
            tools={selected.length ? <Acts bridge={bridge} /> : <Arrangement state={state} change={change} />}
            empty={
              state.isLoading ? (
                <Empty kind="loading" title="Reading the fleet …" />
              ) : (
                <Empty title={state.takenAt === null ? "The fleet could not be read" : "The directory lists no device"}>
                  {state.takenAt === null
                    ? "The notice above says why. Read the fleet again when the service responds."
                    : "A device appears here when it registers."}
                </Empty>
              )
            }
          />
          <Legend words={Object.keys(state.counts).map(wordOf)} />
        </div>
        {state.explorer && (
          <div class="mirror-side" ref={side}>
            <Explorer bridge={bridge.part<ExplorerState>("explorer")} onClose={() => bridge.intent("close_explorer")} />
          </div>
        )}
      </div>
      {state.writer && (
        <section class="mirror-side" aria-label="Write">
          <span class="mirror-close">
            <Button label="Close the panel" icon="close" isIcon onClick={() => bridge.intent("close_writer")} />
          </span>
          <WritePanel bridge={bridge.part<WriteState>("writer")} />
        </section>
      )}
    </div>
  );
}

/* The search is immediate here. Python stores it a little later, as a part of the view. */
function useStoredSearch(stored: string, store: (text: string) => void): [string, (text: string) => void] {
  const [text, setText] = useState(stored);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => {
    if (timer.current === undefined) setText(stored);
  }, [stored]);
  return [
    text,
    (typed) => {
      setText(typed);
      clearTimeout(timer.current);
      timer.current = setTimeout(() => {
        timer.current = undefined;
        store(typed);
      }, SEARCH_STORED_AFTER_MS);
    },
  ];
}

interface StatusFilterProps {
  readonly counts: Readonly<Record<string, number>>;
  readonly devices: number;
  readonly status: string;
  onChange(status: string): void;
}

/** The number of devices with each status, as buttons that show only these. */
export function StatusFilter({ counts, devices, status, onChange }: StatusFilterProps) {
  return (
    <div class="mirror-chips" role="group" aria-label="Devices by status">
      <button type="button" class="mirror-chip" aria-pressed={!status} onClick={() => onChange("")}>
        All <b>{devices.toLocaleString("en")}</b>
      </button>
      {Object.entries(counts).map(([name, size]) =>
        size || name === status ? (
          <button
            type="button"
            key={name}
            class="mirror-chip"
            aria-pressed={name === status}
            title={STATUSES.get(wordOf(name))?.meaning}
            onClick={() => onChange(name === status ? "" : name)}
          >
            <StatusText word={wordOf(name)} /> <b>{size.toLocaleString("en")}</b>
          </button>
        ) : null,
      )}
    </div>
  );
}

function Arrangement({ state, change }: { state: FleetState; change(changes: Partial<FleetView>): void }) {
  const { view, attributes, resource, resources } = state;
  const groups = [
    { value: "", label: "none" },
    { value: "type", label: "Type" },
    { value: "status", label: "Status" },
    { value: "state", label: "State" },
    ...attributes.map((name) => ({ value: ATTRIBUTE + name, label: name })),
  ];
  const values = [
    { value: "", label: "Main value" },
    ...resources.map(({ path, label }) => ({ value: path, label: label.replace(OBVIOUS, "") })),
  ];
  if (resource !== null && !resources.some(({ path }) => path === view.resource)) values.push({ value: view.resource, label: resource });
  return (
    <>
      <Select label="Group by" choices={groups} value={view.group_by} onChange={(group_by) => change({ group_by })} />
      <Select label="Show" choices={values} value={view.resource} onChange={(path) => change({ resource: path })} />
    </>
  );
}

/** The actions for the selected devices. */
function Acts({ bridge }: { bridge: Bridge<FleetState> }) {
  const { selected, resource, selectedWithValue: size, activity, isActing } = bridge.state.value;
  const of = `${resource ?? "the displayed value"} of ${count(size, "selected device")}`;
  return (
    <>
      <Button label="Open" hint="Show the first selected device in detail" isPrimary onClick={() => bridge.intent("open", selected[0] ?? "")} />
      <Button label="Write…" hint="Open a panel that writes to the selected devices" onClick={() => bridge.intent("write")} />
      <Button label="Read" hint={`Read ${of} now`} isDisabled={isActing || !size} onClick={() => bridge.intent("read_selected")} />
      <Button label="Subscribe" hint={`Subscribe to ${of}`} isDisabled={isActing || !size} onClick={() => bridge.intent("subscribe_selected")} />
      <Button label="Clear the selection" icon="close" isIcon onClick={() => bridge.intent("select", [])} />
      {activity && (
        <span class="mirror-dim" role="status">
          {activity}
        </span>
      )}
    </>
  );
}

/** The saved views, and the dialog that saves one. */
function Views({ bridge }: { bridge: Bridge<FleetState> }) {
  const { viewName, viewNames, viewsFile } = bridge.state.value;
  const [isSaving, setSaving] = useState(false);
  const [name, setName] = useState("");
  const save = () => {
    bridge.intent("save_view", name);
    setSaving(false);
  };
  return (
    <>
      <Menu
        label={viewName || "Views"}
        hint="Saved views: columns, groups, filters and the displayed resource"
        items={[
          { label: "Usual view", onClick: () => bridge.intent("open_view", "") },
          ...viewNames.map((one) => ({ label: one, onClick: () => bridge.intent("open_view", one) })),
          null,
          {
            label: "Save this view…",
            onClick: () => {
              setName(viewName);
              setSaving(true);
            },
          },
          ...(viewName ? [{ label: `Delete “${viewName}”`, onClick: () => bridge.intent("delete_view", viewName) }] : []),
        ]}
      />
      {isSaving && (
        <Dialog label="Save this view" onClose={() => setSaving(false)}>
          <form
            class="mirror-stack"
            onSubmit={(event) => {
              event.preventDefault();
              save();
            }}
          >
            <strong>Save this view</strong>
            <p class="mirror-dim">
              The columns, the groups, the filters, the order and the displayed resource are stored in {viewsFile} under this name. A view
              with the same name is replaced.
            </p>
            <TextField label="Name" value={name} isEager onChange={setName} />
            <div class="mirror-bar">
              <Button label="Save" isPrimary isDisabled={!name.trim()} onClick={save} />
              <Button label="Cancel" onClick={() => setSaving(false)} />
            </div>
          </form>
        </Dialog>
      )}
    </>
  );
}
