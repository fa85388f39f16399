/** Parallel coordinates of several runs: a line for each, through its settings to its metric. */

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { number } from "../../format";
import { href, jobHref } from "../../router";
import { drawParallel } from "../parallel-coordinates";
import { valued, type RunSet } from "./run-set";

const MAX_COMPARED = 20;

export function Parallel({ set, names }: { set: RunSet; names: string[] }) {
  const box = useRef<HTMLDivElement>(null);
  const [chosen, setChosen] = useState<number[]>();
  const [hovered, setHovered] = useState<number>();
  const runs = valued(set.runs);
  // Drawn again only when a run has another value: what was chosen on the axes stays otherwise.
  const shape = [...names, set.metric, set.goal, ...runs.map((run) => `${run.job} ${run.value}`)].join();
  useLayoutEffect(() => {
    // What was chosen and pointed at are rows of the former drawing.
    setChosen(undefined);
    setHovered(undefined);
    return drawParallel(box.current!, { names, metric: set.metric, isUp: set.goal !== "minimize", runs, onChosen: setChosen, onHover: setHovered });
  }, [shape]);
  const pointed = hovered === undefined ? undefined : runs[hovered];
  const picked = chosen?.map((n) => runs[n]!).filter(Boolean) ?? [];
  return (
    <figure class="chart-card">
      <figcaption>
        <span class="chart-name">Settings and {set.metric}</span>
        {pointed ? <span class="number">{pointed.job}: {number(pointed.value)}</span> : <span class="muted">drag along an axis to choose</span>}
      </figcaption>
      <div class="parallel" ref={box} role="img" aria-label={`Parallel coordinates of ${names.join(", ")} and ${set.metric}; the table of ${set.noun}s has the same values`} />
      {picked.length > 0 && picked.length < runs.length && (
        <p class="picked-trials">
          {picked.length} chosen: {picked.slice(0, 12).map((run) => <a key={run.job} href={jobHref(run.job)}>{run.job}</a>)}
          {picked.length > 1 && picked.length <= MAX_COMPARED && <a class="button" href={href("/compare", { job: picked.map((run) => run.job) })}>Compare them</a>}
        </p>
      )}
    </figure>
  );
}
