/** Which of the lines that a search finds is the chosen one: it stays the same line while others come before and behind it. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useKey } from "../../keys";
import { addressOf, placeOf, type LogLine } from "./log-lines";
import type { Pattern } from "./log-pattern";
import { countUpTo, LogSearch } from "./log-search";

/** isAsked: a person waits for it, and the view goes there. */
export interface Hit { address: string; isAsked: boolean }

export interface Hits {
  count: number;
  /** Of the chosen one, among those found. */
  at: number;
  hit: Hit | null;
  /** The place of its line; -1: there is none. */
  target: number;
  step: (by: number) => void;
  /** A person waits for what the reading that begins now will find. */
  await: () => void;
}

/** of: which lines are shown, in words that differ where they do. */
export function useHits(shown: LogLine[], { pattern, of }: { pattern: Pattern | undefined; of: string }, isLoading: boolean): Hits {
  const search = useMemo(() => new LogSearch(), []);
  const text = pattern?.key ?? "";
  const found = search.find(shown, pattern);
  const [hit, setHit] = useState<Hit | null>(null);
  const key = `${of} ${text}`;
  const asked = useRef({ key: "", text: "", isAsked: false });
  const line = useMemo(() => (hit ? placeOf(shown, hit.address) : -1), [shown, hit]);
  // A line that was let go leaves the choice to the next one.
  const at = hit ? Math.max(0, countUpTo(found, line) - 1) : found.length - 1;
  const choose = (n: number, isAsked: boolean) => setHit(found.length ? { address: addressOf(shown[found[n]!]!), isAsked } : null);
  const step = (by: number) => choose((at + by + found.length) % found.length, true);
  useEffect(() => {
    const isOther = asked.current.key !== key;
    const isAsked = isOther || asked.current.isAsked;
    const isKept = isOther && asked.current.text === text && found[at] === line;
    choose(isKept ? at : found.length - 1, isAsked);
    asked.current = { key, text, isAsked: isAsked && isLoading };
  }, [key, found.length > 0]);
  useEffect(() => {
    if (!isLoading) asked.current.isAsked = false;
  }, [isLoading]);
  useKey("n", "The next line found", () => step(1));
  useKey("N", "The line found before", () => step(-1));
  const target = hit && found.length ? found[at]! : -1;
  return { count: found.length, at, hit, target, step, await: () => (asked.current.isAsked = true) };
}
