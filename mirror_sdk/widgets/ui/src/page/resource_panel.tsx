/** The open resource: its recent values, and the operations on it. */

import { useEffect, useRef, useState } from "preact/hooks";
import { Button, Choices } from "../controls";
import { ValueField } from "../value_field";
import { useStore } from "./context";
import { RequestError } from "./http";
import { type Finding, findingOf, markOf } from "./marks";
import { declaredFor, mayBe, numberOf } from "./objects";
import { RequestText } from "./parts";
import { ResourceChart } from "./resource_chart";
import { expected, readTyped } from "./typed";
import type { Resource, Scope } from "./wire";

const SUBSCRIBED: Record<string, string> = {
  active: "This key is subscribed: it gets each change.",
  asked: "The subscription waits for the device to accept it.",
  refused: "The device rejected the subscription.",
  other: "Another application is subscribed: the mirror has each change, but this key is not notified.",
};
const BOOLEANS = ["true", "false"].map((value) => ({ value, label: value }));
const REREAD_MILLISECONDS = 1000;
const SHOWN_REQUESTS = 5;

interface PanelProps {
  resource: Resource;
  unit: string;
}

export function ResourcePanel({ resource, unit }: PanelProps) {
  const store = useStore();
  const path = resource.resource_path;
  const isAction = declaredFor(path)?.access === "E";
  const requests = store.requests.value.of(store.chosen.value ?? "", path).slice(0, SHOWN_REQUESTS);
  return (
    <div class="page-resource-panel">
      {!isAction && <ResourceChart resource={resource} unit={unit} />}
      <div class="page-actions">
        {mayBe("R", path) && <ReadButton path={path} />}
        {mayBe("R", path) && <Subscription key={path} resource={resource} />}
        {markOf(resource) === "failed" && (
          <Button
            label="Acknowledge failure"
            hint="The failed write then no longer counts as a failure."
            isDisabled={!store.scopes.value.has("write")}
            onClick={() => void store.acknowledge(resource)}
          />
        )}
      </div>
      {mayBe("W", path) && <WriteForm resource={resource} unit={unit} />}
      {mayBe("E", path) && <ExecuteForm path={path} />}
      <MissingScopes path={path} />
      {/* It always exists, because screen readers only announce additions to an existing log. */}
      <div class="page-responses" role="log" aria-label="Responses">
        {requests.map((request) => (
          <p key={request.id}>
            <RequestText request={request} unit={unit} />
          </p>
        ))}
      </div>
    </div>
  );
}

function ReadButton({ path }: { path: string }) {
  const store = useStore();
  return (
    <Button
      label="Read"
      hint="Ask the device for its current value"
      icon="refresh"
      isDisabled={!store.scopes.value.has("read")}
      onClick={() => void store.send("GET", path, null)}
    />
  );
}

function MissingScopes({ path }: { path: string }) {
  const { scopes } = useStore();
  const needs: [Scope, boolean][] = [
    ["read", mayBe("R", path)],
    ["write", mayBe("W", path) || mayBe("E", path)],
    ["subscribe", mayBe("R", path)],
  ];
  const missing = needs.filter(([scope, isNeeded]) => isNeeded && !scopes.value.has(scope)).map(([scope]) => scope);
  if (!missing.length) return null;
  return (
    <p class="page-note">{`This key lacks the scope ${missing.join(" and ")}, so some of these actions are disabled.`}</p>
  );
}

