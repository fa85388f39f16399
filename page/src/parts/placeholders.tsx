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

/** The content once it has come; before, its error or quiet words. */
export function Answered<T>({ answer, children }: {
  answer: { value: T | undefined; error: ApiError | undefined };
  children: (value: T) => ComponentChildren;
}) {
  if (answer.value !== undefined) return <>{children(answer.value)}</>;
  if (answer.error) return <Refused error={answer.error} />;
  return <p class="nothing loading">Loading…</p>;
}
