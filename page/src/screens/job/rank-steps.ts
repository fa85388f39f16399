/** How far each rank is by the steps of its metrics, and which of them are behind the others. */

import type { Series } from "../../types";

export interface RankSteps {
  /** The highest step that the rank has logged. */
  step: number;
  /** Its step and the furthest rank's, of the metric in which the two are compared. */
  behind?: { step: number; furthest: number };
}

const STEP_LAG = 0.8;
/** A rank whose step is below this share of the furthest one is behind. */

/** Compares a rank by the metric that has gone furthest of those that it logs with other ranks: steps of two metrics
 *  may count different things, such as batches and epochs. */
export function stepsOf(series: Series[]): Map<number, RankSteps> {
  const own = series.filter((one) => one.rank >= 0 && !one.name.startsWith("system/"));
  const [furthest, ranks] = [new Map<string, number>(), new Map<string, number>()];
  for (const { name, last } of own) {
    furthest.set(name, Math.max(furthest.get(name) ?? 0, last.step));
    ranks.set(name, (ranks.get(name) ?? 0) + 1);
  }
  const [steps, compared] = [new Map<number, RankSteps>(), new Map<number, { step: number; furthest: number }>()];
  for (const { name, rank, last } of own) {
    steps.set(rank, { step: Math.max(steps.get(rank)?.step ?? 0, last.step) });
    const limit = furthest.get(name)!;
    if (ranks.get(name)! > 1 && limit > (compared.get(rank)?.furthest ?? 0)) compared.set(rank, { step: last.step, furthest: limit });
  }
  for (const [rank, one] of compared) if (one.step < one.furthest * STEP_LAG) steps.get(rank)!.behind = one;
  return steps;
}
