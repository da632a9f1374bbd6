/* The write panel: devices, a resource and a value; the preview as a diff, the progress, the problems, and the undo. */

import { useState } from "preact/hooks";
import type { Bridge } from "./bridge";
import { Button } from "./controls";
import { Empty } from "./empty";
import { count } from "./format";
import { Grid, type GridColumn } from "./grid";
import { NameField } from "./name_field";
import { Notices } from "./notices";
import { Legend, StatusText, statusOf } from "./status";
import type { Tone } from "./tones";
import { ValueField, type ValueForm } from "./value_field";

/** The state of `WritePanel` in mirror_sdk/widgets/write_panel.py. */
export interface WriteState {
  readonly notices: readonly string[];
  /** The name of the device, if there is only one to write to. */
  readonly target: string | null;
  readonly limitsText: string;
  readonly limitsMeaning: string;
  readonly devicesText: string;
  readonly devicesPicked: readonly string[];
  readonly path: string;
  readonly valuePaths: readonly string[];
  readonly valuePathsText: string;
  readonly valuePathProblem: string;
  readonly valueForm: ValueForm;
  readonly entry: string | boolean;
  /** The size of the file that was chosen instead of a text. */
  readonly fileBytes: number | null;
  readonly valueProblem: string;
  readonly hint: string;
  readonly stage: "input" | "checking" | "preview" | "writing" | "ended";
  readonly isUndo: boolean;
  readonly isOutdated: boolean;
  readonly canApply: boolean;
  readonly canUndo: boolean;
  readonly toWrite: number;
  readonly statusText: string;
  readonly progress: readonly [done: number, total: number, tone: Tone];
  readonly planTitle: string;
  readonly counts: readonly (readonly [word: string, count: number])[];
  readonly shown: string | null;
  readonly problems: readonly Problem[];
}

interface Problem {
  readonly status: string;
  readonly reason: string;
  readonly devices: readonly string[];
}

const DEVICE_COLUMNS: readonly GridColumn[] = [
  { name: "device", heading: "Device", width: 180, least: 100 },
  { name: "type", heading: "Type", width: 90, rank: 1 },
  { name: "state", heading: "State", width: 100, rank: 2 },
];
const WRITE_COLUMNS: readonly GridColumn[] = [
  { name: "device", heading: "Device", width: 150, least: 56, pinned: true },
  { name: "status", heading: "Status", kind: "status", width: 100, least: 48 },
  { name: "before", heading: "Before", kind: "value", width: 100, rank: 1 },
  { name: "requested", heading: "After", kind: "value", width: 90, least: 44 },
  { name: "reason", heading: "Why", width: 300, least: 60 },
  { name: "waits", heading: "Waits", width: 75, rank: 3, hint: "How long the write may wait for its device" },
  { name: "undo", heading: "Undo", width: 65, rank: 2, hint: "Whether the value before can be written again" },
];
const NAMED_DEVICES = 6;
const BUFFER = 0x8000;

export function WritePanel({ bridge }: { bridge: Bridge<WriteState> }) {
  const state = bridge.state.value;
  return (
    <div class="mirror-stack mirror-write">
      <Notices texts={state.notices} onDismiss={() => bridge.intent("dismiss")} />
      <div class="mirror-head">
        <h3 class="mirror-title">{state.target === null ? "Write" : `Write to ${state.target}`}</h3>
        <span class="mirror-dim mirror-explained" title={state.limitsMeaning} tabIndex={0}>
          {state.limitsText}
        </span>
      </div>
      <div class={`mirror-write-input${state.target === null ? "" : " mirror-write-single"}`}>
        {state.target === null && <Devices bridge={bridge} state={state} />}
        <Input bridge={bridge} state={state} />
      </div>
      <Progress state={state} />
      <Problems problems={state.problems} />
      <Writes bridge={bridge} state={state} />
    </div>
  );
}

interface Part {
  readonly bridge: Bridge<WriteState>;
  readonly state: WriteState;
}

function Devices({ bridge, state }: Part) {
  return (
    <section class="mirror-write-devices" aria-label="Choice of devices">
      <Grid
        label="Devices to write to"
        columns={DEVICE_COLUMNS}
        rows={bridge.rows("devices")}
        selection="many"
        selected={state.devicesPicked}
        onSelect={(keys) => bridge.intent("devices.pick", keys)}
        maxHeight={260}
        empty={<Empty title={sentence(state.devicesText)} />}
      />
    </section>
  );
}

