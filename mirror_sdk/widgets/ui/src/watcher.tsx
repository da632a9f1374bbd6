/* The event watcher: events over time and as a table (mirror_sdk/widgets/watcher.py). */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Bridge, Row } from "./bridge";
import { Chart, type ChartLine, type ChartPanel, type Condition, type Marker, type Range, type Shade, type StateRow, type Threshold } from "./chart";
import { Button, Checkbox, TextField } from "./controls";
import { Empty } from "./empty";
import { download } from "./files";
import { instant, zoneName } from "./format";
import { Grid, type GridColumn } from "./grid";
import { Menu, PanelButton } from "./menu";
import { NameField } from "./name_field";
import { Notices } from "./notices";
import { TimeRange, type TimeChoice } from "./time_range";
import { chooseZone, zone } from "./zone";

export interface WatcherState {
  readonly notices: readonly string[];
  readonly isLive: boolean;
  readonly devices: string;
  readonly paths: string;
  readonly counts: string;
  readonly empty: string;
  readonly isPaused: boolean;
  readonly isReading: boolean;
  /** The length of the range that follows the newest events, in milliseconds; null for everything. */
  readonly length: number | null;
  readonly fixed: readonly [number, number] | null;
  readonly range: readonly [number, number] | null;
  readonly selected: string | null;
  readonly drawn: readonly string[];
  readonly isRecording: boolean;
  readonly recording: string;
  readonly saved: string;
}

const EVENT_COLUMNS: readonly GridColumn[] = [
  { name: "number", heading: "No.", kind: "number", width: 76, rank: 3, fixed: true, sort: "desc" },
  { name: "changed_at", heading: "Changed at", kind: "time", width: 158, rank: 1, fixed: true },
  { name: "device", heading: "Device", width: 170, least: 64 },
  { name: "resource", heading: "Resource", width: 210, least: 72 },
  { name: "value", heading: "Value", kind: "value", width: 96, least: 60 },
  { name: "event", heading: "Event", width: 110, rank: 2 },
  { name: "path", heading: "Path", width: 110, hidden: true },
  { name: "received_at", heading: "Received", kind: "time", width: 158, hidden: true },
];

const SERIES_COLUMNS: readonly GridColumn[] = [
  { name: "name", heading: "Line", width: 320 },
  { name: "value", heading: "Newest", kind: "value", width: 96, fixed: true },
];

const MOST_CHOSEN = 20;

/* The panels of the chart, whose points come separately. */
function panelsOf(rows: readonly Row[], lines: ReadonlyMap<string, { at: Float64Array; values: Float64Array }>): ChartPanel[] {
  return rows.map((row) => ({
    key: row.key,
    title: String(row.title),
    unit: String(row.unit),
    thresholds: row.thresholds as Threshold[],
    lines: (row.lines as [string, string, number, boolean][]).flatMap(([key, name, color, isStepped]): ChartLine[] => {
      const points = lines.get(key);
      return points ? [{ key, name, color, points, isStepped }] : [];
    }),
  }));
}

function statesOf(rows: readonly Row[]): StateRow[] {
  const sorted = [...rows].sort((one, other) => String(one.name).localeCompare(String(other.name), "en", { numeric: true }));
  return sorted.map(({ key, name, spans }) => ({
    key,
    name: String(name),
    spans: (spans as [number, number | null, string, number | null][]).map(([begin, end, text, color]) => ({ begin, end, text, color })),
  }));
}

function shadesOf(row: Row | undefined): Shade[] {
  const marks = (row?.marks ?? []) as [Shade["kind"], number, number | null, string][];
  return marks.map(([kind, begin, end, text]) => ({ kind, begin, end, text }));
}

function conditionsOf(rows: readonly Row[]): Condition[] {
  return rows.map(({ condition, name, keys, spans }) => ({
    text: String(condition),
    name: String(name),
    keys: keys as string[],
    spans: spans as Condition["spans"],
  }));
}

function markersOf(row: Row | undefined): Marker[] {
  return ((row?.marks ?? []) as [number, string, Marker["tone"]][]).map(([at, text, tone]) => ({ at, text, tone }));
}

