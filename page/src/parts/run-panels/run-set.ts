/** Runs that are looked at together: what each was given, and what its metric came to. */

/** number: by which they are ordered, as they came. value: null = it has none. A trial is one. */
export interface PanelRun { job: string; number: number; parameters: Record<string, unknown>; value: number | null }

/** noun: what a run of them is called. goal: "minimize", "maximize", or "" = it isn't known which values are better. best: the job of the best one. */
export interface RunSet { noun: "trial" | "run"; metric: string; goal: string; best: string | undefined; runs: PanelRun[] }

/** The runs with a value, in their order. */
export const valued = (runs: PanelRun[]): (PanelRun & { value: number })[] =>
  runs.filter((run): run is PanelRun & { value: number } => run.value !== null).sort((a, b) => a.number - b.number);

/** The job with the best value; of equal ones, the first. */
export function bestJob(runs: PanelRun[], goal: string): string | undefined {
  if (!goal) return undefined;
  const sign = goal === "minimize" ? -1 : 1;
  let best: PanelRun & { value: number } | undefined;
  for (const run of valued(runs)) if (!best || sign * (run.value - best.value) > 0) best = run;
  return best?.job;
}

export const settingNames = (runs: PanelRun[]): string[] => [...new Set(runs.flatMap((run) => Object.keys(run.parameters)))];
