/** One setting of several runs over their metric. */

import { setQuery, usePlace } from "../../router";
import { Scatter } from "../scatter";
import { valued, type RunSet } from "./run-set";

const LOG_WORDS: Record<string, boolean> = { "1": true, "0": false };

/** Axes are logarithmic where their values span more than two powers of ten, unless one says otherwise. */
export function SettingScatter({ set, names }: { set: RunSet; names: string[] }) {
  const { query } = usePlace();
  const name = names.includes(query.get("over") ?? "") ? query.get("over")! : names[0]!;
  const word = (key: string): boolean | undefined => LOG_WORDS[query.get(key) ?? ""];
  const own = valued(set.runs).filter((run) => run.parameters[name] !== undefined);
  const points = own.map((run) => ({ job: run.job, x: run.parameters[name], y: run.value, isBest: run.job === set.best }));
  return (
    <figure class="chart-card">
      <figcaption class="filters scatter-head">
        <span class="chart-name">{set.metric} over {name}</span>
        <label class="select"><span>setting</span>
          <select value={name} onChange={(event) => setQuery({ over: event.currentTarget.value, logx: "" })}>{names.map((one) => <option key={one} value={one}>{one}</option>)}</select>
        </label>
        <AxisChoice label={name} word="logx" chosen={word("logx")} can={points.every((one) => typeof one.x === "number" && one.x > 0)} />
        <AxisChoice label={set.metric} word="logy" chosen={word("logy")} can={points.every((one) => one.y > 0)} />
      </figcaption>
      <Scatter points={points} noun={set.noun} xName={name} yName={set.metric} isLogX={word("logx")} isLogY={word("logy")} />
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
