/** The newest events of the key's notification log. */

import { signal } from "@preact/signals";
import { useStore } from "./context";
import { whyOf } from "./marks";
import { labelOf } from "./objects";
import { Instant, Value } from "./parts";
import type { PageEvent, Store } from "./store";

const KINDS: Record<string, string> = {
  notifications: "Value",
  "async-responses": "Response",
  registrations: "Registered",
  "reg-updates": "Registration updated",
  "de-registrations": "Deregistered",
  "registrations-expired": "Registration expired",
  gap: "Gap",
};

const isForChosen = signal(false);

export function Events() {
  const store = useStore();
  const chosen = store.chosen.value;
  const isFiltered = isForChosen.value && chosen !== null;
  const events = store.events.value.filter(({ entry }) => !isFiltered || entry.ep === chosen);
  return (
    <section class="page-card page-events" aria-labelledby="mirror-events-title">
      <header class="page-card-head">
        <h2 id="mirror-events-title">Events</h2>
        <StreamText />
        {chosen !== null && (
          <label class="mirror-check">
            <input type="checkbox" checked={isFiltered} onChange={(event) => (isForChosen.value = event.currentTarget.checked)} />{" "}
            Only this device
          </label>
        )}
      </header>
      {events.length ? (
        <ol class="page-feed" tabIndex={0} aria-label="Events, newest first">
          {events.map((event) => (
            <EventItem key={event.id + event.kind} event={event} store={store} />
          ))}
        </ol>
      ) : (
        <p class="mirror-empty">
          No events yet. Registrations of devices, values of subscribed resources and responses to your requests appear here.
        </p>
      )}
    </section>
  );
}

/** The state of the event stream in words. */
export function StreamText() {
  const stream = useStore().stream.value;
  const words = {
    connecting: "Connecting …",
    live: "Live",
    away: `Server away; trying again in ${stream.state === "away" ? stream.seconds : 0} s`,
    ended: stream.state === "ended" ? stream.reason : "",
  };
  return (
    <span class={`page-stream page-stream-${stream.state}`} role="status" title="The connection for new events">
      {words[stream.state]}
    </span>
  );
}

function EventItem({ event: { id, kind, entry }, store }: { event: PageEvent; store: Store }) {
  const { ep, path } = entry;
  const fleet = store.fleet.value;
  const isFailure = kind === "gap" || entry.error !== undefined;
  return (
    <li data-kind={kind} class={isFailure ? "page-event page-event-bad" : "page-event"} title={`Event ${id}`}>
      {/* An event without a time shows none: the clock of this browser can differ from that of the service. */}
      <span class="page-event-time">{entry.timestamp === undefined ? "" : <Instant at={entry.timestamp} />}</span>
      <span class="page-event-what">
        {ep && (
          <button type="button" class="page-link" onClick={() => store.choose(ep)}>
            {fleet.nameOf(ep, entry["original-ep"])}
          </button>
        )}{" "}
        <span class="page-event-kind">{KINDS[kind] ?? kind}</span>
        {path && <PathText path={path} />}
      </span>
      <span class="page-event-value">
        <Details event={{ id, kind, entry }} store={store} />
      </span>
    </li>
  );
}

/** The name of a resource, with its path as the tooltip. */
export function PathText({ path }: { path: string }) {
  const label = labelOf(path);
  return (
    <span class="page-path" title={path}>
      {label || path} {label && <span class="mirror-dim">{path}</span>}
    </span>
  );
}

function Details({ event: { kind, entry }, store }: { event: PageEvent; store: Store }) {
  const { path, payload, ct, ep, error, status } = entry;
  const unit = path ? store.fleet.value.unitOf(ep, path) : "";
  const value = <Value payload={payload} path={path} unit={unit} contentType={ct} />;
  if (kind === "gap") return <span class="mirror-tone-bad">{`${entry.first} to ${entry.last} are missing`}</span>;
  if (kind === "notifications") return value;
  if (kind !== "async-responses") return null;
  if (error) return <span class="mirror-tone-bad">{`${whyOf(error)} (${status})`}</span>;
  return payload ? <>{value} <span class="mirror-dim">{`done (${status})`}</span></> : <>{`done (${status})`}</>;
}
