/** How the best value of several runs came: the value of each, and the best of it and those before. */

import { useMemo } from "preact/hooks";
import { counted } from "../../format";
import { Chart, type ChartLine } from "../chart";
import { valued, type RunSet } from "./run-set";

export function bestSoFar({ runs, goal, metric }: Pick<RunSet, "runs" | "goal" | "metric">): ChartLine[] {
  const all = valued(runs);
  const better = goal === "minimize" ? Math.min : Math.max;
  let best: number | undefined;
  const x = all.map((run) => run.number);
  const bests = all.map((run) => (best = best === undefined ? run.value : better(best, run.value)));
  return [{ label: `best ${metric} so far`, x, y: bests }, { label: metric, x, y: all.map((run) => run.value), isPoints: true }];
}

export function BestSoFar({ set, order }: { set: RunSet; order: string }) {
  const lines = useMemo(() => bestSoFar(set), [set]);
  if (lines[0]!.x.length < 2) return null;
  return (
    <figure class="chart-card">
      <figcaption><span class="chart-name">Best {set.metric} so far</span><span class="muted">{order}</span></figcaption>
      <Chart lines={lines} xKind="number" label={`Best ${set.metric} so far, ${counted(lines[0]!.x.length, set.noun)}`} height={220} />
    </figure>
  );
}
