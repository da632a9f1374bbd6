/* Devices, and one of them in detail: its card, its resources, and the past of a resource. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Bridge, Row, SeriesSource } from "./bridge";
import { Chart, type ChartPanel, type StateRow } from "./chart";
import { Button, Checkbox, Choices, TextField } from "./controls";
import { Empty } from "./empty";
import { ago, count, instantIn } from "./format";
import { Grid, type GridColumn } from "./grid";
import { Menu } from "./menu";
import { Notices } from "./notices";
import { Legend, StatusText } from "./status";
import { ValueField, type ValueForm } from "./value_field";
import { WritePanel, sentence, type WriteState } from "./write_panel";
import { zone } from "./zone";

export interface Card {
  readonly name: string;
  readonly id: string;
  readonly type: string;
  readonly description: string;
  readonly state: string;
  readonly attributes: readonly (readonly [name: string, value: string])[];
  readonly connection: readonly (readonly [name: string, value: string])[];
  readonly isReachable: boolean | null;
  readonly lastContact: number | null;
  readonly lastReported: number | null;
}

/** The resource that is shown in detail. */
export interface Detail {
  readonly path: string;
  readonly label: string;
  readonly form: ValueForm & { readonly hint: string };
  readonly text: string;
  readonly problem: string;
  readonly isWritable: boolean;
  readonly isExecutable: boolean;
  /** Whether its line has steps; see `ChartLine`. */
  readonly isStepped: boolean;
  /** The texts over time, of a resource that has no numbers. */
  readonly states: readonly { readonly begin: number; readonly end: number | null; readonly text: string }[];
}

export interface ExplorerState {
  readonly notices: readonly string[];
  /** Whether the list of devices is shown. */
  readonly hasList: boolean;
  readonly devicesText: string;
  readonly isReadingDevices: boolean;
  readonly deviceId: string | null;
  readonly title: string;
  readonly subtitle: string;
  readonly isReading: boolean;
  readonly card: Card | null;
  readonly asOf: number | null;
  readonly clockAheadMs: number;
  readonly selected: readonly string[];
  readonly emptyText: string;
  readonly detail: Detail | null;
  readonly hours: number;
  readonly pastText: string;
  readonly writer: WriteState | null;
}

const DEVICES: readonly GridColumn[] = [
  { name: "name", heading: "Device", width: 110 },
  { name: "last_contact", heading: "Last contact", kind: "age", width: 92, fixed: true },
  { name: "state", heading: "State", width: 90, hidden: true },
  { name: "type", heading: "Type", width: 110, hidden: true },
];

const RESOURCES: readonly GridColumn[] = [
  { name: "name", heading: "Resource", width: 112, least: 90 },
  { name: "value", heading: "Value", kind: "value", width: 88 },
  { name: "desired", heading: "Desired", kind: "value", width: 76, rank: 2, isSparse: true, hint: "The desired value, if it differs from the reported one" },
  { name: "sparkline", heading: "Last 24 h", kind: "sparkline", width: 84, rank: 4 },
  { name: "status", heading: "Status", kind: "status", width: 112, rank: 1 },
  { name: "reported_at", heading: "Reported", kind: "age", width: 92, rank: 3 },
  { name: "subscription", heading: "Subscription", width: 98, rank: 6, isSparse: true },
  { name: "activity", heading: "Request", width: 80, rank: 5, isSparse: true },
  { name: "path", heading: "Path", width: 100, hidden: true },
];

const IF_FILLED: ReadonlySet<string> = new Set(["status", "desired", "subscription", "activity"]);

const HOURS = [
  { value: "1", label: "1 h" },
  { value: "6", label: "6 h" },
  { value: "24", label: "24 h" },
  { value: "168", label: "7 d" },
];
const HOUR_MS = 3_600_000;
const OPENED_AFTER_MS = 150;