/* The range that the user chose, before Python has confirmed it. */
function useRange(state: WatcherState, bridge: Bridge<WatcherState>) {
  const [own, setOwn] = useState<TimeChoice | null>(null);
  const confirmed = `${state.length} ${state.fixed}`;
  useEffect(() => setOwn(null), [confirmed]);
  const choice: TimeChoice =
    own ?? (state.fixed ? { kind: "fixed", begin: state.fixed[0], end: state.fixed[1] } : { kind: "last", length: state.length });
  const choose = (chosen: TimeChoice) => {
    if (chosen.kind === "last") {
      setOwn(chosen);
      bridge.intent("follow", chosen.length);
    } else {
      // Whole milliseconds, as Python confirms them: otherwise the label would change when the confirmation arrives.
      const [begin, end] = [Math.floor(chosen.begin), Math.ceil(chosen.end)];
      setOwn({ kind: "fixed", begin, end });
      bridge.intent("stay", begin, end);
    }
  };
  let range: Range | null = state.range ? { begin: state.range[0], end: state.range[1] } : null;
  if (choice.kind === "fixed") range = { begin: choice.begin, end: choice.end };
  else if (range && own && choice.length !== null) range = { begin: range.end - choice.length, end: range.end };
  return { choice, choose, range };
}

function SaveFields({ bridge, state }: { bridge: Bridge<WatcherState>; state: WatcherState }) {
  const [file, setFile] = useState("events.parquet");
  const [isOverwritten, setOverwritten] = useState(false);
  return (
    <div class="mirror-form">
      <p>Write the events to a Parquet file where the notebook runs.</p>
      <TextField label="File" value={file} isEager onChange={setFile} />
      <Checkbox label="Overwrite" hint="Replace the file if it exists" isChecked={isOverwritten} onChange={setOverwritten} />
      <Button
        label="Save"
        isPrimary
        onClick={() => {
          bridge.intent("save", file, isOverwritten);
          setOverwritten(false);
        }}
      />
      {state.saved && (
        <p role="status" class="mirror-dim">
          {state.saved}
        </p>
      )}
    </div>
  );
}

function RecordFields({ bridge, state, close }: { bridge: Bridge<WatcherState>; state: WatcherState; close(): void }) {
  const [folder, setFolder] = useState("recording.parquet");
  return (
    <div class="mirror-form">
      <p>Record these devices and paths in a folder where the notebook runs, until you stop.</p>
      {!state.isRecording && <TextField label="Folder" value={folder} isEager onChange={setFolder} />}
      <Button
        label={state.isRecording ? "Stop" : "Record"}
        isPrimary
        onClick={() => {
          bridge.intent("record", folder);
          close();
        }}
      />
    </div>
  );
}

function SeriesChoice({ bridge, state }: { bridge: Bridge<WatcherState>; state: WatcherState }) {
  return (
    <div class="mirror-series-choice">
      <Grid
        label="Lines"
        columns={SERIES_COLUMNS}
        rows={bridge.rows("series")}
        selection="many"
        selected={state.drawn}
        onSelect={(keys) => bridge.intent("draw", keys)}
        height="260px"
        empty={<Empty title="Nothing to plot yet" />}
      />
      <p class="mirror-dim">
        The plot shows the selected lines, at most {MOST_CHOSEN}. Without a selection it shows the first ones.
      </p>
    </div>
  );
}

