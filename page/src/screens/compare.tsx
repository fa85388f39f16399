/** Jobs beside each other: what differs, the curves over each other, what came of them. */

import { useCallback, useMemo, useRef, useState } from "preact/hooks";
import { segment } from "../api";
import { drawable, whole } from "../format";
import { useAnswer, useEvents, useInterval, useThrottled } from "../hooks";
import { Chart } from "../parts/chart";
import { centralRange, marksOf, outliersText } from "../parts/honest-curves";
import { late } from "../parts/late";
import { linePointer } from "../parts/line-pointer";
import { Outliers } from "../parts/outliers";
import { differenceOf } from "../parts/line-diff";
import { Answered, Nothing, Refused } from "../parts/placeholders";
import { ENDED, StateWord } from "../parts/job-state";
import { href, jobHref, setQuery, usePlace } from "../router";
import { colourable, colourOf, COLOURS, huesOf, type Hue } from "./compare-colours";
import { curvesOf, MAX_COMPARED } from "./compare-requests";
import { labelOf, textOf } from "./compared-row";
import type { ComparedRow, Comparison, Definition, JobCurve, JobPage } from "../types";

const MAX_CHIPS = 20;
const MAX_COLUMNS = 5;
/** Jobs that are columns of a table; more of them are its rows. */
const MAX_CHARTS = 12;
const MAX_NOTED = 3;
/** Inputs and parameters that differ, of which the pointer tells beside a job's name. */
const PAUSE_MS = 2500;
const INTERVAL_MS = 5000;
const STATES = new Set(["completed", "failed", "canceled", "running", "queued", "staging", "provisioning", "stopping", "finalizing"]);

export function CompareScreen() {
  const { query } = usePlace();
  const jobs = [...new Set(query.getAll("job"))];
  if (jobs.length > MAX_COMPARED) {
    return (
      <div class="screen">
        <h1>Compare</h1>
        <Nothing>Compare takes at most {MAX_COMPARED} jobs, and these are {whole(jobs.length)}. <a href={href("/runs")}>Filter and group runs</a> to choose fewer.</Nothing>
      </div>
    );
  }
  return (
    <div class="screen">
      <h1>Compare</h1>
      <Picked jobs={jobs} />
      {jobs.length < 2 ? <Nothing>Choose two jobs or more: here by name, or with the boxes in the <a href={href("/")}>list of jobs</a>.</Nothing>
        : <Compared jobs={jobs} />}
    </div>
  );
}

function Picked({ jobs }: { jobs: string[] }) {
  const [name, setName] = useState("");
  const hasOwn = !usePlace().query.has("colour");
  const [isOpen, setOpen] = useState(false);
  const shown = isOpen ? jobs : jobs.slice(0, MAX_CHIPS);
  const known = useAnswer<JobPage>(name ? "/jobs" : undefined, { limit: 50, text: name });
  const add = (job: string) => {
    if (!job || jobs.includes(job) || !known.value?.jobs.some((one) => one.name === job)) return;
    setQuery({ job: [...jobs, job] }, false);
    setName("");
  };
  return (
    <div class="filters picked">
      {shown.map((job, n) => (
        <span key={job} class={`chip chosen${hasOwn ? ` job-${n % COLOURS}` : ""}`}>
          {hasOwn && <span class="swatch" aria-hidden="true" />}<a href={jobHref(job)}>{job}</a>
          <button type="button" class="quiet" aria-label={`Leave out ${job}`} onClick={() => setQuery({ job: jobs.filter((one) => one !== job) })}>×</button>
        </span>
      ))}
      {jobs.length > MAX_CHIPS && (
        <button type="button" class="chip" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>{isOpen ? "fewer" : `and ${whole(jobs.length - MAX_CHIPS)} more`}</button>
      )}
      {jobs.length < MAX_COMPARED && (
        <form onSubmit={(event) => {
          event.preventDefault();
          add(name);
        }}>
          <input type="search" list="known-jobs" aria-label="Add a job" placeholder="Add a job" value={name}
            onInput={(event) => {
              setName(event.currentTarget.value);
              // A name that was taken from the list; a typed one may go on, and is added by Enter.
              if (!(event instanceof InputEvent) || event.inputType === "insertReplacementText") add(event.currentTarget.value);
            }} />
          <datalist id="known-jobs">{known.value?.jobs.map((job) => <option key={job.name} value={job.name} />)}</datalist>
        </form>
      )}
    </div>
  );
}

