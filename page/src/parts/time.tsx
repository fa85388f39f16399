/** Times: relative, with the exact one on hover. */

import { ago, between, duration, exact } from "../format";
import { useNow } from "../hooks";

export function Ago({ at }: { at: string | null }) {
  const now = useNow(at !== null);
  if (!at) return <span class="muted">–</span>;
  return <time dateTime={at} title={exact(at)}>{ago(between(at, now))}</time>;
}

/** How long something took, or has taken until now. */
export function Took({ from, to }: { from: string | null; to: string | null }) {
  const now = useNow(from !== null && to === null);
  if (!from) return <span class="muted">–</span>;
  const until = to ? `until ${exact(to)}` : "still going on";
  return <span class="number" title={`from ${exact(from)} ${until}`}>{duration(between(from, to ?? now))}</span>;
}
