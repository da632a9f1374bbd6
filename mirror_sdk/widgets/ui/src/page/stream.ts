/** Server-sent events read with fetch, because an EventSource cannot send an access key. */

import { errorOf, isAborted, type Session, textReader } from "./http";

const SILENT_MILLISECONDS = 40_000;
const LONGEST_PAUSE_SECONDS = 30;

export interface ServerEvent {
  id: string | null;
  name: string;
  data: string;
}

interface Callbacks {
  opened: () => void;
  /** Resolves after so many seconds, or earlier if the server is back. */
  closed: (seconds: number) => Promise<void>;
}

/** Yield events and reconnect after failures, until the session ends or the key is rejected. */
export async function* readEvents(url: string, session: Session, { opened, closed }: Callbacks): AsyncGenerator<ServerEvent> {
  const { key, signal } = session;
  let last: string | null = null;
  let pauseSeconds = 1;
  while (!signal.aborted) {
    const attempt = new AbortController();
    const stop = (): void => attempt.abort();
    signal.addEventListener("abort", stop);
    try {
      // Without this header a proxy may buffer the stream.
      const headers: Record<string, string> = { Accept: "text/event-stream", Authorization: `Bearer ${key}` };
      if (last !== null) headers["Last-Event-ID"] = last;
      const response = await fetch(url, { headers, signal: attempt.signal, cache: "no-store" });
      if (response.ok) {
        pauseSeconds = 1;
        opened();
        for await (const event of parse(response, attempt)) {
          last = event.id ?? last;
          yield event;
        }
      } else if (response.status === 400 && last !== null) {
        // The position is unknown to a new log.
        last = null;
      } else if (response.status < 500 && response.status !== 429) {
        throw await errorOf(response);
      }
    } catch (error) {
      if (!isAborted(error) && !(error instanceof TypeError)) throw error;
    } finally {
      signal.removeEventListener("abort", stop);
      attempt.abort();
    }
    if (signal.aborted) return;
    await closed(pauseSeconds);
    pauseSeconds = Math.min(2 * pauseSeconds, LONGEST_PAUSE_SECONDS);
  }
}

async function* parse(response: Response, attempt: AbortController): AsyncGenerator<ServerEvent> {
  const reader = textReader(response);
  let unread = "";
  while (true) {
    // The server sends a comment from time to time. A stream without one is dead.
    const timer = setTimeout(() => attempt.abort(), SILENT_MILLISECONDS);
    const { done, value } = await reader.read().finally(() => clearTimeout(timer));
    if (done) return;
    const blocks = (unread + value).split("\n\n");
    unread = blocks.pop() ?? "";
    for (const block of blocks) {
      const event = readBlock(block);
      if (event.data) yield event;
    }
  }
}

function readBlock(block: string): ServerEvent {
  const event: ServerEvent = { id: null, name: "message", data: "" };
  for (const line of block.split("\n")) {
    const [, name, text = ""] = /^(\w+): ?(.*)$/.exec(line) ?? [];
    if (name === "id") event.id = text;
    if (name === "event") event.name = text;
    if (name === "data") event.data = text;
  }
  return event;
}
