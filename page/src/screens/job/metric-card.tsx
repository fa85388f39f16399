/** The chart of one metric of a job, or of the same one on training and held-out data. */

import type { ComponentChildren } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import { segment } from "../../api";
import { counted, distinct, drawable, duration, exact, number, whole } from "../../format";
import { useAnswer } from "../../hooks";
import { Chart, type ChartLine, type XKind } from "../../parts/chart";
import { belowLogText, centralRange, type CurvePoints, groupOf, type Mark, marksOf, marksText, outliersText } from "../../parts/honest-curves";
import type { MetricCard } from "../../parts/metric-groups";
import { Outliers } from "../../parts/outliers";
import { Refused } from "../../parts/placeholders";
import { StarButton } from "../../parts/primary-metric";
import type { Curve, Job, Series } from "../../types";
import { csvOf, saveCsv, savePicture } from "./chart-files";

export const SYSTEM = "system/";
export const MAX_RANKS = 8;
/** Curves in one chart; more ranks are chosen one by one. */
export const EACH = "each";
/** In the address, instead of a rank: a line for each. */
const AXIS_POINTS = 5000;
/** Of the metric on the axis of x: a step between two of them is in between there, too. */

/** What a screen of charts is drawn by. axis: `step`, `time`, `relative`, or `m:` and the metric that is x. */
export interface View {
  rank: string; axis: string; isLog: boolean; smooth: number; zoom?: [number, number] | undefined;
  onZoom?: (zoom: [number, number] | undefined) => void;
  /** The labels of lines that no chart draws. */
  hidden?: ReadonlySet<string>; onToggle?: (label: string) => void;
}

export const OF_METRIC = "m:";

const rankName = (rank: number): string => (rank >= 0 ? `rank ${rank}` : `node ${-1 - rank}`);

/** series: of all metrics of the job. */
export function MetricChart({ job, card, series, view, isSmall = false, isScatter = false, isWide = false, height, children }: {
  job: Job; card: MetricCard; series: Series[]; view: View; isSmall?: boolean;
  /** Points without lines between them. */
  isScatter?: boolean;
  /** Over the whole row of cards. */
  isWide?: boolean; height?: number;
  /** Buttons of the chart. */
  children?: ComponentChildren;
}) {
  const { rank, axis, isLog, smooth } = view;
  const isOne = rank !== "" && rank !== EACH;
  const own = series.filter((one) => card.names.includes(one.name));
  const chosen = isOne ? own.filter((one) => one.rank === Number(rank)) : rank === EACH ? own.filter((one) => one.rank < MAX_RANKS) : own;
  const count = chosen.reduce((sum, one) => sum + one.count, 0);
  const query = { metric: card.names.length === 1 ? card.names[0]! : card.names, max_points: 800, ...(isOne ? { rank } : {}) };
  const curves = useAnswer<Curve[]>(`/jobs/${segment(job.name)}/metrics/curves`, query);
  const xMetric = axis.startsWith(OF_METRIC) ? axis.slice(OF_METRIC.length) : undefined;
  const xCurves = useAnswer<Curve[]>(xMetric ? `/jobs/${segment(job.name)}/metrics/curves` : undefined, { metric: xMetric, max_points: AXIS_POINTS });
  // The curve is read again when points have come, not each time that the job changes.
  const [seen, setSeen] = useState(count);
  if (seen !== count) {
    setSeen(count);
    curves.reload();
    if (xMetric) xCurves.reload();
  }
  const figure = useRef<HTMLElement>(null);
  const [showsAll, setShowsAll] = useState(false);
  const timed = useMemo(() => {
    const wanted = new Set(chosen.map((one) => `${one.rank} ${one.name}`));
    return (curves.value ?? []).filter((curve) => wanted.has(`${curve.rank} ${curve.name}`)).sort((a, b) => a.rank - b.rank);
  }, [curves.value, count, rank]);
  const drawn = useMemo(() => {
    const toX = xOf(axis, job.started_at, xCurves.value);
    const look = { toX, isEach: rank === EACH, isLog, smooth, nounOf: "ranks" };
    if (card.names.length === 1) return drawingOf(timed.map(pointsOf), look);
    return drawingOfPair(card.names.map((name) => timed.filter((curve) => curve.name === name).map(pointsOf)), card.names, look);
  }, [timed, xCurves.value, axis, isLog, smooth, rank]);
  const restarts = useMemo(() => restartsOf(job, timed, axis), [timed, job.failures.length, axis]);
  const positionOf = (x: number) => (axis === "time" ? `at ${exact(x * 1000)}` : axis === "relative" ? `after ${duration(x)}` : xMetric ? `at ${number(x)}` : `at step ${whole(x)}`);
  const outliers = drawn.range ? outliersText(drawn.points, drawn.range, positionOf) : "";
  const notes = [marksText(drawn.marks, positionOf), isLog ? belowLogText(drawn.points) : "", xMetric && xCurves.value && !xCurves.value.length ? `${xMetric} has no values` : ""].filter(Boolean);
  if (!chosen.length) return null;
  const { title } = card;
  const xKind: XKind = axis === "relative" ? "seconds" : xMetric ? "number" : "step";
  return (
    <figure class={`chart-card${isWide ? " is-wide" : ""}`} ref={figure}>
      <figcaption>
        {card.names.length === 1 && <StarButton job={job} metric={card.names[0]!} />}
        <span class="chart-name" title={card.names.join(", ")}>{title}</span>
        {drawn.agreement && <span class="muted">{drawn.agreement}</span>}
        {card.names.length === 1 && <LastOf series={chosen} />}
        {!isSmall && (
          <span class="chart-files">
            {children}
            <button type="button" class="quiet" aria-label={`${title} as csv`} title="Save these points as csv" onClick={() => saveCsv(`${job.name} ${title}`, csvOf(timed))}>csv</button>
            <button type="button" class="quiet" aria-label={`${title} as png`} title="Save this picture as png" onClick={() => void savePicture(`${job.name} ${title}`, figure.current!)}>png</button>
          </span>
        )}
      </figcaption>
      {card.names.length > 1 && (
        <p class="chart-note pair-names">
          {card.names.map((name) => <span key={name}><StarButton job={job} metric={name} />{name} <LastOf series={chosen.filter((one) => one.name === name)} isShort /></span>)}
        </p>
      )}
      {curves.error && !curves.value && <Refused error={curves.error} />}
      <Chart lines={isScatter ? drawn.lines.map((line) => ({ ...line, isPoints: true })) : drawn.lines} {...(height ? { height } : {})} {...(view.hidden ? { hidden: view.hidden } : {})} {...(view.onToggle ? { onToggle: view.onToggle } : {})} band={drawn.band} range={showsAll ? undefined : drawn.range} marks={drawn.marks} isTime={axis === "time"} isLog={isLog} xKind={xKind}
        restarts={restarts} zoom={view.zoom} {...(view.onZoom ? { onZoom: view.onZoom } : {})}
        label={[`${title}, ${counted(count, "point")}`, restarts.length ? `began again ${restarts.map(positionOf).join(" and ")}` : "", outliers, ...notes].filter(Boolean).join("; ")} syncKey={`${job.name} ${axis}`} />
      {outliers && <Outliers text={outliers} isShown={showsAll} toggle={() => setShowsAll(!showsAll)} />}
      {restarts.length > 0 && !isSmall && <p class="muted chart-note">began again {restarts.map(positionOf).join(" and ")}</p>}
      {notes.length > 0 && <p class="chart-note not-finite">{notes.join("; ")}</p>}
    </figure>
  );
}

