/** The form for an access key, with the reason why the last sign-in failed. */

import { useRef } from "preact/hooks";
import { useStore } from "./context";

export function SignIn() {
  const store = useStore();
  const field = useRef<HTMLInputElement>(null);
  const message = store.message.value;
  const isStarting = store.phase.value === "starting";
  const isFailure = message?.isFailure ?? false;
  return (
    <main class="page-sign-in">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const key = field.current?.value.trim();
          if (field.current) field.current.value = "";
          if (key) store.signIn(key);
        }}
      >
        <h1>
          <Logo /> Device state mirror
        </h1>
        <p>The last reported and the last desired value of every resource of every device.</p>
        {isStarting ? (
          <div class="page-starting">
            <span class="mirror-spinner" aria-hidden="true" />
            {isFailure ? "Trying again every few seconds …" : "Reading the devices …"}
            <button type="button" class="mirror-button" onClick={() => store.signOut()}>
              Cancel
            </button>
          </div>
        ) : (
          <>
            <label for="mirror-key">Access key</label>
            <div class="page-row">
              <input
                id="mirror-key"
                class="mirror-input"
                ref={field}
                type="password"
                autocomplete="off"
                spellcheck={false}
                required
                placeholder="ak_…"
                aria-describedby="mirror-status"
              />
              <button class="mirror-button mirror-primary">Sign in</button>
            </div>
          </>
        )}
        <p id="mirror-status" role="status" aria-live="polite" class={isFailure ? "mirror-tone-bad" : ""}>
          {message?.text ?? ""}
        </p>
        {!isStarting && !isFailure && (
          <p class="mirror-dim">
            An operator makes a key with <code>mirror-server keys create NAME</code>.
          </p>
        )}
        <Links />
      </form>
    </main>
  );
}

/** The mark of the page: two values, of which one mirrors the other. */
export function Logo() {
  return (
    <svg class="page-logo" viewBox="0 0 24 24" aria-hidden="true">
      <path d="M3 17 8 7l4 6v4z" fill="currentColor" />
      <path d="m21 17-5-10-4 6v4z" fill="currentColor" opacity=".45" />
    </svg>
  );
}

export function Links() {
  return (
    <nav class="page-links" aria-label="Documentation">
      <a href="openapi.json">Interface (OpenAPI)</a>
      <a href="reference/index.html">Reference (Python)</a>
    </nav>
  );
}