function Compared({ jobs }: { jobs: string[] }) {
  const answer = useAnswer<Comparison>("/compare", { job: jobs });
  // Those of the primary metric come beside the comparison, which says what other metrics there are.
  const [path, query] = curvesOf(jobs);
  const first = useAnswer<JobCurve[]>(path, query);
  const metrics = new Set(first.value?.map((one) => one.name));
  const known = metrics.size === 1 ? first.value : undefined;
  const primary = known?.[0]?.name;
  const isLive = hasUnfinished(answer.value);
  const { query: words } = usePlace();
  const [colourBy, pinned] = [words.get("colour") ?? "", words.get("pin") ?? ""];
  useFollowed(jobs, isLive, () => {
    answer.reload();
    first.reload();
  });
  return (
    <Answered answer={answer}>
      {(comparison) => {
        const others = comparison.outcomes.filter((row) => row.section === "metrics").map((row) => row.key).filter((key) => key !== primary);
        const byRow = colourable(comparison.differences);
        const hues = huesOf(byRow.find((row) => row.key === colourBy), jobs.length);
        const notes = jobs.map((_, n) => byRow.slice(0, MAX_NOTED).map((row) => `${row.key} ${textOf(row, row.values[n])}`).join(", "));
        const drawn = [...(primary === undefined ? [] : [primary]), ...others];
        return (
          <>
            <section>
              <h2>What differs</h2>
              {comparison.differences.length ? <RowTable label="What differs" jobs={jobs} rows={comparison.differences} />
                : <Nothing>Job file, code, environment and inputs are the same in all of them.</Nothing>}
            </section>
            {drawn.length > 0 && (first.value || first.error) && (
              <section>
                <div class="section-head">
                  <h2>Curves</h2>
                  {byRow.length > 0 && (
                    <label class="select">
                      <span>Colour by</span>
                      <select value={colourBy} onChange={(event) => setQuery({ colour: event.currentTarget.value })}>
                        <option value="">job</option>
                        {byRow.map((row) => <option key={`${row.section} ${row.key}`} value={row.key}>{row.key}</option>)}
                      </select>
                    </label>
                  )}
                  {pinned && <span class="chip chosen">{pinned} <button type="button" class="quiet" aria-label={`Let go of ${pinned}`} onClick={() => setQuery({ pin: "" })}>×</button></span>}
                </div>
                <div class="charts">{drawn.slice(0, MAX_CHARTS).map((metric) => <Overlay key={metric} jobs={jobs} isLive={isLive} metric={metric} known={metric === primary ? known : undefined} hues={hues} notes={notes} pinned={pinned} />)}</div>
              </section>
            )}
            <section>
              <h2>What came of them</h2>
              <RowTable label="What came of them" jobs={jobs} rows={comparison.outcomes} />
            </section>
            <LoggedSteps jobs={jobs} />
            {jobs.length === 2 && <FileDifference one={jobs[0]!} other={jobs[1]!} />}
          </>
        );
      }}
    </Answered>
  );
}

/** Galleries and what else the jobs have logged by step, where one asks for it: lists of files may be long. */
function LoggedSteps({ jobs }: { jobs: string[] }) {
  const isOpen = usePlace().query.has("logged");
  if (!isOpen) return <p><button type="button" onClick={() => setQuery({ logged: "yes" })}>Compare images and what else was logged by step</button></p>;
  return <ComparedSteps jobs={jobs} />;
}

const ComparedSteps = late(() => import("./artifacts/compared-steps").then((one) => one.ComparedSteps));

const hasUnfinished = (comparison: Comparison | undefined): boolean =>
  comparison?.outcomes.some((row) => row.section === "outcome" && row.key === "state" && row.values.some((state) => !ENDED.has(String(state)))) ?? false;

/** Calls `reload` when one of the jobs changes, after a break, and again and again while one of them has not ended. */
function useFollowed(jobs: string[], isLive: boolean, reload: () => void): void {
  const soon = useThrottled(reload, PAUSE_MS);
  useEvents("jobs", (changes) => changes.jobs.some((one) => jobs.includes(one.name)) && soon());
  useEvents("again", soon);
  useInterval(() => isLive && soon(), INTERVAL_MS);
}