function WriteForm({ resource, unit }: PanelProps) {
  const store = useStore();
  const { resource_path: path } = resource;
  const declared = declaredFor(path);
  const isBoolean = declared?.type === "boolean";
  const [text, setText] = useState("");
  const [isTried, setTried] = useState(false);
  const isUntouched = text === "" && !isTried;
  const finding: Finding | null = isUntouched ? null : findingOf(readTyped(text, path), resource, store.device.value);
  const expectation = declared && declared.type !== "string" ? `: ${expected(declared)}` : "";
  const label = `New value${expectation}${unit && `, in ${unit}`}`;
  const write = (): void => {
    setTried(true);
    const decided = findingOf(readTyped(text, path), resource, store.device.peek());
    if (decided.decision === "reject" || decided.decision === "skip") return;
    void store.send("PUT", path, text);
    setText("");
    setTried(false);
  };
  return (
    <form
      class="page-write"
      onSubmit={(event) => {
        event.preventDefault();
        write();
      }}
    >
      <fieldset disabled={!store.scopes.value.has("write")}>
        {isBoolean ? (
          <>
            <span class="mirror-label">{label}</span>
            <Choices label={label} choices={BOOLEANS} value={text} onChange={setText} />
          </>
        ) : (
          <ValueField
            label={label}
            form={{ type: declared?.type ?? "string", range: declared?.range ?? null, current: numberOf(resource.reported.value, path) }}
            value={text}
            onChange={(value) => setText(String(value))}
          />
        )}
        <button class="mirror-button mirror-primary">{finding?.decision === "offline" ? "Write anyway" : "Write"}</button>
      </fieldset>
      <p class={finding?.decision === "reject" ? "page-finding mirror-tone-bad" : "page-finding mirror-dim"} role="status">
        {finding?.words ?? ""}
      </p>
    </form>
  );
}

function ExecuteForm({ path }: { path: string }) {
  const store = useStore();
  const [isOpen, setOpen] = useState(false);
  const argument = useRef<HTMLInputElement>(null);
  const isDisabled = !store.scopes.value.has("write");
  if (!isOpen) return <Button label="Execute …" icon="play" isDisabled={isDisabled} onClick={() => setOpen(true)} />;
  return (
    <form
      class="page-execute"
      onSubmit={(event) => {
        event.preventDefault();
        setOpen(false);
        void store.send("POST", path, argument.current?.value || null);
      }}
    >
      <label class="mirror-field">
        <span class="mirror-label">Argument, if it takes one</span>
        <input class="mirror-input" ref={argument} autocomplete="off" spellcheck={false} />
      </label>
      <button class="mirror-button mirror-primary" disabled={isDisabled}>
        Execute it now
      </button>
      <Button label="Cancel" onClick={() => setOpen(false)} />
    </form>
  );
}

/** The subscription of this key: its state, and a button that changes it. */
function Subscription({ resource: { resource_path: path, subscribed = false } }: { resource: Resource }) {
  const store = useStore();
  const [state, setState] = useState<string | null>(null);
  const [problem, setProblem] = useState("");
  const [isChanging, setChanging] = useState(false);
  const maySubscribe = store.scopes.value.has("subscribe");
  const isOwn = state !== null && state !== "other";

  const read = async (): Promise<void> => {
    const found = await store.readSubscription(path);
    setState(found ?? (subscribed ? "other" : null));
  };
  useEffect(() => {
    if (!maySubscribe) return;
    // If no one is subscribed and this page requested nothing, there is no subscription to read.
    if (!subscribed && !isOwn) setState(null);
    else read().catch(store.report);
  }, [subscribed, maySubscribe]);
  useEffect(() => {
    if (state !== "asked") return undefined;
    // A rejection by the device does not change the resource, so the state is read again.
    const timer = setInterval(() => read().catch(store.report), REREAD_MILLISECONDS);
    return () => clearInterval(timer);
  }, [state, subscribed]);

  const change = async (): Promise<void> => {
    setChanging(true);
    setProblem("");
    try {
      await store.changeSubscription(path, !isOwn);
      if (isOwn) setState(null);
      else {
        setState("asked");
        await read();
      }
    } catch (error) {
      if (!(error instanceof RequestError) || error.code === 401) store.report(error);
      else setProblem(error.message);
    } finally {
      setChanging(false);
    }
  };
  return (
    <>
      <Button
        label={isOwn ? "Unsubscribe" : "Subscribe"}
        hint={isOwn ? "Get no more changes of this value" : "Get each change of this value"}
        isDisabled={!maySubscribe || isChanging}
        onClick={() => void change()}
      />
      <span class="mirror-dim" role="status">
        {problem || (state !== null ? (SUBSCRIBED[state] ?? "") : "")}
      </span>
    </>
  );
}
