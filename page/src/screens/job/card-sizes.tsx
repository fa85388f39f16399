/** How large the cards of an experiment's metrics are: over the whole row, twice as high, or both, for everyone. */

import { useState } from "preact/hooks";
import { act, ApiError, segment } from "../../api";
import { useAnswer, useMayAct } from "../../hooks";
import { HEIGHT } from "../../parts/chart";
import type { CardSize, Job } from "../../types";

type Side = "wide" | "tall";

export interface Sizes { of: (title: string) => CardSize; set: (title: string, size: CardSize) => Promise<void> }

export const has = (size: CardSize, side: Side): boolean => size === side || size === "large";

/** The size with one side changed. */
export function toggled(size: CardSize, side: Side): CardSize {
  const [isWide, isTall] = [has(size, "wide") !== (side === "wide"), has(size, "tall") !== (side === "tall")];
  return isWide ? (isTall ? "large" : "wide") : isTall ? "tall" : "normal";
}

/** What a card of this size is drawn with. */
export const drawnAs = (size: CardSize): { isWide: boolean; height?: number } => ({ isWide: has(size, "wide"), ...(has(size, "tall") ? { height: 2 * HEIGHT } : {}) });

export function useCardSizes(job: Pick<Job, "experiment">): Sizes {
  const path = `/experiments/${segment(job.experiment)}/card-sizes`;
  const saved = useAnswer<Record<string, CardSize>>(path, {}, true);
  // What was just chosen is drawn before the server has it.
  const [chosen, setChosen] = useState<Record<string, CardSize>>({});
  const sizes = { ...saved.value, ...chosen };
  return {
    of: (card) => sizes[card] ?? "normal",
    set: async (card, size) => {
      const before = sizes[card] ?? "normal";
      setChosen((now) => ({ ...now, [card]: size }));
      try {
        await act("PUT", path, {}, { card, size });
      } catch (refused) {
        setChosen((now) => ({ ...now, [card]: before }));
        throw refused;
      }
    },
  };
}

const SIDES: [Side, string, string][] = [["wide", "↔", "the whole row"], ["tall", "↕", "twice as high"]];

export function SizeButtons({ title, sizes }: { title: string; sizes: Sizes }) {
  const [error, setError] = useState("");
  if (!useMayAct()) return null;
  const size = sizes.of(title);
  const change = (side: Side) => {
    setError("");
    sizes.set(title, toggled(size, side)).catch((refused) => setError(refused instanceof ApiError ? refused.what : String(refused)));
  };
  return (
    <>
      {SIDES.map(([side, sign, words]) => (
        <button key={side} type="button" class="quiet" aria-pressed={has(size, side)} aria-label={`${title}: ${words}`} title={`${has(size, side) ? "As others again" : words[0]!.toUpperCase() + words.slice(1)}, for all jobs of the experiment`} onClick={() => change(side)}>{sign}</button>
      ))}
      {error && <span class="not-finite" role="alert">{error}</span>}
    </>
  );
}
