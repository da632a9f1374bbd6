/** Small components of the page: instants, values, and sentences about requests. */

import type { ComponentChildren } from "preact";
import { ago, instant, instantIn, shortInstant } from "../format";
import { useNow, zone } from "./context";
import { whyOf } from "./marks";
import type { SentRequest } from "./requests";
import { valueText } from "./values";

type Moment = string | number | null | undefined;

function millisecondsOf(moment: Moment): number | null {
  if (moment === null || moment === undefined) return null;
  const at = new Date(moment).getTime();
  return Number.isNaN(at) ? null : at;
}

/** A time of day, with the date unless it is today. Its tooltip has the date and the zone. */
export function Instant({ at }: { at: Moment }) {
  const milliseconds = millisecondsOf(at);
  const now = useNow();
  if (milliseconds === null) return <>{at ?? ""}</>;
  const day = (moment: number): string => instant(moment, zone.value).slice(0, 10);
  const isToday = day(milliseconds) === day(now);
  const text = isToday ? shortInstant(milliseconds, zone.value, now) : instant(milliseconds, zone.value);
  return <TimeElement at={milliseconds} text={text} />;
}

/** How long ago it was: "3 min ago". Its tooltip has the instant. */
export function Age({ at }: { at: Moment }) {
  const milliseconds = millisecondsOf(at);
  const now = useNow();
  return milliseconds === null ? null : <TimeElement at={milliseconds} text={ago(milliseconds, now)} />;
}

function TimeElement({ at, text }: { at: number; text: string }) {
  return (
    <time dateTime={new Date(at).toISOString()} title={`${instantIn(at, zone.value)}\n${instantIn(at, "UTC")}`}>
      {text}
    </time>
  );
}

interface ValueProps {
  payload: string | undefined;
  path?: string | undefined;
  unit?: string;
  contentType?: string | undefined;
}

/** A payload as text, with its unit. */
export function Value({ payload, path = "", unit = "", contentType = "" }: ValueProps) {
  const value = valueText(payload, path, unit, contentType);
  const content = value.time === undefined ? value.text : <Instant at={value.time} />;
  if (value.style === "code") return <code title={value.title}>{content}</code>;
  return (
    <span class={value.style === "dim" ? "page-value mirror-dim" : "page-value"}>
      {content}
      {value.unit && <span class="mirror-unit"> {value.unit}</span>}
    </span>
  );
}

const NAMES = { GET: "Read", PUT: "Write", POST: "Execution" };

/** A request that the visitor sent, and its result. */
export function RequestText({ request, unit }: { request: SentRequest; unit: string }) {
  const { method, payload, path, state } = request;
  const isFailure = state === "failed" || state === "rejected";
  return (
    <span class={isFailure ? "mirror-tone-bad" : ""}>
      {NAMES[method]}
      {method === "PUT" && <> of <Value payload={payload} path={path} unit={unit} /></>}: {resultOf(request, unit)}
    </span>
  );
}

function resultOf({ method, state, until, reason, entry, path }: SentRequest, unit: string): ComponentChildren {
  switch (state) {
    case "sent":
      return "is being sent …";
    case "waits":
      return <>waits for the device{until && <>, until <Instant at={until} /> at most</>}</>;
    case "rejected":
      return `was not accepted. ${reason}`;
    case "lost":
      return "its response may be among the missing events; a read shows the current value";
    case "failed":
      return <>failed. {whyOf(entry?.error)} ({entry?.status}), <Instant at={entry?.timestamp} /></>;
    case "done":
      return (
        <>
          {method === "GET" ? <Value payload={entry?.payload} path={path} unit={unit} contentType={entry?.ct} /> : "done"},{" "}
          <Instant at={entry?.timestamp} />
        </>
      );
  }
}