export function Watcher({ bridge }: { bridge: Bridge<WatcherState> }) {
  const state = bridge.state.value;
  const { choice, choose, range } = useRange(state, bridge);
  const [isolated, setIsolated] = useState<readonly string[]>([]);
  const picture = useRef<(() => Promise<Blob>) | null>(null);
  const panelRows = bridge.rows("panels");
  const stateRows = bridge.rows("states");
  const marks = bridge.rows("marks");
  const conditionRows = bridge.rows("conditions");
  const lines = bridge.series("lines").lines.value;
  const [panelVersion, stateVersion, markVersion] = [panelRows.version.value, stateRows.version.value, marks.version.value];
  const conditionVersion = conditionRows.version.value;
  const panels = useMemo(() => panelsOf(panelRows.all, lines), [panelVersion, lines]);
  const states = useMemo(() => statesOf(stateRows.all), [stateVersion]);
  const shades = useMemo(() => shadesOf(marks.get("shades")), [markVersion]);
  const markers = useMemo(() => markersOf(marks.get("markers")), [markVersion]);
  const conditions = useMemo(() => conditionsOf(conditionRows.all), [conditionVersion]);
  const names = bridge.rows("names");
  const zoneChosen = zone.value;

  useEffect(
    () =>
      bridge.listen("file", (content, buffers) => {
        const bytes = buffers[0];
        if (bytes) download((content as { name: string }).name, bytes as unknown as BufferSource);
      }),
    [bridge],
  );
  // A line that was highlighted by a row of the table is shown alone, until another one is.
  useEffect(() => setIsolated(state.selected ? [state.selected] : []), [state.selected]);
  const keys = new Set([...panels.flatMap((panel) => panel.lines.map(({ key }) => key)), ...states.map(({ key }) => key)]);
  const shown = isolated.filter((key) => keys.has(key));

  const isFollowing = choice.kind === "last";
  const series = bridge.rows("series");
  void series.version.value;
  const linesText = state.drawn.length < series.size ? `Lines: ${state.drawn.length} of ${series.size.toLocaleString("en")}` : "Lines";
  const savePicture = async () => {
    const made = await picture.current?.();
    if (made) download(`events-${instant(Date.now(), zoneChosen).replace(/[-:]/g, "").replace(" ", "-")}.png`, made);
  };
  return (
    <div class="mirror-stack mirror-watcher">
      <Notices texts={state.notices} onDismiss={() => bridge.intent("dismiss")} />
      <div class="mirror-head">
        <NameField
          label="Devices"
          value={state.devices}
          names={names.all.map(({ key }) => key)}
          placeholder="all"
          onChange={(text) => bridge.intent("choose", text, state.paths)}
        />
        <TextField
          label="Paths"
          value={state.paths}
          placeholder="all, or /3303/*, /3311/0/5850"
          onChange={(text) => bridge.intent("choose", state.devices, text)}
        />
        <span class="mirror-head-end">
          {range && (
            <TimeRange value={choice} range={range} onChange={choose} zone={zoneChosen} onZone={chooseZone} />
          )}
          {range && (
            <Button
              label="Live"
              hint={isFollowing ? "The plot follows the newest events" : "Follow the newest events again"}
              isPressed={isFollowing}
              onClick={() =>
                isFollowing && range ? choose({ kind: "fixed", ...range }) : choose({ kind: "last", length: state.length })
              }
            />
          )}
          <PanelButton label={linesText} hint="Choose the lines of the plot">
            {() => <SeriesChoice bridge={bridge} state={state} />}
          </PanelButton>
          <Button
            label={state.isPaused ? "Resume" : "Pause"}
            hint={state.isPaused ? "Show the newest events again" : "Pause the display; events are still collected"}
            icon={state.isPaused ? "play" : "pause"}
            isIcon
            isPressed={state.isPaused}
            onClick={() => bridge.intent(state.isPaused ? "resume" : "pause")}
          />
          <PanelButton label={state.isRecording ? "Stop recording" : "Record"} icon={state.isRecording ? "stop" : "record"} isIcon>
            {(close) => <RecordFields bridge={bridge} state={state} close={close} />}
          </PanelButton>
          <Menu
            label="Download"
            icon="download"
            isIcon
            items={[
              { label: "CSV", hint: "The stored events as a CSV file", onClick: () => bridge.intent("download", "csv") },
              { label: "Parquet", hint: "The stored events as a Parquet file", onClick: () => bridge.intent("download", "parquet") },
              { label: "PNG", hint: "The plot as a picture", isDisabled: !panels.length && !states.length, onClick: () => void savePicture() },
            ]}
          />
          <PanelButton label="Save" icon="save" isIcon hint="Save as a file where the notebook runs">
            {() => <SaveFields bridge={bridge} state={state} />}
          </PanelButton>
          <Button label="Clear" hint="Delete all stored events" icon="clear" isIcon onClick={() => bridge.intent("clear")} />
        </span>
      </div>
      <div class="mirror-count mirror-figures">
        {[state.counts, state.recording, range && `times in ${zoneName(zoneChosen)}`].filter(Boolean).join(" · ")}
      </div>
      <Chart
        label="Events"
        panels={panels}
        states={states}
        shades={shades}
        markers={markers}
        conditions={conditions}
        range={range ?? { begin: Date.now() - 3_600_000, end: Date.now() }}
        onRange={(chosen) => choose(chosen ? { kind: "fixed", ...chosen } : { kind: "last", length: state.length })}
        zone={zoneChosen}
        isolated={shown}
        onIsolate={setIsolated}
        picture={picture}
        empty={
          state.isReading ? (
            <Empty kind="loading" title="Reading earlier events" />
          ) : (
            <Empty title="Nothing to plot yet">{state.empty || "The chosen events have no numbers and no states."}</Empty>
          )
        }
      />
      <Grid
        label="Events"
        columns={EVENT_COLUMNS}
        rows={bridge.rows("events")}
        onActive={(key) => bridge.intent("select", key)}
        zone={zoneChosen}
        height="300px"
        empty={state.isReading ? undefined : <Empty title="No events">{state.empty}</Empty>}
      />
    </div>
  );
}