export function Explorer({ bridge, onClose }: { bridge: Bridge<ExplorerState>; onClose?(): void }) {
  const state = bridge.state.value;
  // The choice remains when another device is chosen.
  const [showsMinor, setShowsMinor] = useState(false);
  return (
    <div class="mirror-stack mirror-explorer">
      <Notices texts={state.notices} onDismiss={() => bridge.intent("dismiss")} />
      <div class={state.hasList ? "mirror-list-and-rest" : ""}>
        {state.hasList && (
          <Grid
            label="Devices"
            columns={DEVICES}
            rows={bridge.rows("devices")}
            selection="one"
            selected={state.deviceId === null ? [] : [state.deviceId]}
            onSelect={([key]) => key !== undefined && bridge.intent("choose", key)}
            maxHeight={560}
            zone={zone.value}
            clockAhead={state.clockAheadMs}
            empty={
              <Empty kind={state.isReadingDevices ? "loading" : "empty"} title={sentence(state.devicesText)} />
            }
          />
        )}
        <div class="mirror-stack">
          <DeviceCard state={state} onClose={onClose} />
          {state.card ? (
            <Device bridge={bridge} showsMinor={showsMinor} setShowsMinor={setShowsMinor} />
          ) : (
            <Empty kind={state.isReading ? "loading" : "empty"} title={state.deviceId === null ? "No device chosen" : state.title}>
              {sentence(state.subtitle)}
            </Empty>
          )}
        </div>
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

/** The name, the type, the attributes and the connection of a device. */
export function DeviceCard({ state, onClose }: { state: ExplorerState; onClose?(): void }) {
  const { card } = state;
  if (card === null) return null;
  const now = Date.now() + state.clockAheadMs;
  const isRegistered = card.state !== "deregistered";
  const reach = card.isReachable === null ? "" : card.isReachable ? "reachable" : "not reachable now";
  const facts: (readonly [string, string, string?])[] = [
    ["Type", card.type],
    ["Last contact", ago(card.lastContact, now), instantIn(card.lastContact, zone.value)],
    ["Last report", card.lastReported === null ? "never" : ago(card.lastReported, now), instantIn(card.lastReported, zone.value)],
    ...card.attributes,
    ...card.connection,
    ["Device id", card.id],
  ];
  return (
    <div class="mirror-card">
      <div class="mirror-head">
        <h3 class="mirror-title">{card.name}</h3>
        {isRegistered ? reach && <span class={card.isReachable ? "mirror-tone-good" : "mirror-dim"}>● {reach}</span> : <StatusText word="Offline" />}
        {onClose && (
          <span class="mirror-bar-end">
            <Button label="Close the device" icon="close" isIcon onClick={onClose} />
          </span>
        )}
      </div>
      {card.description && <p class="mirror-dim">{card.description}</p>}
      <dl class="mirror-facts">
        {facts
          .filter(([, text]) => text)
          .map(([name, text, hint]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd title={hint ?? text}>{text}</dd>
            </div>
          ))}
      </dl>
    </div>
  );
}

interface DeviceProps {
  readonly bridge: Bridge<ExplorerState>;
  /** Whether resources are shown that have no value, or only a unit. */
  readonly showsMinor: boolean;
  setShowsMinor(shows: boolean): void;
}

function Device({ bridge, showsMinor, setShowsMinor }: DeviceProps) {
  const state = bridge.state.value;
  const rows = bridge.rows("resources");
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  void rows.version.value;
  const minor = rows.all.filter((row) => row.is_minor === true).length;
  const shows = useMemo(() => (showsMinor ? undefined : (row: Row) => row.is_minor !== true), [showsMinor]);
  // A column without a text in any row would only take up space.
  const columns = RESOURCES.filter(({ name }) => !IF_FILLED.has(name) || rows.all.some((row) => row[name]));
  const open = (key: string) => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => bridge.intent("open_resource", key), OPENED_AFTER_MS);
  };
  return (
    <div class={`mirror-sides ${state.detail ? "mirror-sides-open" : ""}`}>
      <div class="mirror-stack">
        <Grid
          label="Resources"
          columns={columns}
          rows={rows}
          selection="many"
          selected={state.selected}
          onSelect={(keys) => bridge.intent("select", keys)}
          clickSelects={false}
          onActive={open}
          group="group"
          shows={shows}
          maxHeight={460}
          zone={zone.value}
          clockAhead={state.clockAheadMs}
          tools={state.selected.length > 0 && <Acts bridge={bridge} />}
          empty={<Empty title={state.emptyText || "This device has no resources"}>Resources appear here when the device registers them.</Empty>}
        />
        <div class="mirror-bar">
          {minor > 0 && <Checkbox label={`Show ${count(minor, "resource")} without a value, or with a unit only`} isChecked={showsMinor} onChange={setShowsMinor} />}
          {!state.detail && <span class="mirror-dim">Click a resource to see its history, and to read or write it.</span>}
          <Legend words={["Failed", "Drifting", "Pending", "Unconfirmed", "Never reported", "Stale"]} />
        </div>
      </div>
      {state.detail && <Resource key={state.detail.path} bridge={bridge} detail={state.detail} row={rows.get(state.detail.path)} />}
    </div>
  );
}

function Acts({ bridge }: { bridge: Bridge<ExplorerState> }) {
  const act = (name: string) => () => bridge.state.value.selected.forEach((path) => bridge.intent(name, path));
  return (
    <>
      <Button label="Read" hint="Read the selected resources from the device" isPrimary onClick={act("read")} />
      <Button label="Subscribe" hint="Subscribe to the selected resources" onClick={act("subscribe")} />
      <Button label="Write…" hint="Open a panel that previews, writes and undoes" onClick={() => bridge.intent("write")} />
      <Menu
        label="More"
        icon="more"
        isIcon
        items={[
          { label: "Unsubscribe", hint: "End the subscriptions of the selected resources", onClick: act("unsubscribe") },
          { label: "Clear the selection", onClick: () => bridge.intent("select", []) },
        ]}
      />
    </>
  );
}

