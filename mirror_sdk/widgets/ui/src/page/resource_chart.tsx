/** The recent values of a resource, as a chart in its panel. */

import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import type { Points } from "../bridge";
import { Chart, type ChartPanel, type Marker, type Range, type Shade, type StateRow, type StateSpan } from "../chart";
import { Choices } from "../controls";
import { count } from "../format";
import { useNow, useStore, zone } from "./context";
import { whyOf } from "./marks";
import { isStepped, labelOf, numberOf, resourceName } from "./objects";
import { Instant, Value } from "./parts";
import type { PathHistory, Sample } from "./recent";
import { valueText } from "./values";
import type { Resource } from "./wire";

const MINUTE = 60_000;
const SPANS: readonly { label: string; milliseconds: number }[] = [
  { label: "15 min", milliseconds: 15 * MINUTE },
  { label: "1 h", milliseconds: 60 * MINUTE },
  { label: "6 h", milliseconds: 360 * MINUTE },
  { label: "24 h", milliseconds: 1440 * MINUTE },
  { label: "7 d", milliseconds: 7 * 1440 * MINUTE },
];
/** Beyond this limit, the difference of two numbers can overflow. */
const LARGEST_DRAWN = 1e100;
const PANEL_HEIGHT = 150;
const LISTED_VALUES = 100;

/** The chosen time range. It stays when another resource is opened. */
const span = signal(60 * MINUTE);

export function ResourceChart({ resource, unit }: { resource: Resource; unit: string }) {
  const store = useStore();
  const path = resource.resource_path;
  const recent = store.recent.value;
  const now = useNow();
  const [zoomed, setZoomed] = useState<Range | null>(null);
  const milliseconds = span.value;
  useEffect(() => {
    recent.read(path, now - milliseconds).catch(store.report);
  }, [recent, path, milliseconds]);
  void recent.version.value;
  const past = recent.of(path);
  const newest = past.samples.at(-1)?.at ?? now;
  const live = { begin: now - milliseconds, end: Math.max(now, newest) };
  const label = labelOf(path) || path;
  const numbers = numericSamples(past.samples, path);
  const isNumeric = numbers.length > 0;
  const drawn = isNumeric ? numbers.length : past.samples.length;
  return (
    <figure class="page-resource-chart">
      <div class="page-chart-tools">
        <Choices
          label="Time range"
          choices={SPANS.map((each) => ({ value: String(each.milliseconds), label: each.label }))}
          value={zoomed ? "" : String(milliseconds)}
          onChange={(value) => {
            setZoomed(null);
            span.value = Number(value);
          }}
        />
        <figcaption class="mirror-dim">{captionOf(past, drawn)}</figcaption>
      </div>
      {drawn > 0 && (
        <Chart
          label={label}
          panels={isNumeric ? [panelOf(path, numbers, unit)] : []}
          states={isNumeric ? [] : [stateRowOf(path, past.samples, unit)]}
          shades={shadesOf(past)}
          markers={markersOf(past, path, unit)}
          range={zoomed ?? live}
          onRange={setZoomed}
          zone={zone.value}
          panelHeight={PANEL_HEIGHT}
          legend={isNumeric}
        />
      )}
      {past.samples.length > 0 && <ValueList past={past} path={path} unit={unit} />}
    </figure>
  );
}

/** The newest values as a list, an alternative to the chart. */
function ValueList({ past, path, unit }: { past: PathHistory; path: string; unit: string }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details class="page-values" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>Values</summary>
      {isOpen && (
        <ol aria-label="Values, newest first" tabIndex={0}>
          {past.samples
            .slice(-LISTED_VALUES)
            .reverse()
            .map(({ at, payload, contentType }) => (
              <li key={`${at} ${payload}`}>
                <Instant at={at} /> <Value payload={payload} path={path} unit={unit} contentType={contentType} />
              </li>
            ))}
        </ol>
      )}
    </details>
  );
}

function captionOf({ source }: PathHistory, drawn: number): string {
  if (source === "reading") return "Reading the values …";
  const from = source === "history" ? "from the server's history" : "that this key received or read";
  return drawn ? `${count(drawn, "value")} ${from}` : `No values ${from}`;
}

interface NumericSample {
  at: number;
  number: number;
}

function numericSamples(samples: readonly Sample[], path: string): NumericSample[] {
  return samples.flatMap(({ at, payload }) => {
    const number = numberOf(payload, path);
    return number === null || Math.abs(number) > LARGEST_DRAWN ? [] : [{ at, number }];
  });
}

function panelOf(path: string, numbers: readonly NumericSample[], unit: string): ChartPanel {
  const points: Points = {
    at: Float64Array.from(numbers, ({ at }) => at),
    values: Float64Array.from(numbers, ({ number }) => number),
  };
  const name = resourceName(path);
  return { key: path, title: name, unit, lines: [{ key: path, name, points, color: 0, isStepped: isStepped(path) }] };
}

function stateRowOf(path: string, samples: readonly Sample[], unit: string): StateRow {
  const colors = new Map<string, number>();
  const spans: StateSpan[] = [];
  for (const { at, payload, contentType } of samples) {
    const value = valueText(payload, path, unit, contentType);
    const last = spans.at(-1);
    if (last?.text === value.text) continue;
    if (last) spans[spans.length - 1] = { ...last, end: at };
    const color = colors.get(value.text) ?? colors.size;
    colors.set(value.text, color);
    spans.push({ begin: at, end: null, text: value.text, color });
  }
  return { key: path, name: resourceName(path), spans };
}

function shadesOf({ absences }: PathHistory): Shade[] {
  return absences.map(({ kind, begin, end }) => ({
    kind,
    begin,
    end,
    text: kind === "gap" ? "The server was not running" : "The device was offline",
  }));
}

function markersOf({ writes }: PathHistory, path: string, unit: string): Marker[] {
  return writes.map(({ at, payload, isSuccess, category }) => {
    const { text, unit: shown } = valueText(payload, path, unit);
    const value = shown ? `${text} ${shown}` : text;
    return {
      at,
      text: isSuccess ? `Write of ${value}: done` : `Write of ${value} failed: ${whyOf(category)}`,
      tone: isSuccess ? "good" : "bad",
    };
  });
}
