/** The history of a compute, or of all: who held it, what was used, free and waited for. */

import { duration, hours } from "../format";
import { useAnswer, useInterval } from "../hooks";
import { Answered } from "../parts/placeholders";
import { IdleJobs, nameOfUnit, UseChart } from "../parts/use-chart";
import type { Unit } from "../parts/use-chart";
import { href, jobHref, setQuery, usePlace } from "../router";
import type { UseHistory } from "../types";

const SPANS = { "24h": "24 hours", "7d": "7 days", "30d": "30 days" } as const;
const GROUPS = ["person", "experiment", "compute"] as const;
const DAY_MS = 86_400_000;
const INTERVAL_MS = 60_000;

type Span = keyof typeof SPANS;

/** From when on: whole hours of a day, and whole days (UTC) of more. */
export function sinceOf(span: Span, now: number): string {
  const start = span === "24h" ? Math.floor(now / 3_600_000) * 3_600_000 - 23 * 3_600_000 : Math.floor(now / DAY_MS) * DAY_MS - (span === "7d" ? 6 : 29) * DAY_MS;
  return new Date(start).toISOString();
}

export function ComputeUse({ names }: { names: string[] }) {
  const { query } = usePlace();
  const span = (Object.keys(SPANS) as Span[]).find((one) => one === query.get("span")) ?? "7d";
  const by = GROUPS.find((one) => one === query.get("by")) ?? "person";
  const compute = names.find((one) => one === query.get("name")) ?? "";
  const answer = useAnswer<UseHistory>("/use", { by, compute, since: sinceOf(span, Date.now()) });
  useInterval(answer.reload, INTERVAL_MS);
  return (
    <section class="gap" aria-label="Use over time">
      <div class="section-head">
        <h2>Use over time</h2>
        <div class="chips" role="group" aria-label="Time">
          {(Object.keys(SPANS) as Span[]).map((one) => <button key={one} type="button" class={`chip${one === span ? " chosen" : ""}`} aria-pressed={one === span} onClick={() => setQuery({ span: one })}>{SPANS[one]}</button>)}
        </div>
        <label>by <select value={by} onChange={(event) => setQuery({ by: event.currentTarget.value })}>{GROUPS.map((one) => <option key={one} value={one}>{one}</option>)}</select></label>
        {names.length > 1 && (
          <label>of <select value={compute} onChange={(event) => setQuery({ name: event.currentTarget.value })}>
            <option value="">all computes</option>
            {names.map((one) => <option key={one} value={one}>{one}</option>)}
          </select></label>
        )}
      </div>
      <Answered answer={answer}>{(history) => <History history={history} by={by} />}</Answered>
    </section>
  );
}

function History({ history, by }: { history: UseHistory; by: (typeof GROUPS)[number] }) {
  const units: Unit[] = history.gpu_s > 0 || history.gpus.some(Boolean) ? ["gpu", "slot"] : ["slot"];
  const where = history.compute || "all computes";
  const hrefOf = by === "compute" ? (name: string) => href("/computes", { name }) : (name: string) => href("/", { [by]: name });
  return (
    <>
      {units.map((unit) => (
        <div key={unit}>
          <h3>{unit === "gpu" ? "GPUs" : "Slots"} held</h3>
          <p class="muted">{sentence(history, unit)}</p>
          <UseChart history={history} unit={unit} label={`${nameOfUnit(unit)}s held of ${where}, ${sentence(history, unit)}`} hrefOf={hrefOf} />
        </div>
      ))}
      <p class="muted">{waits(history)}</p>
      <IdleJobs history={history} hrefOf={jobHref} />
    </>
  );
}

/** How much was held, really used, and free. */
export function sentence(history: UseHistory, unit: Unit): string {
  const word = nameOfUnit(unit);
  const held = unit === "gpu" ? history.gpu_s : history.slot_s;
  if (!held) return `no ${word} was held`;
  const used = (unit === "gpu" ? history.busy_gpu_s : history.work_slot_s).reduce((total, one) => total + one, 0);
  const capacity = unit === "gpu" ? history.gpus : history.slots;
  const whole = capacity.reduce<number>((total, one, n) => total + (one ?? 0) * history.lengths_s[n]!, 0);
  const isKnown = whole > 0 && capacity.every((one) => one !== null);
  const free = isKnown ? `; ${hours(Math.max(whole - held, 0))} of ${hours(whole)} were free` : "";
  return `${hours(held)} ${word}-hours held, ${Math.round((100 * used) / held)} % of them really used${free}`;
}

export function waits({ waits: one, waiting }: UseHistory): string {
  if (one.p50_s === null || one.p95_s === null) return "No job waited.";
  const most = Math.max(0, ...waiting);
  return `${one.jobs === 1 ? "1 job" : `${one.jobs} jobs`} waited: half of them at most ${duration(one.p50_s)}, 19 of 20 at most ${duration(one.p95_s)}; at the busiest time ${most >= 10 ? Math.round(most) : most.toFixed(1)} waited at once, on average.`;
}