function Input({ bridge, state }: Part) {
  const isWriting = state.stage === "writing";
  const apply = state.isUndo ? "Apply the undo" : "Apply";
  return (
    <section class="mirror-write-form" aria-label="Input">
      <NameField
        label="Resource"
        isSingle
        value={state.path}
        names={state.valuePaths}
        placeholder="a path, such as /3311/0/5851"
        problem={state.valuePathProblem}
        onChange={(path) => bridge.intent("value.choose_path", path)}
      />
      <p class="mirror-dim mirror-write-note">{state.path.endsWith(state.valuePathsText) ? "" : sentence(state.valuePathsText)}</p>
      {state.path && (
        <ValueField
          label="Value"
          form={state.valueForm}
          value={state.entry}
          problem={state.valueProblem}
          onChange={(value) => bridge.intent("value.enter", value)}
          onFile={(bytes) => bridge.intent("enter_file", base64(bytes))}
        />
      )}
      {state.fileBytes !== null && <p class="mirror-write-note">{count(state.fileBytes, "byte")} of the chosen file</p>}
      <p class="mirror-dim mirror-write-note" role="status">
        {sentence(state.hint)}
      </p>
      <div class="mirror-bar">
        <Button
          label="Preview"
          hint="Preview the changes; nothing is sent"
          isDisabled={isWriting}
          onClick={() => bridge.intent("preview")}
        />
        <Button
          label={state.canApply ? `${apply} (${state.toWrite.toLocaleString("en")})` : "Apply"}
          hint={state.canApply ? "Send the writes of the preview" : "Make a preview first"}
          isPrimary
          isDisabled={!state.canApply}
          onClick={() => bridge.intent("apply")}
        />
        {isWriting && (
          <Button
            label="Stop"
            hint="Send no more writes; those in flight continue"
            isDangerous
            onClick={() => bridge.intent("stop")}
          />
        )}
        <Button
          label="Undo…"
          hint={state.canUndo ? "Preview the undo of the last writes; nothing is sent" : "There is no write to undo"}
          isDisabled={!state.canUndo}
          onClick={() => bridge.intent("preview_undo")}
        />
      </div>
    </section>
  );
}

function Progress({ state }: { state: WriteState }) {
  const [done, total, tone] = state.progress;
  return (
    <div class={`mirror-write-progress${state.isOutdated ? " mirror-tone-warn" : ""}`}>
      {total > 0 && <progress class={`mirror-progress mirror-tone-${tone}`} max={total} value={done} aria-label="Ended writes" />}
      <span role="status">{state.statusText}</span>
    </div>
  );
}

/* Failures and rejections come first, with complete reasons: they determine the next action of the user. */
function Problems({ problems }: { problems: readonly Problem[] }) {
  if (!problems.length) return null;
  return (
    <ul class="mirror-write-problems" aria-label="Problems">
      {problems.map((problem) => (
        <ProblemItem key={`${problem.status} ${problem.reason}`} problem={problem} />
      ))}
    </ul>
  );
}

function ProblemItem({ problem: { status, reason, devices } }: { problem: Problem }) {
  const [isOpen, setOpen] = useState(false);
  const more = devices.length - NAMED_DEVICES;
  const named = isOpen || more <= 1 ? devices : devices.slice(0, NAMED_DEVICES);
  return (
    <li>
      <StatusText word={status} text={devices.length > 1 ? `${devices.length.toLocaleString("en")} ${status.toLowerCase()}` : status} />
      <span class="mirror-write-reason">
        {reason && <strong>{reason}</strong>}
        <span class="mirror-dim">{named.join(", ")}</span>
        {named.length < devices.length && <Button label={`and ${more.toLocaleString("en")} more`} onClick={() => setOpen(true)} />}
      </span>
    </li>
  );
}

function Writes({ bridge, state }: Part) {
  if (!state.counts.length) return null;
  const total = state.counts.reduce((sum, [, number]) => sum + number, 0);
  return (
    <section class="mirror-stack mirror-writes" aria-label="Writes">
      <div class="mirror-bar" role="group" aria-label="Show writes">
        <strong>{state.planTitle}</strong>
        <Button
          label={count(total, "write")}
          hint="Show all writes"
          isPressed={state.shown === null}
          onClick={() => bridge.intent("show_only", null)}
        />
        {state.counts.map(([word, number]) => (
          <Button
            key={word}
            label={`${statusOf(word)?.sign ?? ""} ${number.toLocaleString("en")} ${word.toLowerCase()}`}
            hint={`Show only these: ${statusOf(word)?.meaning ?? word}`}
            isPressed={state.shown === word}
            onClick={() => bridge.intent("show_only", state.shown === word ? null : word)}
          />
        ))}
      </div>
      <Grid label="Writes of the plan" columns={WRITE_COLUMNS} rows={bridge.rows("writes")} maxHeight={360} />
      <Legend words={state.counts.map(([word]) => word)} />
    </section>
  );
}

export function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function base64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += BUFFER) text += String.fromCharCode(...bytes.subarray(at, at + BUFFER));
  return btoa(text);
}
