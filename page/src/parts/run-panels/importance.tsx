/** How much each setting of several runs matters, how sure that is, and where it leads. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { number } from "../../format";
import { ENOUGH, importanceSteps, tooFew, type Weighted } from "../parameter-importance";
import { valued, type PanelRun, type RunSet } from "./run-set";

const percent = (share: number): string => `${Math.round(share * 100)} %`;
const LEAST_DIRECTION = 0.2;

/** What more of a setting does, or which word is the better one; "" = nothing that is sure. goal: "" = it isn't known which values are better. */
export function tendencyOf(one: Weighted, goal: string): string {
  const isDown = goal === "minimize";
  if (one.direction !== undefined) {
    if (Math.abs(one.direction) < LEAST_DIRECTION) return "no direction";
    if (!goal) return one.direction < 0 ? "more of it, lower values" : "more of it, higher values";
    return one.direction < 0 === isDown ? "higher is better" : "lower is better";
  }
  return goal ? `best ${isDown ? one.lowest : one.highest}` : `highest ${one.highest}`;
}

/** Says that runs are too few; "" = they aren't. */
export function doubtOf(names: string[], runs: number, noun = "trial"): string {
  const few = tooFew(names, runs);
  if (!few.length) return "";
  const said = few.length === 1 ? `say how much ${few[0]} matters` : `tell ${few.slice(0, -1).join(", ")} from ${few.at(-1)}`;
  return `${runs} ${noun}s are too few to ${said}: that takes ${ENOUGH * few.length}`;
}

export function Importance({ set, names }: { set: RunSet; names: string[] }) {
  const runs = useMemo(() => valued(set.runs), [set]);
  const shares = useShares(runs, names);
  const count = runs.length;
  if (!shares) return <section class="card"><header><h3>Importance</h3></header><p class="nothing loading">Loading…</p></section>;
  if (!shares.length) return null;
  const doubt = doubtOf(shares.map((one) => one.name), count, set.noun);
  return (
    <section class="card">
      <header><h3>Importance</h3><span class="muted">the share of {set.metric}'s variance that each setting explains by itself, of {count} {set.noun}s; the line is where it is in 9 of 10 samples of them</span></header>
      {doubt && <p class="tone-wait" role="note">{doubt}.</p>}
      <div class="scroll" tabIndex={0} role="region" aria-label="Importance of each setting">
        <table class="plain importance">
          <thead><tr><th scope="col">Setting</th><th scope="col">Share</th><th scope="col" class="right">of the variance</th><th scope="col">Direction</th></tr></thead>
          <tbody>
            {shares.map((one) => (
              <tr key={one.name}>
                <th scope="row">{one.name}</th>
                <td><Interval of={one} /></td>
                <td class="right number">{percent(one.share)} <span class="muted">({percent(one.low)} – {percent(one.high)})</span></td>
                <td class="muted" title={one.direction === undefined ? undefined : `rank correlation ${number(one.direction, 2)}`}>{tendencyOf(one, set.goal)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

const SLICE_MS = 8;

/** The shares, worked out a slice at a time: the page stays quick with thousands of runs. undefined = not yet; earlier ones stay until then. */
function useShares(runs: (PanelRun & { value: number })[], names: string[]): Weighted[] | undefined {
  const [shares, setShares] = useState<Weighted[]>();
  const shape = useMemo(() => JSON.stringify([names, runs.map((run) => [run.value, ...names.map((name) => run.parameters[name])])]), [runs, names]);
  useEffect(() => {
    const steps = importanceSteps(runs.map((run) => Object.fromEntries(names.map((name) => [name, run.parameters[name]]))), runs.map((run) => run.value));
    let timer = 0;
    const slice = () => {
      const end = performance.now() + SLICE_MS;
      do {
        const step = steps.next();
        if (step.done) return setShares(step.value);
      } while (performance.now() < end);
      timer = window.setTimeout(slice);
    };
    slice();
    return () => clearTimeout(timer);
  }, [shape]);
  return shares;
}

/** A bar with the line of its interval. */
function Interval({ of: { share, low, high } }: { of: Weighted }) {
  return (
    <svg class="interval" viewBox="0 0 100 12" preserveAspectRatio="none" aria-hidden="true">
      <rect class="interval-ground" width="100" height="12" />
      <rect class="interval-share" width={share * 100} height="12" />
      <rect class="interval-line" x={low * 100} width={Math.max(0.4, (high - low) * 100)} y="5" height="2" />
    </svg>
  );
}
