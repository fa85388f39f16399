/** The ledger: what was held and where the wall time of jobs went, by job, experiment, person, compute, week or day. */

import { useState } from "preact/hooks";
import { get } from "../api";
import { counted, duration, hours } from "../format";
import { useAnswer } from "../hooks";
import { Answered, Nothing } from "../parts/placeholders";
import { IdleJobs, UseChart } from "../parts/use-chart";
import { href, jobHref, setQuery, usePlace } from "../router";
import type { Ledger, LedgerRow, UseHistory } from "../types";
import { saveCsv } from "./job/chart-files";
import { csvOf } from "./ledger-csv";

export const CLASSES = ["queue", "provision", "stage", "environment", "start", "train", "checkpoint", "lost", "stall"] as const;
const GROUPS = ["person", "experiment", "job", "compute", "week", "day"] as const;
const AGES: Record<string, string> = { "1": "today", "7": "the last 7 days", "30": "the last 30 days", "365": "the last 365 days" };
const UNITS = { gpu: "GPU-hours", slot: "slot-hours", wall: "wall time" } as const;
const MAX_ROWS = 200;
const WIDTH = 1000;

export type Measure = keyof typeof UNITS;

export function LedgerScreen() {
  const { query } = usePlace();
  const by = GROUPS.find((one) => one === query.get("by")) ?? "person";
  const days = query.get("days") ?? "7";
  const since = new Date(new Date().setUTCHours(0, 0, 0, 0) - (Number(days in AGES ? days : 7) - 1) * 86_400_000).toISOString();
  const jobs = query.getAll("job");
  const answer = useAnswer<Ledger>("/ledger", { by, since, job: jobs, limit: MAX_ROWS });
  const total = answer.value?.total;
  const fitting: Measure = total?.gpu_s ? "gpu" : total?.slot_s ? "slot" : "wall";
  const measure = (Object.keys(UNITS) as Measure[]).find((one) => one === query.get("unit")) ?? fitting;
  return (
    <div class="screen">
      <h1>Where the time went</h1>
      <div class="filters">
        <label>by <select value={by} onChange={(event) => setQuery({ by: event.currentTarget.value })}>
          {GROUPS.map((one) => <option key={one} value={one}>{one}</option>)}
        </select></label>
        {jobs.length ? (
          <button type="button" class="quiet" onClick={() => setQuery({ job: [] })}>{counted(jobs.length, "job")} chosen: show all</button>
        ) : (
          <label>of <select value={days} onChange={(event) => setQuery({ days: event.currentTarget.value })}>
            {Object.entries(AGES).map(([value, words]) => <option key={value} value={value}>{words}</option>)}
          </select></label>
        )}
        <label>in <select value={measure} aria-label="Unit" onChange={(event) => setQuery({ unit: event.currentTarget.value })}>
          {(Object.keys(UNITS) as Measure[]).map((one) => <option key={one} value={one}>{UNITS[one]}</option>)}
        </select></label>
        <Csv query={{ by, since, job: jobs }} />
      </div>
      <Answered answer={answer}>
        {(ledger) => ledger.rows.length ? (
          <>
            <p class="ledger-summary">{summary(ledger, measure)}</p>
            {!jobs.length && measure !== "wall" && <Curve by={by} since={since} days={Number(days)} unit={measure} />}
            <Rows ledger={ledger} measure={measure} />
          </>
        ) : <Nothing>No job has time in this ledger.</Nothing>}
      </Answered>
    </div>
  );
}

function Csv({ query }: { query: { by: string; since: string; job: string[] } }) {
  const [problem, setProblem] = useState("");
  const save = () => get<Ledger>("/ledger", query).then((all) => saveCsv(`ledger by ${query.by}`, csvOf(all)), (error: Error) => setProblem(error.message));
  return <><button type="button" class="quiet" title="All rows, as a table for a spreadsheet" onClick={() => void save()}>csv</button><span role="status" class="tone-bad">{problem}</span></>;
}

