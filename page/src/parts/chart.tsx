/** Curves over each other: uPlot, with the page's colours, one pointer for all charts of a screen, zoom by dragging. */

import { useEffect, useMemo, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { exact, number, whole } from "../format";

export interface ChartLine { label: string; x: number[]; y: (number | null)[] }

const HEIGHT = 170;
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
}

const NONE: ChartLine[] = [];

export function Chart({ lines, others = NONE, isTime = false, isLog = false, label, syncKey, height = HEIGHT }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const shape = JSON.stringify([lines.map((line) => line.label), others.length > 0, isTime, isLog, syncKey, height]);
  const behind = useRef(others);
  behind.current = others;
  // Two lines that can't be seen hold the ends of those behind, so that the scales leave room for them.
  const data = useMemo(() => joined(others.length ? [...lines, ...envelope(others)] : lines), [lines, others]);
  // Other colours make another plot: of the data of then, not of those that this shape began with.
  const latest = useRef({ lines, data });
  latest.current = { lines, data };
  useEffect(() => {
    const element = box.current!;
    const make = () => {
      plot.current?.destroy();
      const look = { isTime, isLog, syncKey, width: element.clientWidth, height };
      plot.current = new uPlot(options(latest.current.lines, behind, look), latest.current.data, element);
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
    const zoomed = plot.current && isZoomed(plot.current);
    plot.current?.setData(data, !zoomed);
    if (zoomed) plot.current?.redraw();
  }, [data]);
  return <div class="chart" ref={box} role="img" aria-label={label} data-points={lines.length || others.length ? data[0]?.length ?? 0 : 0} style={{ minHeight: `${height}px` }} />;
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

interface Look { isTime: boolean; isLog: boolean; syncKey: string | undefined; width: number; height: number }

function options(lines: ChartLine[], behind: { current: ChartLine[] }, look: Look): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const axis = {
    stroke: colour("--muted"), font: `11px ${colour("--sans")}`, grid: { stroke: colour("--grid"), width: 1 },
    ticks: { show: false }, gap: 4,
  };
  const hasOthers = behind.current.length > 0;
  const isDense = lines.reduce((sum, line) => sum + line.x.length, 0) > MAX_WIDE;
  return {
    ...(hasOthers ? { hooks: { drawAxes: [(plot: uPlot) => drawBehind(plot, behind.current, colour("--faint"))] } } : {}),
    width: Math.max(look.width, 100),
    height: look.height,
    padding: [8, 8, 0, 0],
    legend: { show: lines.length > 1 && lines.length <= 12, live: true },
    cursor: { ...(look.syncKey ? { sync: { key: look.syncKey } } : {}), points: lines.length > MAX_MARKED ? { show: false } : { size: 6 }, drag: { x: true, y: false } },
    scales: { x: { time: look.isTime }, y: { distr: look.isLog ? 3 : 1 } },
    axes: [
      { ...axis, size: 24, ...(look.isTime ? {} : { incrs: WHOLE, values: (_plot: uPlot, splits: number[]) => splits.map(whole) }) },
      { ...axis, size: 52, values: (_plot, splits) => splits.map((value) => (value === null ? "" : number(value))) },
    ],
    series: [
      { value: (_plot, value) => (value === null ? "–" : look.isTime ? exact(value * 1000) : String(value)), label: look.isTime ? "time" : "step" },
      ...lines.map((line, n) => ({
        label: line.label,
        stroke: colour(`--line-${n % 8}`),
        width: isDense ? 1 / devicePixelRatio : hasOthers ? 2.5 : 1.5,
        ...(n >= 8 ? { dash: [6, 3] } : {}),
        spanGaps: true,
        points: { show: line.x.length < 3 },
        value: (_plot: uPlot, value: number | null) => number(value),
      })),
      ...(hasOthers ? [0, 1].map(() => ({ stroke: "transparent", points: { show: false }, spanGaps: true })) : []),
    ],
  };
}
