/** Which settings of a sweep led where: one over the metric, and how much each matters. */

import { number } from "../../format";
import { ENOUGH, importanceOf, tooFew, type Weighted } from "../../parts/parameter-importance";
import { Scatter } from "../../parts/scatter";
import { setQuery, usePlace } from "../../router";
import type { Sweep, Trial } from "../../types";

const LOG_WORDS: Record<string, boolean> = { "1": true, "0": false };

/** One setting and the metric. Axes are logarithmic where their values span more than two powers of ten, unless one says otherwise. */
export function SettingScatter({ sweep, trials, names }: { sweep: Sweep; trials: Trial[]; names: string[] }) {
  const { query } = usePlace();
  const name = names.includes(query.get("over") ?? "") ? query.get("over")! : names[0]!;
  const word = (key: string): boolean | undefined => LOG_WORDS[query.get(key) ?? ""];
  const own = trials.filter((trial) => trial.parameters[name] !== undefined);
  const points = own.map((trial) => ({ job: trial.job, x: trial.parameters[name], y: trial.value!, isBest: trial.number === sweep.best }));
  return (
    <figure class="chart-card">
      <figcaption class="filters scatter-head">
        <span class="chart-name">{sweep.primary_metric} over {name}</span>
        <label class="select"><span>setting</span>
          <select value={name} onChange={(event) => setQuery({ over: event.currentTarget.value, logx: "" })}>{names.map((one) => <option key={one} value={one}>{one}</option>)}</select>
        </label>
        <AxisChoice label={name} word="logx" chosen={word("logx")} can={points.every((one) => typeof one.x === "number" && one.x > 0)} />
        <AxisChoice label={sweep.primary_metric} word="logy" chosen={word("logy")} can={points.every((one) => one.y > 0)} />
      </figcaption>
      <Scatter points={points} xName={name} yName={sweep.primary_metric} isLogX={word("logx")} isLogY={word("logy")} />
    </figure>
  );
}

/** can: whether all values are above zero. */
function AxisChoice({ label, word, chosen, can }: { label: string; word: string; chosen: boolean | undefined; can: boolean }) {
  if (!can) return null;
  return (
    <label class="select"><span>axis of {label}</span>
      <select value={chosen === undefined ? "" : chosen ? "1" : "0"} onChange={(event) => setQuery({ [word]: event.currentTarget.value })}>
        <option value="">by its values</option><option value="1">logarithmic</option><option value="0">linear</option>
      </select>
    </label>
  );
}

const percent = (share: number): string => `${Math.round(share * 100)} %`;
const LEAST_DIRECTION = 0.2;

/** What more of a setting does, or which word is the better one; "" = nothing that is sure. */
export function tendencyOf(one: Weighted, goal: string): string {
  const isDown = goal === "minimize";
  if (one.direction !== undefined) {
    if (Math.abs(one.direction) < LEAST_DIRECTION) return "no direction";
    return one.direction < 0 === isDown ? "higher is better" : "lower is better";
  }
  return `best ${isDown ? one.lowest : one.highest}`;
}

/** Says that trials are too few; "" = they aren't. */
export function doubtOf(names: string[], trials: number): string {
  const few = tooFew(names, trials);
  if (!few.length) return "";
  const said = few.length === 1 ? `say how much ${few[0]} matters` : `tell ${few.slice(0, -1).join(", ")} from ${few.at(-1)}`;
  return `${trials} trials are too few to ${said}: that takes ${ENOUGH * few.length}`;
}

export function Importance({ sweep, trials }: { sweep: Sweep; trials: Trial[] }) {
  const shares = importanceOf(trials.map((trial) => trial.parameters), trials.map((trial) => trial.value!));
  if (!shares.length) return null;
  const doubt = doubtOf(shares.map((one) => one.name), trials.length);
  return (
    <section class="card">
      <header><h3>Importance</h3><span class="muted">the share of {sweep.primary_metric}'s variance that each setting explains by itself, of {trials.length} trials; the line is where it is in 9 of 10 samples of them</span></header>
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
                <td class="muted" title={one.direction === undefined ? undefined : `rank correlation ${number(one.direction, 2)}`}>{tendencyOf(one, sweep.goal)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
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
