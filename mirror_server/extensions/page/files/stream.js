// Server-sent events read with fetch, because an EventSource cannot send an access key.

import { Refused, reasonOf } from "./interface.js";

const SILENT_MILLISECONDS = 40_000;
const LONGEST_PAUSE_SECONDS = 30;

// Yields {id, name, data} for ever, over failures, until the signal aborts or the key is refused.
export async function* readEvents(url, { key, signal, opened, closed }) {
  let last = null;
  let pauseSeconds = 1;
  while (!signal.aborted) {
    const attempt = new AbortController();
    const stop = () => attempt.abort();
    signal.addEventListener("abort", stop);
    try {
      // A proxy may keep back what is not asked for as a stream.
      const headers = { Accept: "text/event-stream", Authorization: `Bearer ${key}`, ...(last === null ? {} : { "Last-Event-ID": last }) };
      const answer = await fetch(url, { headers, signal: attempt.signal, cache: "no-store" });
      if (!answer.ok) {
        // A log that is new does not know the position; of all else only a failure of the server passes by itself.
        if (answer.status === 400 && last !== null) last = null;
        else if (answer.status < 500 && answer.status !== 429) throw new Refused(answer.status, await reasonOf(answer));
      } else {
        pauseSeconds = 1;
        opened();
        for await (const event of parse(answer.body, attempt)) {
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
    // The server sends a comment now and then; a stream without one is dead.
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