/** The last value, and between which ends all values are. isShort: without the ends. */
function LastOf({ series, isShort = false }: { series: Series[]; isShort?: boolean }) {
  const last = series.find((one) => one.rank === 0) ?? series[0];
  if (!last) return null;
  const [lastText, minText, maxText] = distinct([last.last, last.min ?? last.last, last.max ?? last.last].map((point) => point.value));
  return (
    <>
      <strong class="number" title={`step ${last.last.step}`}>{lastText}</strong>
      {!isShort && <span class="muted number">{last.min && last.max ? `${minText} … ${maxText}` : ""}</span>}
    </>
  );
}

interface Timed extends CurvePoints { times: number[] }

function pointsOf(curve: Curve): Timed {
  const points = [...curve.points].sort((a, b) => a.step - b.step);
  return { label: rankName(curve.rank), x: points.map((point) => point.step), times: points.map((point) => Date.parse(point.at) / 1000), values: points.map((point) => point.value) };
}

/** Where a point stands on the axis; undefined = it has no place there. */
type ToX = (step: number, time: number) => number | undefined;

/** undefined: steps stay as they are. */
function xOf(axis: string, startedAt: string | null, curves: Curve[] | undefined): ToX | undefined {
  if (axis === "time") return (_step, time) => time;
  if (axis === "relative") {
    const began = startedAt ? Date.parse(startedAt) / 1000 : 0;
    return (_step, time) => time - began;
  }
  if (!axis.startsWith(OF_METRIC)) return undefined;
  const own = curves?.find((one) => one.rank === 0) ?? curves?.[0];
  const points = [...(own?.points ?? [])].filter((one) => typeof one.value === "number").sort((a, b) => a.step - b.step);
  return (step) => between(points as { step: number; value: number }[], step);
}

/** The value at a step, on the line between the logged points around it; undefined = it is beyond them. */
export function between(points: { step: number; value: number }[], step: number): number | undefined {
  const behind = points.findIndex((one) => one.step >= step);
  if (behind < 0) return undefined;
  const [after, before] = [points[behind]!, points[behind - 1]];
  if (after.step === step || !before) return after.step === step ? after.value : undefined;
  return before.value + ((after.value - before.value) * (step - before.step)) / (after.step - before.step);
}

