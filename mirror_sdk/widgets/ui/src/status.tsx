/* The statuses: each has one sign, one word, one color and one meaning, the same as mirror_sdk/widgets/models/status.py. */

import { isShown, type Tone } from "./tones";

export interface Status {
  readonly word: string;
  readonly sign: string;
  readonly tone: Tone;
  /** The name of its color in tokens.css, without `--mirror-`. */
  readonly color: string;
  readonly meaning: string;
}

const ALL: readonly (readonly [sign: string, word: string, tone: Tone, color: string, meaning: string])[] = [
  ["✗", "Failed", "bad", "failed", "the write failed"],
  ["⊘", "Rejected", "bad", "failed", "the resource cannot be written, so the write is not sent"],
  ["≠", "Drifting", "warn", "drift", "the desired and the reported value differ"],
  ["◔", "Stale", "warn", "stale", "no value was received for longer than its reporting interval allows"],
  ["?", "Unknown", "warn", "drift", "it is unknown whether the service accepted the write"],
  ["→", "To write", "note", "pending", "the write will be sent"],
  ["…", "Pending", "note", "pending", "the write has not ended yet"],
  ["☾", "Asleep", "note", "pending", "the device receives the write at its next contact"],
  ["✓", "Success", "good", "ok", "the device accepted the write"],
  ["✓", "In sync", "good", "ok", "the reported values are the desired ones"],
  ["?", "Unconfirmed", "dim", "never", "the device accepted the write, and has reported nothing since"],
  ["○", "Never reported", "dim", "never", "the mirror has no value"],
  ["∅", "Offline", "dim", "offline", "the device is not registered"],
  ["↷", "Skipped", "dim", "never", "there is nothing to do, and nothing is sent"],
  ["·", "Queued", "dim", "never", "the write will be sent after others"],
  ["◌", "Not sent", "dim", "never", "sending ended before it"],
];

/** Every status by its word. */
export const STATUSES: ReadonlyMap<string, Status> = new Map(
  ALL.map(([sign, word, tone, color, meaning]) => [word, { sign, word, tone, color, meaning }]),
);

/** The status of a text, which may have the sign in front: "✗ Failed", "Failed". */
export function statusOf(text: unknown): Status | undefined {
  if (!isShown(text)) return undefined;
  const words = String(text);
  return STATUSES.get(words) ?? STATUSES.get(words.slice(words.indexOf(" ") + 1));
}

/** A status as a sign in its color and a word. */
export function StatusText({ word, text }: { word: string; text?: string }) {
  const status = statusOf(word);
  if (status === undefined) return <span class="mirror-status">{text ?? word}</span>;
  return (
    <span class={`mirror-status mirror-status-${status.color}`} title={`${status.word}: ${status.meaning}`}>
      <span class="mirror-status-sign" aria-hidden="true">
        {status.sign}
      </span>{" "}
      {text ?? status.word}
    </span>
  );
}

/** The meanings of statuses, folded. */
export function Legend({ words }: { words: readonly string[] }) {
  const shown = words.map(statusOf).filter((one) => one !== undefined);
  return (
    <details class="mirror-legend">
      <summary>Legend</summary>
      <dl>
        {shown.map((status) => (
          <div key={status.word}>
            <dt>
              <StatusText word={status.word} />
            </dt>
            <dd>{status.meaning}</dd>
          </div>
        ))}
      </dl>
    </details>
  );
}
