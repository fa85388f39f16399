/** The ledger: where the wall time of jobs went, by job, experiment, person or week. */

import { counted, duration } from "../format";
import { useAnswer } from "../hooks";
import { Answered, Nothing } from "../parts/placeholders";
import { href, jobHref, setQuery, usePlace } from "../router";
import type { Ledger, LedgerRow } from "../types";

export const CLASSES = ["queue", "provision", "stage", "environment", "start", "train", "checkpoint", "lost", "stall"] as const;
const GROUPS = ["job", "experiment", "person", "week"] as const;
const AGES: Record<string, string> = { "1": "a day", "7": "7 days", "30": "30 days", "365": "a year" };
const MAX_ROWS = 200;
const WIDTH = 1000;

export function LedgerScreen() {
  const { query } = usePlace();
  const by = GROUPS.find((one) => one === query.get("by")) ?? "job";
  const days = query.get("days") ?? "30";
  const since = new Date(new Date().setUTCHours(0, 0, 0, 0) - Number(days in AGES ? days : 30) * 86_400_000).toISOString();
  const jobs = query.getAll("job");
  const answer = useAnswer<Ledger>("/ledger", { by, since, job: jobs });
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
          <label>jobs of <select value={days} onChange={(event) => setQuery({ days: event.currentTarget.value })}>
            {Object.entries(AGES).map(([value, words]) => <option key={value} value={value}>the last {words}</option>)}
          </select></label>
        )}
      </div>
      <Answered answer={answer}>
        {(ledger) => ledger.rows.length ? <Rows ledger={ledger} /> : <Nothing>No job has time in this ledger.</Nothing>}
      </Answered>
    </div>
  );
}

function Rows({ ledger }: { ledger: Ledger }) {
  const shown = CLASSES.filter((one) => (ledger.total.seconds[one] ?? 0) > 0);
  return (
    <>
      <ul class="ledger-key" aria-label="Classes of time">
        {shown.map((one) => (
          <li key={one}><Swatch of={one} /> {one} <span class="number muted">{share(ledger.total, one)}</span></li>
        ))}
      </ul>
      <div class="scroll" tabIndex={0} role="region" aria-label="Ledger">
        <table class="plain">
          <thead>
            <tr>
              <th scope="col">{ledger.by}</th>
              {ledger.by !== "job" && <th scope="col" class="right wide-only">Jobs</th>}
              <th scope="col" class="right">Wall time</th><th scope="col" class="ledger-wide">Classes</th>
            </tr>
          </thead>
          <tbody>
            {ledger.rows.length > 1 && <Row row={{ ...ledger.total, name: "all" }} by={ledger.by} isTotal />}
            {ledger.rows.slice(0, MAX_ROWS).map((row) => <Row key={row.name} row={row} by={ledger.by} />)}
          </tbody>
        </table>
      </div>
      {ledger.rows.length > MAX_ROWS && <p class="muted">The {MAX_ROWS} longest of {counted(ledger.rows.length, "row")}.</p>}
    </>
  );
}

function Row({ row, by, isTotal = false }: { row: LedgerRow; by: Ledger["by"]; isTotal?: boolean }) {
  const classes = [...CLASSES].filter((one) => row.seconds[one]).sort((a, b) => (row.seconds[b] ?? 0) - (row.seconds[a] ?? 0));
  const words = classes.map((one) => `${one} ${duration(row.seconds[one] ?? 0)}`).join(", ");
  return (
    <tr>
      <th scope="row" class="ledger-name">{isTotal ? row.name : <Name row={row} by={by} />}</th>
      {by !== "job" && <td class="right number wide-only">{row.jobs}</td>}
      <td class="right number ledger-time">{duration(row.wall_s)}</td>
      <td>
        <Bar row={row} label={words} />
        <span class="under" title={words}>{classes.slice(0, 3).map((one) => `${one} ${share(row, one)}`).join(" · ")}</span>
      </td>
    </tr>
  );
}

function Name({ row, by }: { row: LedgerRow; by: Ledger["by"] }) {
  if (by === "job") return <a class="row-link" href={jobHref(row.name)}>{row.name}</a>;
  if (by === "experiment") return <a class="row-link" href={href("/", { experiment: row.name })}>{row.name}</a>;
  if (by === "person") return <a class="row-link" href={href("/", { person: row.name })}>{row.name}</a>;
  return <>{by === "week" ? `from ${row.name}` : row.name}</>;
}

function Bar({ row, label }: { row: LedgerRow; label: string }) {
  let left = 0;
  return (
    <svg class="ledger-bar" viewBox={`0 0 ${WIDTH} 10`} preserveAspectRatio="none" role="img" aria-label={label}>
      {CLASSES.map((one) => {
        const width = row.wall_s ? (WIDTH * (row.seconds[one] ?? 0)) / row.wall_s : 0;
        left += width;
        return width > 0 && <rect key={one} class={`class-${one}`} x={left - width} y="0" width={width} height="10" />;
      })}
    </svg>
  );
}

function Swatch({ of }: { of: string }) {
  return <svg class="swatch" viewBox="0 0 10 10" width="10" height="10" aria-hidden="true"><rect class={`class-${of}`} width="10" height="10" rx="2" /></svg>;
}

export function share(row: LedgerRow, name: string): string {
  const part = row.wall_s ? (100 * (row.seconds[name] ?? 0)) / row.wall_s : 0;
  return part > 0 && part < 1 ? "< 1 %" : `${Math.round(part)} %`;
}
