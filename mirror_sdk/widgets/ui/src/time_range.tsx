/* A choice of a time range and of a time zone: the last minutes, hours or days, or from one instant to another. */

import { useState } from "preact/hooks";
import type { Range } from "./chart";
import { Button, Select, TextField, type Choice } from "./controls";
import { browserZone, instant, millisecondOf, parsedInstant, zoneName } from "./format";
import { PanelButton } from "./menu";
import { withinYears } from "./range";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** The newest instants in a range of this length (all if `length` is null), or a fixed range. */
export type TimeChoice =
  | { readonly kind: "last"; readonly length: number | null }
  | { readonly kind: "fixed"; readonly begin: number; readonly end: number };

export const LENGTHS: readonly (readonly [label: string, length: number | null])[] = [
  ["Last 5 min", 5 * MINUTE],
  ["Last 15 min", 15 * MINUTE],
  ["Last 1 h", HOUR],
  ["Last 6 h", 6 * HOUR],
  ["Last 24 h", DAY],
  ["Last 7 d", 7 * DAY],
  ["Everything", null],
];

export interface TimeRangeProps {
  readonly value: TimeChoice;
  /** The range that is shown, for the fields and for the buttons that move it. */
  readonly range: Range;
  onChange(choice: TimeChoice): void;
  /** A name of a time zone; "" for that of the browser. */
  readonly zone: string;
  onZone(zone: string): void;
  /** The lengths that are offered; all by default. */
  readonly lengths?: readonly (readonly [label: string, length: number | null])[];
}

/** The text of a range. A short range has fractions of a second, so that each move and each zoom changes the text. */
export function labelOf(choice: TimeChoice, zone: string): string {
  if (choice.kind === "last") return LENGTHS.find(([, length]) => length === choice.length)?.[0] ?? "Everything";
  const length = choice.end - choice.begin;
  const ends = [choice.begin, choice.end];
  const digits = length < SECOND ? 3 : length < 10 * SECOND ? 1 : 0;
  const fractions = ends.map((at) => String(millisecondOf(at)).padStart(3, "0").slice(0, digits));
  const hasFraction = fractions.some(Number);
  const [begin = "", end = ""] = ends.map((at, index) => {
    const text = instant(at, zone);
    return length >= 10 * MINUTE ? text.slice(0, 16) : hasFraction ? `${text}.${fractions[index]}` : text;
  });
  return begin.slice(0, 10) === end.slice(0, 10) ? `${begin} – ${end.slice(11)}` : `${begin} – ${end}`;
}

/** The zones that are offered: that of the browser, UTC, and those the browser knows. */
export function zoneChoices(zone: string): Choice[] {
  const own = browserZone();
  const known = Intl.supportedValuesOf("timeZone").filter((name) => name !== "UTC" && name !== own);
  const first = [
    { value: "UTC", label: "UTC" },
    { value: "", label: `${own} (this browser)` },
  ];
  const rest = known.map((name) => ({ value: name, label: name }));
  return zone && zone !== "UTC" && !known.includes(zone) ? [...first, { value: zone, label: zone }, ...rest] : [...first, ...rest];
}

function Fields({ range, zone, onApply }: { range: Range; zone: string; onApply(range: Range): void }) {
  const [texts, setTexts] = useState({ begin: instant(range.begin, zone, true), end: instant(range.end, zone, true) });
  const begin = parsedInstant(texts.begin, zone);
  const end = parsedInstant(texts.end, zone);
  const problem = "Enter a date and a time, such as 2026-11-22 10:20";
  const isReversed = begin !== null && end !== null && begin >= end;
  const apply = () => {
    if (begin !== null && end !== null && !isReversed) onApply({ begin, end });
  };
  return (
    <form
      class="mirror-range-fields"
      onSubmit={(event) => {
        event.preventDefault();
        apply();
      }}
    >
      <TextField label="From" isEager value={texts.begin} problem={begin === null ? problem : ""} onChange={(text) => setTexts({ ...texts, begin: text })} />
      <TextField
        label="To"
        isEager
        value={texts.end}
        problem={end === null ? problem : isReversed ? "The end must be later than the beginning" : ""}
        onChange={(text) => setTexts({ ...texts, end: text })}
      />
      <Button label="Apply" isPrimary isDisabled={begin === null || end === null || isReversed} onClick={apply} />
    </form>
  );
}

export function TimeRange({ value, range, onChange, zone, onZone, lengths = LENGTHS }: TimeRangeProps) {
  const length = range.end - range.begin;
  const fix = (chosen: Range) => onChange({ kind: "fixed", ...withinYears(chosen) });
  const moved = (share: number) => fix({ begin: range.begin + share * length, end: range.end + share * length });
  return (
    <div class="mirror-range">
      <Button label="Earlier" hint="Half a range earlier" icon="left" isIcon onClick={() => moved(-0.5)} />
      <PanelButton label={labelOf(value, zone)} icon="clock" hint={`Time range, in ${zoneName(zone)}`}>
        {(close) => (
          <div class="mirror-range-panel">
            <div class="mirror-range-lengths" role="group" aria-label="Newest">
              {lengths.map(([label, one]) => (
                <button
                  type="button"
                  key={label}
                  class="mirror-item"
                  aria-pressed={value.kind === "last" && value.length === one}
                  onClick={() => {
                    onChange({ kind: "last", length: one });
                    close();
                  }}
                >
                  {label}
                </button>
              ))}
            </div>
            <div class="mirror-range-rest">
              <Fields
                key={zone}
                range={range}
                zone={zone}
                onApply={(chosen) => {
                  fix(chosen);
                  close();
                }}
              />
              <Select label="Time zone" choices={zoneChoices(zone)} value={zone} onChange={onZone} />
            </div>
          </div>
        )}
      </PanelButton>
      <Button label="Later" hint="Half a range later" icon="right" isIcon onClick={() => moved(0.5)} />
      <Button
        label="Zoom out"
        hint="Twice the time span"
        icon="zoomOut"
        isIcon
        onClick={() => fix({ begin: range.begin - length / 2, end: range.end + length / 2 })}
      />
    </div>
  );
}
