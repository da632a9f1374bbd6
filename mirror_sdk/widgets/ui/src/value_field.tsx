/* An input for a value, by the type of its resource. Its owner checks the value and returns the problem. */

import { Checkbox, TextField } from "./controls";
import { useUniqueId } from "./unique_id";

export interface ValueForm {
  /** The type in the object table: "boolean", "integer", "unsigned", "float", "string", "time", "opaque", ... */
  readonly type: string;
  readonly unit?: string;
  readonly range?: readonly [number, number] | null;
  readonly placeholder?: string;
  /** Where the slider is while no number is entered. */
  readonly current?: number | null;
}

export interface ValueFieldProps {
  readonly label: string;
  readonly form: ValueForm;
  /** The entered value: a text, or for a boolean true or false. */
  readonly value: string | boolean;
  readonly problem?: string;
  onChange(value: string | boolean): void;
  /** The user chose a file, for a value of type opaque. */
  onFile?(bytes: Uint8Array, name: string): void;
}

export function ValueField({ label, form, value, problem, onChange, onFile }: ValueFieldProps) {
  const id = useUniqueId();
  if (form.type === "boolean") {
    return <Checkbox label={label} isChecked={value === true} onChange={onChange} />;
  }
  const entry = String(value);
  return (
    <div class="mirror-value-field">
      <TextField label={label} value={entry} isEager placeholder={form.placeholder} problem={problem} onChange={onChange}>
        {form.unit && <span class="mirror-unit">{form.unit}</span>}
      </TextField>
      {form.range && (
        <input
          type="range"
          aria-label={`${label}, slider`}
          min={form.range[0]}
          max={form.range[1]}
          value={Number.isFinite(Number(entry)) && entry !== "" ? Number(entry) : (form.current ?? form.range[0])}
          onInput={({ currentTarget }) => onChange(currentTarget.value)}
        />
      )}
      {form.type === "opaque" && onFile && (
        <>
          <label class="mirror-button" for={id}>
            File…
          </label>
          <input
            id={id}
            class="mirror-hidden"
            type="file"
            onChange={async ({ currentTarget }) => {
              const file = currentTarget.files?.[0];
              if (file) onFile(new Uint8Array(await file.arrayBuffer()), file.name);
            }}
          />
        </>
      )}
    </div>
  );
}
