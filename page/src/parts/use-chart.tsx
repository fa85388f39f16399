/** What was held over time, stacked by who held it, with what was really used and what there was. */

import { useState } from "preact/hooks";
import { exact, hours, whole } from "../format";
import type { UseHistory } from "../types";

export type Unit = "gpu" | "slot";

const WIDTH = 1000;
const HEIGHT = 200;
const GAP = 0.12;
const COLOURS = 8;

export const nameOfUnit = (unit: Unit): string => (unit === "gpu" ? "GPU" : "slot");

/** The mean number of GPUs or slots in each part, of each series, of those in use, and of those that there were. */
export function levels(history: UseHistory, unit: Unit): { held: number[][]; used: number[]; capacity: (number | null)[]; top: number } {
  const mean = (seconds: number[]): number[] => seconds.map((one, n) => (history.lengths_s[n] ? one / history.lengths_s[n]! : 0));
  const held = history.series.map((one) => mean(unit === "gpu" ? one.gpu_s : one.slot_s));
  const used = mean(unit === "gpu" ? history.busy_gpu_s : history.work_slot_s);
  const capacity = unit === "gpu" ? history.gpus : history.slots;
  const sums = history.starts.map((_, n) => held.reduce((total, one) => total + one[n]!, 0));
  return { held, used, capacity, top: Math.max(1e-9, ...sums, ...capacity.map((one) => one ?? 0)) };
}

export const amount = (value: number): string => (value >= 100 ? whole(Math.round(value)) : value.toFixed(value >= 10 ? 1 : 2).replace(/\.?0+$/, ""));

/** hrefOf: where a series leads to. */
export function UseChart({ history, unit, label, hrefOf }: { history: UseHistory; unit: Unit; label: string; hrefOf?: (name: string) => string }) {
  const [hasTable, setTable] = useState(false);
  const { held, used, capacity, top } = levels(history, unit);
  const width = WIDTH / Math.max(history.starts.length, 1);
  const y = (value: number): number => HEIGHT - (value / top) * HEIGHT;
  const word = nameOfUnit(unit);
  const steps = (values: (number | null)[]): string => values.map((one, n) => (one === null ? "" : `${values[n - 1] === undefined || values[n - 1] === null ? "M" : "L"}${n * width} ${y(one)} L${(n + 1) * width} ${y(one)}`)).join(" ");
  return (
    <figure class="use">
      <div class="use-plot">
        <div class="use-axis muted number" aria-hidden="true"><span>{amount(top)}</span><span>{amount(top / 2)}</span><span>0</span></div>
        <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
          <path class="use-grid" d={`M0 ${HEIGHT / 2} H${WIDTH} M0 ${HEIGHT} H${WIDTH}`} />
          {history.starts.map((start, n) => {
            let below = 0;
            return (
              <g key={start}>
                <title>{[`from ${exact(start)}`, ...history.series.map((one, at) => (held[at]![n] ? `${one.name}: ${amount(held[at]![n]!)}` : "")), `really used: ${amount(used[n]!)}`, capacity[n] === null || capacity[n] === undefined ? "" : `there were ${amount(capacity[n]!)}`].filter(Boolean).join("\n")}</title>
                <rect class="use-hit" x={n * width} y="0" width={width} height={HEIGHT} />
                {history.series.map((one, at) => {
                  const value = held[at]![n]!;
                  below += value;
                  return value > 0 && <rect key={one.name} class={`fill-${at % COLOURS}`} x={(n + GAP / 2) * width} y={y(below)} width={width * (1 - GAP)} height={HEIGHT - y(value)} />;
                })}
              </g>
            );
          })}
          <path class="use-capacity" d={steps(capacity)} />
          <path class="use-used" d={steps(used)} />
        </svg>
      </div>
      <div class="use-ends muted number" aria-hidden="true"><span>{exact(history.since).slice(0, 16)}</span><span>{exact(history.until).slice(0, 16)}</span></div>
      <figcaption>
        <ul class="ledger-key" aria-label={`Who held ${word}s`}>
          {history.series.map((one, at) => {
            const sum = (unit === "gpu" ? one.gpu_s : one.slot_s).reduce((total, each) => total + each, 0);
            return sum > 0 && (
              <li key={one.name}>
                <svg class="swatch" viewBox="0 0 10 10" width="10" height="10" aria-hidden="true"><rect class={`fill-${at % COLOURS}`} width="10" height="10" rx="2" /></svg>{" "}
                {hrefOf && one.name !== "others" ? <a href={hrefOf(one.name)}>{one.name}</a> : one.name} <span class="number muted">{hours(sum)} {word}-hours</span>
              </li>
            );
          })}
          <li><span class="use-line" aria-hidden="true" /> really used</li>
          {capacity.some((one) => one !== null) && <li><span class="use-line use-dashed" aria-hidden="true" /> what there was</li>}
        </ul>
        <button type="button" class="quiet" aria-expanded={hasTable} onClick={() => setTable(!hasTable)}>{hasTable ? "Hide the table" : "As a table"}</button>
      </figcaption>
      {hasTable && (
        <div class="scroll chart-rows" tabIndex={0} role="region" aria-label={`Values of ${label}`}>
          <table class="plain">
            <thead><tr><th scope="col">from</th>{history.series.map((one) => <th key={one.name} scope="col" class="right">{one.name}</th>)}<th scope="col" class="right">really used</th><th scope="col" class="right">there were</th></tr></thead>
            <tbody>
              {history.starts.map((start, n) => (
                <tr key={start}>
                  <th scope="row" class="number">{exact(start)}</th>
                  {held.map((one, at) => <td key={at} class="right number">{amount(one[n]!)}</td>)}
                  <td class="right number">{amount(used[n]!)}</td>
                  <td class="right number">{capacity[n] === null || capacity[n] === undefined ? "unknown" : amount(capacity[n]!)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </figure>
  );
}

/** The jobs that held the most without use, in sentences. */
export function IdleJobs({ history, hrefOf }: { history: UseHistory; hrefOf: (job: string) => string }) {
  const some = history.idle.filter((one) => one.idle_gpu_s >= 60 || one.idle_slot_s >= 60);
  if (!some.length) return null;
  return (
    <p class="use-idle">
      <b>Idle while held:</b>{" "}
      {some.map((one, n) => (
        <span key={one.job}>{n > 0 && " · "}{one.idle_gpu_s > 0 ? `${hours(one.idle_gpu_s)} of ${hours(one.gpu_s)} GPU-hours` : `${hours(one.idle_slot_s)} of ${hours(one.slot_s)} slot-hours`} of {one.person && `${one.person}'s `}<a href={hrefOf(one.job)}>{one.job}</a></span>
      ))}
    </p>
  );
}