/** known: the curves, where they were asked for before. */
function Overlay({ jobs, isLive, metric, known, hues, notes, pinned }: {
  jobs: string[]; isLive: boolean; metric: string; known: JobCurve[] | undefined; hues: Hue[]; notes: string[]; pinned: string;
}) {
  const [path, query] = curvesOf(jobs, metric);
  const own = useAnswer<JobCurve[]>(known ? undefined : path, query);
  const curves = known ?? own.value;
  useFollowed(jobs, isLive && !known, own.reload);
  const points = useMemo(() => jobs.map((job) => {
    const curve = curves?.find((one) => one.job === job);
    return { label: job, x: curve?.steps ?? [], values: curve?.values ?? [] };
  }), [curves]);
  const [lines, range, marks] = useMemo(() =>
    [
      points.map(({ label, x, values }, n) => ({ label, x, y: values.map(drawable), colour: { key: JSON.stringify(hues[n]), of: (style: CSSStyleDeclaration) => colourOf(hues[n]!, style) } })),
      centralRange(points), marksOf(points),
    ] as const, [points, JSON.stringify(hues)]);
  const held = useRef(-1);
  held.current = jobs.indexOf(pinned);
  const told = useRef(notes);
  told.current = notes;
  const pointer = useCallback((colours: string[]) => linePointer(jobs.length, {
    labelOf: (line) => ({ name: jobs[line]!, note: told.current[line] ?? "" }),
    colourOf: (line) => colours[line]!,
    pinned: held,
    pin: (line) => setQuery({ pin: held.current === line ? "" : jobs[line]! }),
  }), [jobs.join("\n")]);
  const [showsAll, setShowsAll] = useState(false);
  return (
    <figure class="chart-card">
      <figcaption><span class="chart-name">{metric}</span></figcaption>
      {own.error && <Refused error={own.error} />}
      {curves && <Chart lines={lines} label={`${metric} of ${jobs.join(", ")} by step`} syncKey="compare" height={200} range={showsAll ? undefined : range} marks={marks} pointer={pointer} />}
      {curves && range && <Outliers text={outliersText(points, range, (x) => `at step ${whole(x)}`)} isShown={showsAll} toggle={() => setShowsAll(!showsAll)} />}
    </figure>
  );
}

function RowTable({ label, jobs, rows }: { label: string; jobs: string[]; rows: ComparedRow[] }) {
  const hasOwn = !usePlace().query.has("colour");
  if (jobs.length > MAX_COLUMNS) return <JobTable label={label} jobs={jobs} rows={rows} />;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table class="plain compared">
        <thead>
          <tr><th scope="col">What</th>{jobs.map((job, n) => <th scope="col" key={job} class={hasOwn ? `job-${n % COLOURS}` : ""}>{hasOwn && <span class="swatch" aria-hidden="true" />}{job}</th>)}</tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={`${row.section} ${row.key}`}>
              <th scope="row"><span class="muted">{row.section === "outcome" ? "" : row.section}</span> {labelOf(row)}</th>
              {row.values.map((value, n) => <td key={n} class={`number${isBest(row, n) ? " best" : ""}`}><Value row={row} value={value} /></td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The same with a job in each row, which many jobs need. */
function JobTable({ label, jobs, rows }: { label: string; jobs: string[]; rows: ComparedRow[] }) {
  return (
    <div class="scroll compared-jobs" tabIndex={0} role="region" aria-label={label}>
      <table class="plain compared">
        <thead>
          <tr>
            <th scope="col">Job</th>
            {rows.map((row) => <th scope="col" key={`${row.section} ${row.key}`}><span class="muted">{row.section === "outcome" ? "" : row.section}</span> {labelOf(row)}</th>)}
          </tr>
        </thead>
        <tbody>
          {jobs.map((job, n) => (
            <tr key={job}>
              <th scope="row"><a href={jobHref(job)}>{job}</a></th>
              {rows.map((row) => <td key={`${row.section} ${row.key}`} class={`number${isBest(row, n) ? " best" : ""}`}><Value row={row} value={row.values[n] ?? null} /></td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Value({ row, value }: { row: ComparedRow; value: unknown }) {
  if (value === null) return <span class="muted">–</span>;
  if (row.section === "outcome" && row.key === "state" && STATES.has(String(value))) return <StateWord state={String(value)} />;
  return <span class={row.section === "outcome" || row.section === "metrics" ? "" : "machine"}>{textOf(row, value)}</span>;
}

/** The shortest time is set off, and the best value of the metric that counts; NaN and infinity never are. */
export function isBest(row: ComparedRow, n: number): boolean {
  const isTime = row.section === "outcome" && row.key === "duration_s";
  if (!isTime && !row.goal) return false;
  const numbers = row.values.filter((value): value is number => typeof value === "number");
  return numbers.length > 1 && row.values[n] === (row.goal === "maximize" ? Math.max(...numbers) : Math.min(...numbers));
}

function FileDifference({ one, other }: { one: string; other: string }) {
  const [first, second] = [useAnswer<Definition>(`/jobs/${segment(one)}/definition`), useAnswer<Definition>(`/jobs/${segment(other)}/definition`)];
  const error = first.error ?? second.error;
  if (error) return <Refused error={error} />;
  if (!first.value || !second.value) return null;
  const lines = differenceOf(first.value.text.split("\n"), second.value.text.split("\n"));
  return (
    <section>
      <h2>Job files</h2>
      <pre class="machine block difference" tabIndex={0}>
        {lines.map((line, n) => (
          <span key={n} class={line.side === "-" ? "removed" : line.side === "+" ? "added" : ""}>{`${line.side} ${line.text}\n`}</span>
        ))}
      </pre>
    </section>
  );
}
