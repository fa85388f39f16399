/** Short words in place of a list or an answer: nothing here, still on its way, refused. */

import type { ComponentChildren } from "preact";
import type { ApiError } from "../api";

export function Nothing({ children }: { children: ComponentChildren }) {
  return <p class="nothing">{children}</p>;
}

export function Refused({ error }: { error: ApiError }) {
  return (
    <div class="note tone-bad" role="alert">
      <p><strong>{error.what}</strong></p>
      {error.where && <p class="muted">{error.where}</p>}
      {error.fix && <p>{error.fix}</p>}
      {error.details.length > 0 && <ul>{error.details.map((one, n) => <li key={n}>{one}</li>)}</ul>}
    </div>
  );
}

/** In place of a screen or tab whose code isn't had: the server is away, or is a newer one with other files. */
export function NotLoaded() {
  return (
    <div class="note tone-bad" role="alert">
      <p><strong>The code of this part of the page could not be loaded</strong></p>
      <p>The server doesn't answer, or has been updated since this page was opened.</p>
      <div class="buttons"><button type="button" onClick={() => location.reload()}>Reload the page</button></div>
    </div>
  );
}

/** The content once it has come; before, its error or quiet words. */
export function Answered<T>({ answer, children }: {
  answer: { value: T | undefined; error: ApiError | undefined };
  children: (value: T) => ComponentChildren;
}) {
  if (answer.value !== undefined) return <>{children(answer.value)}</>;
  if (answer.error) return <Refused error={answer.error} />;
  return <p class="nothing loading">Loading…</p>;
}
