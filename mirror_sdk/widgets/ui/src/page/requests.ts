/** The requests that the visitor sent to devices, and their results. */

import { signal } from "@preact/signals";
import { RequestError, type Session } from "./http";
import type { Device, Entry, Method } from "./wire";

/** Time for which a request waits for a device that stays connected. Others get the default of the service. */
const CONNECTED_EXPIRY_SECONDS = 60;
const MAX_REQUESTS = 200;

export interface SentRequest {
  readonly id: string;
  readonly method: Method;
  readonly deviceId: string;
  readonly path: string;
  readonly payload: string | undefined;
  readonly state: "sent" | "waits" | "rejected" | "lost" | "failed" | "done";
  /** The expiry of a waiting request. */
  readonly until?: string;
  /** The reason why the server rejected it. */
  readonly reason?: string;
  /** The response of the device. */
  readonly entry?: Entry;
}

interface Content {
  payload?: string;
  contentType?: string;
}

export class SentRequests {
  /** The requests by their ids, oldest first. */
  readonly all = signal<ReadonlyMap<string, SentRequest>>(new Map());

  constructor(private readonly session: Session) {}

  /** Send a request. It is stored before it is sent, because a fast device can respond before the server does. */
  async send(method: Method, device: Device, path: string, { payload, contentType }: Content = {}): Promise<void> {
    const id = [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    this.set({ id, method, deviceId: device.id, path, payload, state: "sent" });
    const isAwake = device.state === "registered" && !device.queue_mode;
    const body = {
      method,
      uri: path,
      ...(payload !== undefined && { "payload-b64": payload, "content-type": contentType }),
      ...(isAwake && { expiry_seconds: CONNECTED_EXPIRY_SECONDS }),
    };
    try {
      const target = `v2/device-requests/${encodeURIComponent(device.id)}`;
      const response = await this.session.call("POST", target, { query: { "async-id": id }, body });
      const until = response.headers.get("Mirror-Expires-At");
      this.change(id, (request) => ({
        ...request,
        ...(until !== null && { until }),
        state: request.state === "sent" ? "waits" : request.state,
      }));
    } catch (error) {
      const isRejected = error instanceof RequestError;
      const reason = isRejected
        ? error.message
        : "The server does not respond; it is unknown whether it received the request.";
      this.change(id, (request) => ({ ...request, state: "rejected", reason }));
      if (isRejected && error.code === 401) throw error;
    }
  }

  /** Note a response from the log. A response to a request of another program with this key is ignored. */
  noteResponse(entry: Entry): void {
    this.change(entry.id ?? "", (request) => ({ ...request, state: entry.error ? "failed" : "done", entry }));
  }

  /** After a gap in the log, the responses to waiting requests may be lost. */
  noteLostResponses(): void {
    for (const { id, state } of this.all.value.values()) {
      if (state === "waits") this.change(id, (request) => ({ ...request, state: "lost" }));
    }
  }

  /** Return the requests for a resource, newest first. */
  of(deviceId: string, path: string): SentRequest[] {
    return [...this.all.value.values()].filter((each) => each.deviceId === deviceId && each.path === path).reverse();
  }

  private set(request: SentRequest): void {
    const all = new Map(this.all.value).set(request.id, request);
    const [oldest] = all.keys();
    if (all.size > MAX_REQUESTS && oldest !== undefined) all.delete(oldest);
    this.all.value = all;
  }

  private change(id: string, change: (request: SentRequest) => SentRequest): void {
    const request = this.all.value.get(id);
    if (request) this.set(change(request));
  }
}
