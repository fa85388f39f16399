/** Curves over each other: uPlot, with the page's colours, one pointer for all charts of a screen, zoom by dragging. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { duration, exact, number, whole } from "../format";
import { ChartTable } from "./chart-table";
import type { Mark } from "./honest-curves";
import { numberTicks, timeTicks } from "./ticks";

/** isPoints: its points alone. isPale: drawn behind the others, and not in the legend: the points of which another line is the mean.
 * isLimit: dashed, as the others stay below it. */
export interface ChartLine { label: string; x: number[]; y: (number | null)[]; isPale?: boolean; colour?: LineColour; isPoints?: boolean; isLimit?: boolean }

/** A colour that isn't that of the line's place. key: differs where it differs. */
export interface LineColour { key: string; of: (style: CSSStyleDeclaration) => string }

export const HEIGHT = 170;
const WHOLE = Array.from({ length: 15 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();
/** Between two marks of an axis of steps: there is no half a step. */
const MAX_MARKED = 50;
/** Lines that each have a mark under the pointer. */
const MAX_WIDE = 2500;
/** Points of all lines together, up to which a line is wider than a pixel: then, a browser without a graphics card takes
 * 30 times as long for each. */

interface Props {
  lines: ChartLine[];
  /** Lines behind these, without a name: drawn together, they may be thousands. */
  others?: ChartLine[];
  isTime?: boolean; isLog?: boolean; label: string; syncKey?: string; height?: number;
  /** The values that are drawn; what is beyond them is not. Undefined = all. */
  range?: [number, number] | undefined;
  /** What y is, from 0 up to `top`, or to the highest value where that is undefined. */
  amounts?: { unit: string; top: number | undefined } | undefined;
  /** Values that are no numbers, drawn on the edge. */
  marks?: Mark[];
  /** Two lines between which the chart is filled. */
  band?: [ChartLine, ChartLine] | undefined;
  /** What x is, where it is no time of the day: steps when absent, seconds, or any number. */
  xKind?: XKind;
  /** Where a job began again, drawn as lines from edge to edge. */
  restarts?: number[];
  /** The part of x that is drawn; undefined = all. With `onZoom`, it is the page's to keep. */
  zoom?: [number, number] | undefined;
  /** Called with the part that was dragged over, or undefined where all was asked for by a double click. */
  onZoom?: (zoom: [number, number] | undefined) => void;
  /** Makes the pointer over the lines, which then takes the place of the legend. colours: of the lines. */
  pointer?: ((colours: string[]) => uPlot.Plugin) | undefined;
  /** The labels of lines that aren't drawn, where the chart has a legend. */
  hidden?: ReadonlySet<string>;
  /** Called with the label that was chosen in the legend, to draw its line or not. */
  onToggle?: (label: string) => void;
}

export type XKind = "step" | "seconds" | "number";

const NO_RESTARTS: number[] = [];

const NO_LABELS: ReadonlySet<string> = new Set();
const NONE: ChartLine[] = [];
const NO_MARKS: Mark[] = [];

export function Chart({ lines, others = NONE, isTime = false, isLog = false, label, syncKey, height = HEIGHT, range, amounts, marks = NO_MARKS, band, xKind = "step", restarts = NO_RESTARTS, zoom, onZoom, pointer, hidden = NO_LABELS, onToggle }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const shape = JSON.stringify([lines.map((line) => [line.label, line.isPale, line.isPoints, line.isLimit, line.colour?.key]), others.length > 0, band !== undefined, isTime, isLog, syncKey, height, xKind, onZoom !== undefined, pointer !== undefined, amounts?.unit]);
  const behind = useRef<Behind>({ others, range, amounts, marks, restarts, zoom, onZoom, pointer, hidden, onToggle });
  behind.current = { others, range, amounts, marks, restarts, zoom, onZoom, pointer, hidden, onToggle };
  // Two lines that can't be seen hold the ends of those behind, so that the scales leave room for them.
  const data = useMemo(() => joined([...lines, ...(others.length ? envelope(others) : band ?? [])]), [lines, others, band]);
  // Other colours make another plot: of the data of then, not of those that this shape began with.
  const latest = useRef({ lines, data });
  latest.current = { lines, data };
  useEffect(() => {
    const element = box.current!;
    const make = () => {
      plot.current?.destroy();
      const look = { isTime, isLog, syncKey, width: element.clientWidth, height, hasBand: band !== undefined, xKind };
      plot.current = new uPlot(options(latest.current.lines, behind, look), latest.current.data, element);
      makeButtons(plot.current, behind);
      hide(plot.current, hidden);
    };
    make();
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", make);
    const watch = new ResizeObserver(() => {
      if (plot.current && element.clientWidth && plot.current.width !== element.clientWidth) plot.current.setSize({ width: element.clientWidth, height });
    });
    watch.observe(element);
    return () => {
      watch.disconnect();
      scheme.removeEventListener("change", make);
      plot.current?.destroy();
      plot.current = undefined;
    };
  }, [shape]);
  useEffect(() => {
    const zoomed = !onZoom && plot.current && isZoomed(plot.current);
    plot.current?.setData(data, !zoomed);
    if (zoomed) plot.current?.redraw();
  }, [data, range?.[0], range?.[1], marks, restarts.join(), zoom?.[0], zoom?.[1]]);
  useEffect(() => void (plot.current && hide(plot.current, hidden)), [[...hidden].join("\n")]);
  const [hasTable, setTable] = useState(false);
  return (
    <div class="chart-box">
      <div class="chart" ref={box} role={onToggle && !pointer && (band || lines.filter((line) => !line.isPale).length > 1) ? "group" : "img"} aria-label={label} data-points={lines.length || others.length ? data[0]?.length ?? 0 : 0} style={{ minHeight: `${height}px` }} />
      {(lines.length > 0 || others.length > 0) && (
        <button type="button" class="quiet as-table" style={{ top: `${height - 21}px` }} aria-expanded={hasTable} aria-label={`Table of ${label.split(",")[0]}`} title="The values as a table" onClick={() => setTable(!hasTable)}>table</button>
      )}
      {hasTable && <ChartTable lines={[...lines, ...tabled(others, band)]} marks={marks} isTime={isTime} xKind={xKind} label={label} />}
    </div>
  );
}

/** The ends between which other lines, or ranks, are. */
function tabled(others: ChartLine[], band: [ChartLine, ChartLine] | undefined): ChartLine[] {
  const ends = others.length ? envelope(others) : band;
  return ends ? [{ ...ends[0], label: "lowest" }, { ...ends[1], label: "highest" }] : [];
}

/** The labels of the legend are buttons, for the keyboard too; the mouse is uPlot's. */
function makeButtons(plot: uPlot, behind: { current: Behind }): void {
  plot.root.querySelectorAll<HTMLElement>(".u-legend .u-series").forEach((row, n) => {
    const label = row.querySelector<HTMLElement>(".u-label");
    if (n === 0 || !label || !behind.current.onToggle) return;
    label.setAttribute("role", "button");
    label.tabIndex = 0;
    label.addEventListener("keydown", (event) => {
      if (event.key !== " " && event.key !== "Enter") return;
      event.preventDefault();
      behind.current.onToggle?.(String(plot.series[n]!.label));
    });
    // uPlot would hide it in this chart alone.
    row.querySelector("th")!.addEventListener("click", (event) => {
      event.stopImmediatePropagation();
      behind.current.onToggle?.(String(plot.series[n]!.label));
    }, { capture: true });
  });
}

function hide(plot: uPlot, hidden: ReadonlySet<string>): void {
  const rows = plot.root.querySelectorAll<HTMLElement>(".u-legend .u-series");
  if (!rows.length) return;
  plot.series.forEach((series, n) => {
    const show = !hidden.has(String(series.label));
    if (n > 0 && series.show !== show) plot.setSeries(n, { show }, false);
    if (n > 0) rows[n]?.querySelector("[role=button]")?.setAttribute("aria-pressed", String(show));
  });
}

function isZoomed(plot: uPlot): boolean {
  const [xs, scale] = [plot.data[0], plot.scales.x];
  if (!xs.length || scale?.min == null || scale.max == null) return false;
  return scale.min > xs[0]! || scale.max < xs.at(-1)!;
}

/** One common x for all lines, with gaps where a line has no point. */
export function joined(lines: ChartLine[]): uPlot.AlignedData {
  if (lines.length === 0) return [[]];
  const tables = lines.map((line) => unique([line.x, line.y] as uPlot.AlignedData));
  return lines.length === 1 ? tables[0]! : uPlot.join(tables);
}

/** The points by x, the last of those at one: a job that was restarted logs steps again, and lines need an x that grows. */
function unique([xs, ys]: uPlot.AlignedData): uPlot.AlignedData {
  const points = new Map<number, number | null | undefined>();
  for (let n = 0; n < xs.length; n += 1) points.set(xs[n]!, ys?.[n]);
  const order = [...points.keys()].sort((a, b) => a - b);
  return [order, order.map((x) => points.get(x))] as uPlot.AlignedData;
}

/** The lowest and the highest value of all lines at each x. */
export function envelope(lines: ChartLine[]): [ChartLine, ChartLine] {
  const ends = new Map<number, [number, number]>();
  for (const { x, y } of lines) {
    for (let n = 0; n < x.length; n += 1) {
      const value = y[n];
      if (value == null) continue;
      const known = ends.get(x[n]!);
      if (!known) ends.set(x[n]!, [value, value]);
      else if (value < known[0]) known[0] = value;
      else if (value > known[1]) known[1] = value;
    }
  }
  const x = [...ends.keys()].sort((a, b) => a - b);
  return [0, 1].map((side) => ({ label: "", x, y: x.map((one) => ends.get(one)![side as 0 | 1]) })) as [ChartLine, ChartLine];
}

/** Draws lines behind those of the plot, all by one path. */
function drawBehind(plot: uPlot, lines: ChartLine[], colour: string): void {
  const { left, top, width, height } = plot.bbox;
  const context = plot.ctx;
  const path = new Path2D();
  const [x, y] = ["x", "y"].map((key) => (value: number) => plot.valToPos(value, key, true)) as [(value: number) => number, (value: number) => number];
  for (const line of lines) {
    let isOpen = false;
    line.x.forEach((at, n) => {
      const value = line.y[n];
      if (value == null) return;
      if (isOpen) path.lineTo(x(at), y(value));
      else path.moveTo(x(at), y(value));
      isOpen = true;
    });
  }
  context.save();
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
  context.strokeStyle = colour;
  context.globalAlpha = lines.length > 100 ? 0.55 : 0.8;
  context.lineWidth = devicePixelRatio;
  context.stroke(path);
  context.restore();
}

const MIN_AXIS = 52;
const CHARACTER = 6.5;
/** Of the axis' font, at most. */

/** The width of the axis of values: of its longest text. */
const widthOf = (_plot: uPlot, texts: string[] | null): number =>
  Math.max(MIN_AXIS, 10 + CHARACTER * Math.max(0, ...(texts ?? []).map((text) => text.length)));

interface Look { isTime: boolean; isLog: boolean; syncKey: string | undefined; width: number; height: number; hasBand: boolean; xKind: XKind }
interface Behind {
  others: ChartLine[]; range: [number, number] | undefined; amounts: Props["amounts"]; marks: Mark[]; restarts: number[];
  zoom: [number, number] | undefined; onZoom: Props["onZoom"]; pointer: Props["pointer"]; hidden: ReadonlySet<string>; onToggle: Props["onToggle"];
}

const MARK_SIZE = 5;

/** A triangle on the upper edge for NaN and Infinity, on the lower one for -Infinity. */
function drawMarks(plot: uPlot, marks: Mark[], colours: { nan: string; infinite: string }): void {
  const { left, top, width, height } = plot.bbox;
  const size = MARK_SIZE * devicePixelRatio;
  plot.ctx.save();
  for (const { x, value } of marks) {
    const at = plot.valToPos(x, "x", true);
    if (at < left || at > left + width) continue;
    const [edge, tip] = value === "-Infinity" ? [top + height, top + height - size] : [top, top + size];
    plot.ctx.fillStyle = value === "NaN" ? colours.nan : colours.infinite;
    plot.ctx.beginPath();
    plot.ctx.moveTo(at - size, edge);
    plot.ctx.lineTo(at + size, edge);
    plot.ctx.lineTo(at, tip);
    plot.ctx.fill();
  }
  plot.ctx.restore();
}

/** A dashed line where a job began again. */
function drawRestarts(plot: uPlot, restarts: number[], colour: string): void {
  const { left, top, width, height } = plot.bbox;
  plot.ctx.save();
  plot.ctx.strokeStyle = colour;
  plot.ctx.lineWidth = devicePixelRatio;
  plot.ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
  for (const x of restarts) {
    const at = plot.valToPos(x, "x", true);
    if (at < left || at > left + width) continue;
    plot.ctx.beginPath();
    plot.ctx.moveTo(at, top);
    plot.ctx.lineTo(at, top + height);
    plot.ctx.stroke();
  }
  plot.ctx.restore();
}

/** The texts of the axis of x. */
function xTexts(splits: number[], { isTime, xKind }: Look): string[] {
  if (isTime) return timeTicks(splits);
  if (xKind === "number") return numberTicks(splits);
  return xKind === "seconds" ? splits.map((value) => (value === 0 ? "0" : duration(value))) : splits.map(whole);
}

/** The ends of x: of all points. One alone is in the middle of two steps, or of a minute: uPlot would draw years around it. */
export const endsOfX = (low: number, high: number, isTime: boolean): uPlot.Range.MinMax => {
  const around = isTime ? 30 : 1;
  return low === high && low !== null ? [low - around, high + around] : [low, high];
};

/** What one has dragged over is drawn by all charts of the screen, as its address says. */
function zoomOptions(behind: { current: Behind }): Pick<uPlot.Options, "hooks" | "cursor"> {
  const ask = (zoom: [number, number] | undefined) => behind.current.onZoom?.(zoom);
  return {
    hooks: {
      setSelect: [(plot: uPlot) => {
        const { left, width } = plot.select;
        if (width < 2) return;
        plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        ask([plot.posToVal(left, "x"), plot.posToVal(left + width, "x")]);
      }],
    },
    cursor: { drag: { x: true, y: false, setScale: false }, bind: { dblclick: () => () => { ask(undefined); return null; } } },
  };
}

const ROOM = 1.1;
const TOP_ROOM = 1.03;
/** Above a limit, so that its line is seen. */

/** The ends of the axis of values: of what is drawn, with some room. */
function endsOf({ range, amounts }: Behind, low: number, high: number): uPlot.Range.MinMax {
  if (low == null || high == null) return [low, high];
  if (amounts) return [0, amounts.top ? Math.max(amounts.top, high) * (amounts.unit === "%" ? 1 : TOP_ROOM) : high * ROOM || 1];
  return range ? uPlot.rangeNum(Math.max(low, range[0]), Math.min(high, range[1]), 0.1, true) : uPlot.rangeNum(low, high, 0.1, true);
}

function options(lines: ChartLine[], behind: { current: Behind }, look: Look): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const axis = {
    stroke: colour("--muted"), font: `11px ${colour("--sans")}`, grid: { stroke: colour("--grid"), width: 1 },
    ticks: { show: false }, gap: 4,
  };
  const hasOthers = behind.current.others.length > 0;
  const named = lines.filter((line) => !line.isPale).length;
  const zooming: Pick<uPlot.Options, "hooks" | "cursor"> = behind.current.onZoom ? zoomOptions(behind) : { cursor: { drag: { x: true, y: false } } };
  const strokes = lines.map((line, n) => line.colour?.of(style) ?? colour(line.isLimit ? "--muted" : `--line-${colourOf(lines, n) % 8}`));
  const unit = behind.current.amounts?.unit ? ` ${behind.current.amounts.unit}` : "";
  const isDense = lines.reduce((sum, line) => sum + line.x.length, 0) > MAX_WIDE;
  return {
    hooks: {
      ...zooming.hooks,
      drawAxes: [(plot: uPlot) => hasOthers && drawBehind(plot, behind.current.others, colour("--faint"))],
      draw: [
        (plot: uPlot) => drawRestarts(plot, behind.current.restarts, colour("--wait")),
        (plot: uPlot) => drawMarks(plot, behind.current.marks, { nan: colour("--wait"), infinite: colour("--muted") }),
      ],
    },
    plugins: behind.current.pointer ? [behind.current.pointer(strokes)] : [],
    width: Math.max(look.width, 100),
    height: look.height,
    padding: [8, look.isTime ? 32 : 8, 0, 0],
    legend: { show: (named > 1 || look.hasBand) && named <= 12 && !behind.current.pointer, live: true },
    cursor: { ...(look.syncKey ? { sync: { key: look.syncKey } } : {}), points: lines.length > MAX_MARKED ? { show: false } : { size: 6 }, ...zooming.cursor },
    scales: {
      x: { time: look.isTime, range: (_plot: uPlot, low: number, high: number) => behind.current.zoom ?? endsOfX(low, high, look.isTime) },
      y: look.isLog ? { distr: 3 } : { range: (_plot: uPlot, low: number, high: number) => endsOf(behind.current, low, high) },
    },
    axes: [
      {
        ...axis, ...(look.isTime ? { size: 38, space: 72 } : { size: 24, ...(look.xKind === "step" ? { incrs: WHOLE } : { space: 72 }) }),
        values: (_plot: uPlot, splits: number[]) => xTexts(splits, look),
      },
      { ...axis, size: widthOf, values: (_plot, splits) => (look.isLog ? splits.map((value) => (value === null ? "" : number(value))) : numberTicks(splits).map((tick) => tick + unit)) },
    ],
    ...(look.hasBand && !hasOthers ? { bands: [{ series: [lines.length + 2, lines.length + 1] as [number, number], fill: `${colour("--line-0")}2e` }] } : {}),
    series: [
      { value: (_plot, value) => (value === null ? "–" : look.isTime ? exact(value * 1000) : look.xKind === "seconds" ? duration(value) : String(value)), label: look.isTime ? "time" : look.xKind === "seconds" ? "after" : look.xKind === "number" ? "x" : "step" },
      ...lines.map((line, n) => ({
        label: line.label,
        stroke: strokes[n]!,
        alpha: line.isPale ? 0.3 : 1,
        ...(line.isPale ? { class: "pale" } : {}),
        width: isDense ? 1 / devicePixelRatio : hasOthers ? 2.5 : 1.5,
        ...(line.isLimit || (!line.colour && colourOf(lines, n) >= 8) ? { dash: [6, 3] } : {}),
        ...(line.isPoints ? { paths: () => null } : {}),
        points: line.isPoints ? { show: true, size: 5, fill: strokes[n]! } : { show: line.x.length < 3 },
        value: (_plot: uPlot, value: number | null) => number(value) + (value === null ? "" : unit),
      })),
      ...(look.hasBand && !hasOthers ? ["lowest", "highest"].map((label) => ({
        label, stroke: colour("--line-0"), alpha: 0.35, width: 1 / devicePixelRatio, points: { show: false },
        value: (_plot: uPlot, value: number | null) => number(value) + (value === null ? "" : unit),
      })) : []),
      ...(hasOthers ? [0, 1].map(() => ({ stroke: "transparent", points: { show: false }, spanGaps: true })) : []),
    ],
  };
}

/** A pale line has the colour of the line that follows it. */
const colourOf = (lines: ChartLine[], n: number): number => lines.slice(0, n).filter((line) => !line.isPale).length;