/** Where a job began again: the last step before each failure, or the time of it. Curves over another metric have none. */
export function restartsOf(job: Pick<Job, "failures" | "started_at" | "state">, curves: Curve[], axis: string): number[] {
  const again = job.state === "failed" ? job.failures.slice(0, -1) : job.failures;
  const points = curves.flatMap((curve) => curve.points.map((point) => ({ step: point.step, at: Date.parse(point.at) })));
  if (!again.length || !points.length || axis.startsWith(OF_METRIC)) return [];
  return [...new Set(again.flatMap((failure) => {
    const at = Date.parse(failure.at);
    if (axis === "time") return [at / 1000];
    if (axis === "relative") return [(at - Date.parse(job.started_at ?? failure.at)) / 1000];
    const before = points.filter((point) => point.at <= at).map((point) => point.step);
    return before.length ? [Math.max(...before)] : [];
  }))];
}

/** agreement: says that all of several curves are the same; "" = they aren't, or are drawn one by one. */
interface Drawing { agreement: string; points: CurvePoints[]; lines: ChartLine[]; band: [ChartLine, ChartLine] | undefined; range: [number, number] | undefined; marks: Mark[] }

interface Drawn { toX: ToX | undefined; isEach: boolean; isLog: boolean; smooth: number; nounOf: string }

/** The curve over another x, in its order. */
function moved({ label, x, times, values }: Timed, toX: ToX | undefined): CurvePoints {
  if (!toX) return { label, x, values };
  const kept = x.flatMap((step, n) => {
    const at = toX(step, times[n]!);
    return at === undefined ? [] : [{ at, value: values[n]! }];
  }).sort((a, b) => a.at - b.at);
  return { label, x: kept.map((one) => one.at), values: kept.map((one) => one.value) };
}

/** The line, and where it is smoothed, what was logged behind it. */
function linesOf(line: CurvePoints, range: [number, number] | undefined, smooth: number): ChartLine[] {
  const y = line.values.map((value) => drawable(value ?? ""));
  const all = { label: line.label, x: line.x, y };
  if (smooth <= 0) return [all];
  // One spike would lift the smoothed line far beyond all that follow it.
  const kept = y.flatMap((value, n) => (value === null || !range || (value >= range[0] && value <= range[1]) ? [n] : []));
  return [{ ...all, isPale: true }, { label: line.label, x: kept.map((n) => line.x[n]!), y: smoothed(kept.map((n) => y[n]!), smooth) }];
}

/** What a chart draws of these curves: the mean of many, or each; smoothed over what was logged. */
export function drawingOf(curves: Timed[], { toX, isEach, isLog, smooth, nounOf }: Drawn): Drawing {
  const group = isEach ? undefined : groupOf(curves, nounOf);
  // Ranks log a step at different times: the first one's stand for all.
  const times = new Map(curves[0]?.x.map((step, n) => [step, curves[0]!.times[n]!]));
  const overX = (line: CurvePoints): CurvePoints => {
    const kept = line.x.flatMap((step, n) => (times.has(step) ? [n] : []));
    return toX ? moved({ label: line.label, x: kept.map((n) => line.x[n]!), times: kept.map((n) => times.get(line.x[n]!)!), values: kept.map((n) => line.values[n]!) }, toX) : line;
  };
  const points = curves.map((curve) => moved(curve, toX));
  const range = isLog ? undefined : centralRange(points);
  const shown = group ? [overX(group.mean)] : points.slice(0, MAX_RANKS);
  const lines = shown.flatMap((line) => linesOf(line, range, smooth));
  const asLine = (line: CurvePoints): ChartLine => ({ label: line.label, x: line.x, y: line.values as number[] });
  const band: Drawing["band"] = group && !group.isEqual ? [asLine(overX(group.low)), asLine(overX(group.high))] : undefined;
  return { agreement: group?.isEqual ? group.mean.label : "", points, lines, band, range, marks: marksOf(points) };
}

/** The same of several metrics: each is one line, the mean of its ranks where there are many. */
export function drawingOfPair(metrics: Timed[][], names: string[], look: Drawn): Drawing {
  const each = metrics.map((curves, n) => {
    const { lines, points, marks } = drawingOf(curves, { ...look, smooth: 0 });
    // Two ranks have no mean of their own: each is a line.
    return { marks, points, lines: lines.map((line) => ({ ...line, label: lines.length > 1 ? `${names[n]} ${line.label}` : names[n]! })) };
  });
  const points = each.flatMap((one) => one.points);
  const range = look.isLog ? undefined : centralRange(points);
  const lines = each.flatMap((one) => one.lines.flatMap(({ label, x, y }) => linesOf({ label, x, values: y }, range, look.smooth)));
  return { agreement: "", points, lines, band: undefined, range, marks: each.flatMap((one) => one.marks) };
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
