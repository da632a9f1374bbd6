/* A placeholder for the content of a component: nothing yet, loading, or a failure, and what to do. */

import type { ComponentChildren } from "preact";

export interface EmptyProps {
  readonly kind?: "empty" | "loading" | "error";
  readonly title: string;
  /** What to do, in a sentence. */
  readonly children?: ComponentChildren;
  readonly action?: ComponentChildren;
}

export function Empty({ kind = "empty", title, children, action }: EmptyProps) {
  return (
    <div class={`mirror-empty mirror-empty-${kind}`} role="status">
      {kind === "loading" && <span class="mirror-spinner" aria-hidden="true" />}
      <strong>{title}</strong>
      {children && <p>{children}</p>}
      {action}
    </div>
  );
}
