/** Curves of a job's metrics with one line under the pointer for all, and what its nodes and ranks use. */

import { useMemo, useState } from "preact/hooks";
import { segment } from "../../api";
import { counted, distinct, drawable, exact, whole } from "../../format";
import { useAnswer, useEvents, useInterval, useJobEvents, useThrottled } from "../../hooks";
import { Chart, type ChartLine } from "../../parts/chart";
import { belowLogText, centralRange, type CurvePoints, groupOf, type Mark, marksOf, marksText, outliersText } from "../../parts/honest-curves";
import { Outliers } from "../../parts/outliers";
import { Answered, Nothing, Refused } from "../../parts/placeholders";
import { ENDED } from "../../parts/job-state";
import { setQuery, usePlace } from "../../router";
import type { Curve, Job, Metrics, Series, StoryLine } from "../../types";

const SYSTEM = "system/";
const MAX_CHARTS = 24;
const MAX_RANKS = 8;
/** Curves in one chart; more ranks are chosen one by one. */
const EACH = "each";
/** In the address, instead of a rank: a line for each. */
const INTERVAL_MS = 5000;
/** As often as the nodes measure: events come of the job's first metric alone. */

interface TabProps { job: Job; story: StoryLine[] }

export const MetricsTab = ({ job }: TabProps) => <CurveGrid job={job} isSystem={false} />;
export const ResourcesTab = ({ job }: TabProps) => <CurveGrid job={job} isSystem />;

function CurveGrid({ job, isSystem }: { job: Job; isSystem: boolean }) {
  const answer = useAnswer<Metrics>(`/jobs/${segment(job.name)}/metrics`);
  const reload = useThrottled(answer.reload, 2500);
  useEvents("jobs", (changes) => changes.jobs.some((one) => one.name === job.name) && reload());
  useJobEvents(job.name, "state", reload);
  useInterval(() => ENDED.has(job.state) || answer.reload(), INTERVAL_MS);
  return (
    <Answered answer={answer}>
      {(metrics) => {
        const own = metrics.series.filter((one) => one.name.startsWith(SYSTEM) === isSystem);
        return own.length ? <Grid job={job} series={own} params={metrics.params} isSystem={isSystem} /> : <NoMetrics isSystem={isSystem} job={job} />;
      }}
    </Answered>
  );
}

function NoMetrics({ isSystem, job }: { isSystem: boolean; job: Job }) {
  if (isSystem) return <Nothing>What nodes and ranks use is measured every 5 s, and not at all where the job says <code>system_metrics: false</code>.</Nothing>;
  return (
    <Nothing>
      {ENDED.has(job.state) ? "It has logged no metrics." : "No metric is logged yet."} <code>drumbeat.log(loss=…, step=…)</code> or
      MLflow in its script does it.
    </Nothing>
  );
}

