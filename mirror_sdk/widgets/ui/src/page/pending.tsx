/** The requests of this key to which no device has responded yet. */

import { useStore } from "./context";
import { PathText } from "./events";
import { Age, Instant } from "./parts";
import { WAITING_ROWS } from "./store";
import type { WaitingRequest } from "./wire";

const OPERATIONS = { GET: "Read", PUT: "Write", POST: "Execute" };

export function PendingRequests() {
  const { requests, hasMore, problem } = useStore().waiting.value;
  return (
    <section class="page-card page-pending-requests" aria-labelledby="mirror-pending-title">
      <header class="page-card-head">
        <h2 id="mirror-pending-title">Pending requests</h2>
        {requests.length > 0 && <span class="page-pill">{hasMore ? `${WAITING_ROWS}+` : requests.length}</span>}
      </header>
      {hasMore && <p class="mirror-dim">These are the oldest {WAITING_ROWS} pending requests.</p>}
      {requests.length > 0 && (
        <ol class="page-feed" tabIndex={0} aria-label="Pending requests, oldest first">
          {requests.map((request) => (
            <PendingRequest key={request.async_response_id} request={request} />
          ))}
        </ol>
      )}
      {requests.length === 0 && <p class="mirror-empty">{problem || "No pending requests. A request of this key is listed here until its device has responded."}</p>}
    </section>
  );
}

function PendingRequest({ request }: { request: WaitingRequest }) {
  const store = useStore();
  const { device_id: deviceId, method, uri, state, placed_at: placedAt, expires_at: expiresAt } = request;
  return (
    <li class="page-event" title={request.async_response_id}>
      <span class="page-event-time"><Age at={placedAt} /></span>
      <span class="page-event-what">
        <button type="button" class="page-link" onClick={() => store.choose(deviceId)}>
          {store.fleet.value.nameOf(deviceId)}
        </button>{" "}
        <span class="page-event-kind">{OPERATIONS[method]}</span> <PathText path={uri} />
      </span>
      <span class="page-event-value mirror-dim">
        {state === "with_device" ? "the device has it" : "waits for the device"}, until <Instant at={expiresAt} />
      </span>
    </li>
  );
}