/** The amounts by day, of whom the rows are. */
function Curve({ by, since, days, unit }: { by: Ledger["by"]; since: string; days: number; unit: "gpu" | "slot" }) {
  const group = by === "experiment" || by === "compute" ? by : "person";
  const step = days > 31 ? "week" : days > 1 ? "day" : "hour";
  const answer = useAnswer<UseHistory>("/use", { by: group, since, step });
  return (
    <Answered answer={answer}>
      {(history) => (
        <>
          <p class="muted">{unit === "gpu" ? "GPUs" : "Slots"} held, on average in each {step}, by {group}</p>
          <UseChart history={history} unit={unit} label={`${UNITS[unit]} by ${step} and ${group}`} />
          <IdleJobs history={history} hrefOf={jobHref} />
        </>
      )}
    </Answered>
  );
}

/** What is measured of a row, by class: seconds. */
export const secondsOf = (row: LedgerRow, measure: Measure): Record<string, number> => (measure === "gpu" ? row.gpu_seconds : measure === "slot" ? row.slot_seconds : row.seconds);
export const amountOf = (row: LedgerRow, measure: Measure): number => (measure === "gpu" ? row.gpu_s : measure === "slot" ? row.slot_s : row.wall_s);

/** What was held and not used, from 0 to 1; of wall time, what ranks didn't work in. */
export function idleShare(row: LedgerRow, measure: Measure): number {
  const all = amountOf(row, measure);
  const by = secondsOf(row, measure);
  const used = measure === "gpu" ? row.busy_gpu_s : (by["train"] ?? 0) + (by["checkpoint"] ?? 0);
  return all ? Math.min(Math.max(1 - used / all, 0), 1) : 0;
}

const said = (seconds: number, measure: Measure): string => (measure === "wall" ? duration(seconds) : hours(seconds));

/** Who has the most, and how much of all is idle, in a sentence. */
export function summary(ledger: Ledger, measure: Measure): string {
  const { total } = ledger;
  const all = amountOf(total, measure);
  const first = [...ledger.rows].sort((a, b) => amountOf(b, measure) - amountOf(a, measure))[0]!;
  const idle = measure === "wall" ? `${percent(idleShare(total, measure))} without ranks at work` : `${percent(idleShare(total, measure))} of all idle while held`;
  const unit = measure === "wall" ? "" : ` ${UNITS[measure]}`;
  const cost = total.cost === null || total.cost === undefined ? "" : `; ${money(total.cost, ledger.currency)}`;
  const most = ledger.rows.length > 1 && all ? `${first.name} has the most: ${said(amountOf(first, measure), measure)} of ${said(all, measure)}${unit} (${percent(amountOf(first, measure) / all)}), of which ${percent(idleShare(first, measure))} idle` : `${said(all, measure)}${unit}`;
  return `${most}; ${idle}${cost}.`;
}

const percent = (value: number): string => (value > 0 && value < 0.01 ? "< 1 %" : `${Math.round(100 * value)} %`);
const money = (cost: number, currency: string | undefined): string => `${cost.toFixed(2)}${currency ? ` ${currency}` : ""}`;

function Rows({ ledger, measure }: { ledger: Ledger; measure: Measure }) {
  const all = secondsOf(ledger.total, measure);
  const shown = CLASSES.filter((one) => (all[one] ?? 0) > 0);
  const top = Math.max(...ledger.rows.map((row) => amountOf(row, measure)));
  const hasCost = ledger.total.cost !== null && ledger.total.cost !== undefined;
  return (
    <>
      <ul class="ledger-key" aria-label="Classes of time">
        {shown.map((one) => (
          <li key={one}><Swatch of={one} /> {one} <span class="number muted">{share(ledger.total, one, measure)}</span></li>
        ))}
      </ul>
      <div class="scroll" tabIndex={0} role="region" aria-label="Ledger">
        <table class="plain">
          <thead>
            <tr>
              <th scope="col">{ledger.by}</th>
              {ledger.by !== "job" && <th scope="col" class="right wide-only">Jobs</th>}
              <th scope="col" class="right">{measure === "wall" ? "Wall time" : UNITS[measure]}</th>
              <th scope="col" class="right">Idle</th>
              {hasCost && <th scope="col" class="right wide-only">{ledger.currency || "Cost"}</th>}
              <th scope="col" class="ledger-wide">Classes</th>
            </tr>
          </thead>
          <tbody>
            {ledger.rows.slice(0, MAX_ROWS).map((row) => <Row key={row.name} row={row} by={ledger.by} measure={measure} top={top} hasCost={hasCost} />)}
            {ledger.rows.length > 1 && <Row row={{ ...ledger.total, name: "all" }} by={ledger.by} measure={measure} top={amountOf(ledger.total, measure)} hasCost={hasCost} isTotal />}
          </tbody>
        </table>
      </div>
      {ledger.rows.length >= MAX_ROWS && <p class="muted">The {MAX_ROWS} largest; the total is that of all.</p>}
    </>
  );
}

