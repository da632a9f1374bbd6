/* Buttons, choices and fields. */

import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import { Icon, type IconName } from "./icons";
import { useUniqueId } from "./unique_id";

export interface ButtonProps {
  readonly label: string;
  /** A sentence about its effect. */
  readonly hint?: string;
  readonly icon?: IconName;
  /** Whether only the icon is shown; the label is its name for screen readers and its tooltip. */
  readonly isIcon?: boolean;
  readonly isPrimary?: boolean;
  readonly isDangerous?: boolean;
  readonly isPressed?: boolean;
  readonly isDisabled?: boolean;
  onClick(event: MouseEvent): void;
}

export function Button({ label, hint, icon, isIcon, isPrimary, isDangerous, isPressed, isDisabled, onClick }: ButtonProps) {
  const classes = ["mirror-button", isPrimary && "mirror-primary", isDangerous && "mirror-danger", isIcon && "mirror-icon-button"];
  return (
    <button
      type="button"
      class={classes.filter(Boolean).join(" ")}
      title={hint ?? (isIcon ? label : undefined)}
      aria-label={isIcon ? label : undefined}
      aria-pressed={isPressed}
      disabled={isDisabled}
      onClick={onClick}
    >
      {icon && <Icon name={icon} />}
      {!isIcon && <span>{label}</span>}
    </button>
  );
}

export interface Choice {
  readonly value: string;
  readonly label: string;
  readonly hint?: string;
}

/** A group of connected buttons, one of which is pressed. */
export function Choices(props: { label: string; choices: readonly Choice[]; value: string; onChange(value: string): void }) {
  return (
    <div class="mirror-choices" role="group" aria-label={props.label}>
      {props.choices.map(({ value, label, hint }) => (
        <button
          type="button"
          key={value}
          class="mirror-button"
          title={hint}
          aria-pressed={props.value === value}
          onClick={() => props.onChange(value)}
        >
          {label}
        </button>
      ))}
    </div>
  );
}

/** A list of which one entry is chosen, with its label in front. */
export function Select(props: { label: string; choices: readonly Choice[]; value: string; onChange(value: string): void; isBare?: boolean }) {
  return (
    <label class="mirror-field">
      {!props.isBare && <span class="mirror-label">{props.label}</span>}
      <select
        class="mirror-input"
        value={props.value}
        aria-label={props.isBare ? props.label : undefined}
        onChange={({ currentTarget }) => props.onChange(currentTarget.value)}
      >
        {props.choices.map(({ value, label }) => (
          <option key={value} value={value}>
            {label}
          </option>
        ))}
      </select>
    </label>
  );
}

export interface TextFieldProps {
  readonly label: string;
  readonly value: string;
  /** Called when Enter is pressed or the field is left, and also while the user types if `isEager`. */
  onChange(text: string): void;
  readonly isEager?: boolean;
  readonly placeholder?: string;
  /** The problem with the text; empty if it is valid. */
  readonly problem?: string;
  readonly isBare?: boolean;
  readonly type?: "text" | "search" | "password";
  readonly attributes?: Record<string, unknown>;
  readonly children?: ComponentChildren;
}

/** A text field. The typed text stays until the field is left, even if another value arrives. */
export function TextField(props: TextFieldProps) {
  const { label, value, onChange, isEager = false, placeholder, problem, isBare = false, type = "text", attributes, children } = props;
  // Not reset when the value arrives: while the user types on, values of earlier keys still arrive from a slow kernel.
  const [typed, setTyped] = useState<string | null>(null);
  const input = useRef<HTMLInputElement>(null);
  const id = useUniqueId();
  const commit = () => {
    const text = input.current?.value ?? value;
    setTyped(null);
    if (text !== value) onChange(text);
  };
  return (
    <div class="mirror-field">
      {!isBare && (
        <label class="mirror-label" for={id}>
          {label}
        </label>
      )}
      <input
        {...attributes}
        ref={input}
        id={id}
        class="mirror-input"
        type={type as "text"}
        value={typed ?? value}
        placeholder={placeholder}
        autocomplete="off"
        spellcheck={false}
        aria-label={isBare ? label : undefined}
        aria-invalid={problem ? true : undefined}
        aria-describedby={problem ? `${id}-problem` : undefined}
        onInput={({ currentTarget }) => {
          setTyped(currentTarget.value);
          if (isEager) onChange(currentTarget.value);
        }}
        onBlur={commit}
        onKeyDown={(event) => {
          if (event.key === "Enter") commit();
        }}
      />
      {children}
      {problem && (
        <span id={`${id}-problem`} class="mirror-problem" role="status">
          {problem}
        </span>
      )}
    </div>
  );
}

export function Checkbox(props: { label: string; hint?: string; isChecked: boolean; onChange(isChecked: boolean): void }) {
  return (
    <label class="mirror-check" title={props.hint}>
      <input type="checkbox" checked={props.isChecked} onChange={({ currentTarget }) => props.onChange(currentTarget.checked)} />
      <span>{props.label}</span>
    </label>
  );
}