/** A resource with its value, its past, and a field to write or to execute it. */
function Resource({ bridge, detail, row }: { bridge: Bridge<ExplorerState>; detail: Detail; row: Row | undefined }) {
  const state = bridge.state.value;
  const [argument, setArgument] = useState("");
  const reportedAt = typeof row?.reported_at === "number" ? row.reported_at : null;
  const activity = String(row?.activity ?? "");
  const isBusy = activity.endsWith("…");
  return (
    <section class="mirror-stack mirror-resource" aria-label={detail.label || detail.path}>
      <div class="mirror-head-line">
        <h4 class="mirror-title">
          {detail.label || detail.path} <span class="mirror-dim mirror-code">{detail.path}</span>
        </h4>
        <Button label="Close the resource" icon="close" isIcon onClick={() => bridge.intent("open_resource", null)} />
      </div>
      <div class="mirror-head" hidden={detail.isExecutable}>
        {row?.value ? <span class="mirror-value-now mirror-figures">{String(row.value)}</span> : <span class="mirror-dim">no value</span>}
        {reportedAt !== null && (
          <span class="mirror-dim" title={instantIn(reportedAt, zone.value)}>
            {ago(reportedAt, Date.now() + state.clockAheadMs)}
          </span>
        )}
        {row?.status ? <StatusText word={String(row.status)} /> : null}
        {row?.desired ? <span>desired {String(row.desired)}</span> : null}
        <span class="mirror-bar-end">
          {row?.status === "Failed" && (
            <Button label="Acknowledge" hint="This failed write no longer counts as failed" onClick={() => bridge.intent("acknowledge", detail.path)} />
          )}
          {!detail.isExecutable && (
            <Button label="Read now" hint="Read this resource from the device" isDisabled={isBusy} onClick={() => bridge.intent("read", detail.path)} />
          )}
        </span>
      </div>
      {activity && (
        <p class={isBusy ? "mirror-dim" : "mirror-tone-bad"} role="status">
          {activity}
        </p>
      )}
      {row?.hints?.status && <p class="mirror-dim">{sentence(row.hints.status)}</p>}
      {!detail.isExecutable && <Past bridge={bridge} detail={detail} />}
      {detail.isWritable && (
        <form
          class="mirror-bar"
          onSubmit={(event) => {
            event.preventDefault();
            bridge.intent("write_entered");
          }}
        >
          <ValueField
            label="New value"
            form={detail.form}
            value={detail.form.type === "boolean" ? detail.text === "true" : detail.text}
            problem={detail.problem}
            onChange={(value) => bridge.intent("enter", String(value))}
          />
          <Button
            label="Write"
            hint="Send this value to the device"
            isDisabled={isBusy || Boolean(detail.problem)}
            onClick={() => bridge.intent("write_entered")}
          />
          <span class="mirror-dim">{detail.form.hint}</span>
        </form>
      )}
      {detail.isExecutable && (
        <div class="mirror-bar">
          <TextField label="Argument" value={argument} isEager placeholder="none" onChange={setArgument} />
          <Button label="Execute" hint="Execute this resource on the device" isDisabled={isBusy} onClick={() => bridge.intent("execute", detail.path, argument)} />
        </div>
      )}
    </section>
  );
}

function Past({ bridge, detail }: { bridge: Bridge<ExplorerState>; detail: Detail }) {
  const state = bridge.state.value;
  const lines = (bridge.series("past") as SeriesSource).lines.value;
  const points = lines.get(detail.path);
  const end = Math.max(state.asOf ?? 0, points?.at.at(-1) ?? 0, detail.states.at(-1)?.begin ?? 0);
  const [zoom, setZoom] = useState<{ begin: number; end: number } | null>(null);
  const range = zoom ?? { begin: end - state.hours * HOUR_MS, end };
  const line = points && { key: detail.path, name: detail.label || detail.path, points, color: 0, isStepped: detail.isStepped };
  const panels: ChartPanel[] = line ? [{ key: detail.path, title: detail.label, unit: detail.form.unit ?? "", lines: [line] }] : [];
  const texts = [...new Set(detail.states.map(({ text }) => text))].sort();
  const states: StateRow[] = detail.states.length
    ? [{ key: detail.path, name: detail.label || detail.path, spans: detail.states.map((one) => ({ ...one, color: texts.indexOf(one.text) })) }]
    : [];
  return (
    <div class="mirror-stack">
      <div class="mirror-bar">
        <Choices
          label="Displayed time"
          choices={HOURS}
          value={String(state.hours)}
          onChange={(hours) => {
            setZoom(null);
            bridge.intent("show_hours", Number(hours));
          }}
        />
        <span class="mirror-dim" role="status">
          {state.pastText}
        </span>
      </div>
      <Chart
        label={`${detail.label || detail.path} over time`}
        panels={panels}
        states={states}
        range={range}
        onRange={setZoom}
        zone={zone.value}
        panelHeight={170}
        legend={panels.length > 0}
        empty={<Empty title="No values in this time">Read the resource now, or subscribe to it.</Empty>}
      />
    </div>
  );
}