function Row({ row, by, measure, top, hasCost, isTotal = false }: { row: LedgerRow; by: Ledger["by"]; measure: Measure; top: number; hasCost: boolean; isTotal?: boolean }) {
  const seconds = secondsOf(row, measure);
  const classes = [...CLASSES].filter((one) => seconds[one]).sort((a, b) => (seconds[b] ?? 0) - (seconds[a] ?? 0));
  const words = classes.map((one) => `${one} ${said(seconds[one] ?? 0, measure)}`).join(", ");
  return (
    <tr>
      <th scope="row" class="ledger-name">{isTotal ? row.name : <Name row={row} by={by} />}</th>
      {by !== "job" && <td class="right number wide-only">{row.jobs}</td>}
      <td class="right number ledger-time">{said(amountOf(row, measure), measure)}</td>
      <td class="right number ledger-time">{percent(idleShare(row, measure))}</td>
      {hasCost && <td class="right number wide-only">{(row.cost ?? 0).toFixed(2)}</td>}
      <td>
        <Bar row={row} label={words} measure={measure} top={top} />
        <span class="under" title={words}>{classes.slice(0, 3).map((one) => `${one} ${share(row, one, measure)}`).join(" · ")}</span>
      </td>
    </tr>
  );
}

function Name({ row, by }: { row: LedgerRow; by: Ledger["by"] }) {
  if (by === "job") return <a class="row-link" href={jobHref(row.name)}>{row.name}</a>;
  if (by === "experiment") return <a class="row-link" href={href("/", { experiment: row.name })}>{row.name}</a>;
  if (by === "person") return <a class="row-link" href={href("/", { person: row.name })}>{row.name}</a>;
  if (by === "compute") return <a class="row-link" href={href("/computes", { name: row.name })}>{row.name}</a>;
  return <>{by === "week" ? `from ${row.name}` : row.name}</>;
}

/** A bar whose length is that of the amount, beside the longest. */
function Bar({ row, label, measure, top }: { row: LedgerRow; label: string; measure: Measure; top: number }) {
  let left = 0;
  const seconds = secondsOf(row, measure);
  return (
    <svg class="ledger-bar" viewBox={`0 0 ${WIDTH} 10`} preserveAspectRatio="none" role="img" aria-label={label || "nothing"}>
      {CLASSES.map((one) => {
        const width = top ? (WIDTH * (seconds[one] ?? 0)) / top : 0;
        left += width;
        return width > 0 && <rect key={one} class={`class-${one}`} x={left - width} y="0" width={width} height="10" />;
      })}
    </svg>
  );
}

function Swatch({ of }: { of: string }) {
  return <svg class="swatch" viewBox="0 0 10 10" width="10" height="10" aria-hidden="true"><rect class={`class-${of}`} width="10" height="10" rx="2" /></svg>;
}

export function share(row: LedgerRow, name: string, measure: Measure = "wall"): string {
  const all = amountOf(row, measure);
  const part = all ? (100 * (secondsOf(row, measure)[name] ?? 0)) / all : 0;
  return part > 0 && part < 1 ? "< 1 %" : `${Math.round(part)} %`;
}
