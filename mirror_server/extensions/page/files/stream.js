// Server-sent events read with fetch, because an EventSource cannot send an access key.

import { RequestError, reasonOf } from "./interface.js";

const SILENT_MILLISECONDS = 40_000;
const LONGEST_PAUSE_SECONDS = 30;

// Yield {id, name, data} for ever, and reconnect after failures, until the signal aborts or the key is rejected.
export async function* readEvents(url, { key, signal, opened, closed }) {
  let last = null;
  let pauseSeconds = 1;
  while (!signal.aborted) {
    const attempt = new AbortController();
    const stop = () => attempt.abort();
    signal.addEventListener("abort", stop);
    try {
      // Without this header a proxy may buffer the stream.
      const headers = { Accept: "text/event-stream", Authorization: `Bearer ${key}`, ...(last === null ? {} : { "Last-Event-ID": last }) };
      const response = await fetch(url, { headers, signal: attempt.signal, cache: "no-store" });
      if (!response.ok) {
        // A new log does not know the position. Of other errors, only failures of the server are temporary.
        if (response.status === 400 && last !== null) last = null;
        else if (response.status < 500 && response.status !== 429) throw new RequestError(response.status, await reasonOf(response));
      } else {
        pauseSeconds = 1;
        opened();
        for await (const event of parse(response.body, attempt)) {
          last = event.id ?? last;
          yield event;
        }
      }
    } catch (error) {
      if (error.name !== "AbortError" && !(error instanceof TypeError)) throw error;
    } finally {
      signal.removeEventListener("abort", stop);
      attempt.abort();
    }
    if (signal.aborted) return;
    closed(pauseSeconds);
    await new Promise((resolve) => setTimeout(resolve, pauseSeconds * 1000));
    pauseSeconds = Math.min(2 * pauseSeconds, LONGEST_PAUSE_SECONDS);
  }
}

async function* parse(body, attempt) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let unread = "";
  while (true) {
    // The server sends a comment from time to time; a stream without one is dead.
    const timer = setTimeout(() => attempt.abort(), SILENT_MILLISECONDS);
    const { done, value } = await reader.read().finally(() => clearTimeout(timer));
    if (done) return;
    const blocks = (unread + value).split("\n\n");
    unread = blocks.pop();
    for (const block of blocks) {
      const event = readBlock(block);
      if (event.data) yield event;
    }
  }
}

function readBlock(block) {
  const fields = { id: null, event: "message", data: "" };
  for (const line of block.split("\n")) {
    const [, name, text] = /^(\w+): ?(.*)$/.exec(line) ?? [];
    if (name in fields) fields[name] = text;
  }
  return { id: fields.id, name: fields.event, data: fields.data };
}