function Grid({ job, series, params, isSystem }: {
  job: Job; series: Series[]; params: Record<string, string>; isSystem: boolean;
}) {
  const { query } = usePlace();
  const ranks = [...new Set(series.map((one) => one.rank))].sort((a, b) => a - b);
  const rank = query.get("of") ?? "";
  const axis = query.get("axis") ?? (isSystem ? "time" : "step");
  const isLog = query.has("log");
  const smooth = Number(query.get("smooth") ?? 0);
  const names = [...new Set(series.map((one) => one.name))];
  const [limit, setLimit] = useState(MAX_CHARTS);
  return (
    <div class="curves">
      <div class="filters">
        <label class="select">
          <span class="hidden">Of which rank</span>
          <select value={rank} onChange={(event) => setQuery({ of: event.currentTarget.value })}>
            <option value="">all ranks</option>
            <option value={EACH}>{ranks.length > MAX_RANKS ? `each of the first ${MAX_RANKS} ranks` : "each rank"}</option>
            {ranks.map((one) => <option key={one} value={one}>{rankName(one)}</option>)}
          </select>
        </label>
        <label class="select">
          <span>over</span>
          <select value={axis} onChange={(event) => setQuery({ axis: event.currentTarget.value })}>
            <option value="step">step</option>
            <option value="time">time</option>
          </select>
        </label>
        {!isSystem && (
          <label class="range">
            <span>smooth</span>
            <input type="range" min="0" max="0.95" step="0.05" value={smooth}
              onInput={(event) => setQuery({ smooth: event.currentTarget.value === "0" ? "" : event.currentTarget.value })} />
          </label>
        )}
        <label class="check">
          <input type="checkbox" checked={isLog} onChange={(event) => setQuery({ log: event.currentTarget.checked ? "1" : "" })} />
          logarithmic
        </label>
        <span class="grow" />
        <span class="muted">{counted(names.length, "metric")}, {counted(ranks.length, "rank")}</span>
      </div>
      {rank !== "" && rank !== EACH && !ranks.includes(Number(rank)) && <Nothing>There is no such rank: it has logged nothing, or isn't one of this job.</Nothing>}
      <div class="charts">
        {names.slice(0, limit).map((name) => (
          <MetricChart key={name} job={job} name={name} series={series.filter((one) => one.name === name)} rank={rank}
            axis={axis} isLog={isLog} smooth={smooth} />
        ))}
      </div>
      {names.length > limit && (
        <div class="buttons"><button type="button" onClick={() => setLimit(limit + MAX_CHARTS)}>Show more metrics</button></div>
      )}
      {!isSystem && Object.keys(params).length > 0 && <Params params={params} />}
    </div>
  );
}

const rankName = (rank: number): string => (rank >= 0 ? `rank ${rank}` : `node ${-1 - rank}`);

function MetricChart({ job, name, series, rank, axis, isLog, smooth }: {
  job: Job; name: string; series: Series[]; rank: string; axis: string; isLog: boolean; smooth: number;
}) {
  const isOne = rank !== "" && rank !== EACH;
  const chosen = isOne ? series.filter((one) => one.rank === Number(rank)) : rank === EACH ? series.slice(0, MAX_RANKS) : series;
  const count = chosen.reduce((sum, one) => sum + one.count, 0);
  const query = { metric: name, max_points: 800, ...(isOne ? { rank } : {}) };
  const curves = useAnswer<Curve[]>(`/jobs/${segment(job.name)}/metrics/curves`, query);
  // The curve is read again when points have come, not each time that the job changes.
  const [seen, setSeen] = useState(count);
  if (seen !== count) {
    setSeen(count);
    curves.reload();
  }
  const wanted = new Set(chosen.map((one) => one.rank));
  const [showsAll, setShowsAll] = useState(false);
  const drawn = useMemo(() => {
    const points = (curves.value ?? []).filter((curve) => wanted.has(curve.rank)).sort((a, b) => a.rank - b.rank).map(pointsOf);
    return drawingOf(points, { isTime: axis === "time", isEach: rank === EACH, isLog, smooth, nounOf: chosen.every((one) => one.rank < 0) ? "nodes" : "ranks" });
  }, [curves.value, count, rank, axis, isLog, smooth]);
  const positionOf = (x: number) => (axis === "time" ? `at ${exact(x * 1000)}` : `at step ${whole(x)}`);
  const outliers = drawn.range ? outliersText(drawn.points, drawn.range, positionOf) : "";
  const notes = [marksText(drawn.marks, positionOf), isLog ? belowLogText(drawn.points) : ""].filter(Boolean);
  const last = chosen.find((one) => one.rank === 0) ?? chosen[0];
  if (!last) return null;
  const [lastText, minText, maxText] = distinct([last.last, last.min ?? last.last, last.max ?? last.last].map((point) => point.value));
  return (
    <figure class="chart-card">
      <figcaption>
        <span class="chart-name" title={name}>{name.replace(SYSTEM, "")}</span>
        {drawn.agreement && <span class="muted">{drawn.agreement}</span>}
        <strong class="number" title={`step ${last.last.step}`}>{lastText}</strong>
        <span class="muted number">{last.min && last.max ? `${minText} … ${maxText}` : ""}</span>
      </figcaption>
      {curves.error && !curves.value && <Refused error={curves.error} />}
      <Chart lines={drawn.lines} band={drawn.band} range={showsAll ? undefined : drawn.range} marks={drawn.marks} isTime={axis === "time"} isLog={isLog}
        label={[`${name}, ${counted(count, "point")}`, outliers, ...notes].filter(Boolean).join("; ")} syncKey={`${job.name} ${axis}`} />
      {outliers && <Outliers text={outliers} isShown={showsAll} toggle={() => setShowsAll(!showsAll)} />}
      {notes.length > 0 && <p class="chart-note not-finite">{notes.join("; ")}</p>}
    </figure>
  );
}

interface Timed extends CurvePoints { times: number[] }

function pointsOf(curve: Curve): Timed {
  const points = [...curve.points].sort((a, b) => a.step - b.step);
  return { label: rankName(curve.rank), x: points.map((point) => point.step), times: points.map((point) => Date.parse(point.at) / 1000), values: points.map((point) => point.value) };
}

/** agreement: says that all of several curves are the same; "" = they aren't, or are drawn one by one. */
interface Drawing { agreement: string; points: CurvePoints[]; lines: ChartLine[]; band: [ChartLine, ChartLine] | undefined; range: [number, number] | undefined; marks: Mark[] }

interface Drawn { isTime: boolean; isEach: boolean; isLog: boolean; smooth: number; nounOf: string }

/** What a chart draws of these curves: the mean of many, or each; smoothed over what was logged. */
export function drawingOf(curves: Timed[], { isTime, isEach, isLog, smooth, nounOf }: Drawn): Drawing {
  const group = isEach ? undefined : groupOf(curves, nounOf);
  // Ranks log a step at different times: the first one's stand for all.
  const times = new Map(curves[0]?.x.map((step, n) => [step, curves[0]!.times[n]!]));
  const overTime = (line: CurvePoints): CurvePoints => {
    if (!isTime) return line;
    const kept = line.x.flatMap((step, n) => (times.has(step) ? [n] : []));
    return { ...line, x: kept.map((n) => times.get(line.x[n]!)!), values: kept.map((n) => line.values[n]!) };
  };
  const points = curves.map((curve) => (isTime ? { ...curve, x: curve.times } : curve));
  const range = isLog ? undefined : centralRange(points);
  const shown = group ? [overTime(group.mean)] : points.slice(0, MAX_RANKS);
  const lines = shown.flatMap((line) => {
    const y = line.values.map((value) => drawable(value ?? ""));
    const whole = { label: line.label, x: line.x, y };
    if (smooth <= 0) return [whole];
    // One spike would lift the smoothed line far beyond all that follow it.
    const kept = y.flatMap((value, n) => (value === null || !range || (value >= range[0] && value <= range[1]) ? [n] : []));
    return [{ ...whole, isPale: true }, { label: line.label, x: kept.map((n) => line.x[n]!), y: smoothed(kept.map((n) => y[n]!), smooth) }];
  });
  const asLine = (line: CurvePoints): ChartLine => ({ label: line.label, x: line.x, y: line.values as number[] });
  const band: Drawing["band"] = group && !group.isEqual ? [asLine(overTime(group.low)), asLine(overTime(group.high))] : undefined;
  return { agreement: group?.isEqual ? group.mean.label : "", points, lines, band, range, marks: marksOf(points) };
}

/** Exponentially weighted, without the pull towards zero at the beginning. */
export function smoothed(values: (number | null)[], weight: number): (number | null)[] {
  if (weight <= 0) return values;
  let [sum, total] = [0, 0];
  return values.map((value) => {
    if (value === null) return null;
    sum = sum * weight + value * (1 - weight);
    total = total * weight + (1 - weight);
    return sum / total;
  });
}

function Params({ params }: { params: Record<string, string> }) {
  return (
    <section aria-label="Parameters">
      <h2>Parameters</h2>
      <table class="plan">
        <tbody>
          {Object.entries(params).map(([key, value]) => (
            <tr key={key}><th scope="row">{key}</th><td class="machine">{value}</td></tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
