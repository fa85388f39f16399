/** Histograms over steps as a heat map: steps from left to right, values from bottom to top, counts by darkness. */

import { useEffect, useRef, useState } from "preact/hooks";
import { number, whole } from "../../format";
import { jsonOf } from "./kept-files";
import { thinned, type Series } from "./step-files";

export interface Histogram { counts: number[]; edges: number[] }

const MAX_STEPS = 200;
const ROWS = 64;
const HEIGHT = 180;
const AT_ONCE = 8;

/** The histogram that JSON has; undefined = it has none. */
export function histogramOf(value: unknown): Histogram | undefined {
  const { counts, edges } = (value ?? {}) as Partial<Histogram>;
  if (!Array.isArray(counts) || !Array.isArray(edges) || edges.length !== counts.length + 1 || !counts.length) return undefined;
  return [...counts, ...edges].every((one) => Number.isFinite(one)) ? { counts, edges } : undefined;
}

/** The share of a histogram's values in each of equal bins between two bounds. */
export function sharesOf({ counts, edges }: Histogram, low: number, high: number, rows: number): number[] {
  const shares = new Array<number>(rows).fill(0);
  const sum = counts.reduce((all, one) => all + one, 0) || 1;
  const height = (high - low) / rows || 1;
  counts.forEach((count, n) => {
    const [from, to] = [edges[n]!, edges[n + 1]!];
    const [first, last] = [from, to].map((edge) => Math.min(rows - 1, Math.max(0, Math.floor((edge - low) / height)))) as [number, number];
    for (let row = first; row <= last; row += 1) {
      const part = to > from ? Math.max(0, Math.min(to, low + (row + 1) * height) - Math.max(from, low + row * height)) / (to - from) : Number(row === first);
      shares[row]! += (count * part) / sum;
    }
  });
  return shares;
}

export function HeatMap({ job, series, at, choose }: { job: string; series: Series; at: number; choose: (step: number) => void }) {
  const steps = thinned(series.steps, MAX_STEPS);
  const read = useHistograms(job, series, at, steps);
  const canvas = useRef<HTMLCanvasElement>(null);
  const known = steps.filter((step) => read.has(step));
  const all = known.map((step) => read.get(step)!);
  const low = Math.min(...all.map((one) => one.edges[0]!));
  const high = Math.max(...all.map((one) => one.edges.at(-1)!));
  useEffect(() => {
    if (canvas.current && all.length) draw(canvas.current, known.map((step) => read.get(step)!), [low, high], known.indexOf(at));
  }, [read, at, known.length]);
  if (!all.length) return <p class="muted loading">Loading…</p>;
  const present = read.get(at);
  return (
    <>
      <div class="heat-map">
        <span class="muted number">{number(high)}</span>
        <canvas ref={canvas} height={HEIGHT} role="img"
          aria-label={`${series.name}: values from ${number(low)} to ${number(high)} at ${known.length} steps`}
          onClick={(event) => {
            const { left, width } = event.currentTarget.getBoundingClientRect();
            choose(known[Math.min(known.length - 1, Math.floor(((event.clientX - left) / width) * known.length))]!);
          }} />
        <span class="muted number">{number(low)}</span>
      </div>
      <p class="muted">steps {whole(known[0]!)} to {whole(known.at(-1)!)}{steps.length < series.steps.length && `, ${MAX_STEPS} of ${whole(series.steps.length)}`}</p>
      {present && <Bars histogram={present} at={at} />}
    </>
  );
}

function Bars({ histogram: { counts, edges }, at }: { histogram: Histogram; at: number }) {
  const [most, sum] = [Math.max(...counts, 1e-300), counts.reduce((all, one) => all + one, 0)];
  return (
    <figure class="step-bars">
      <svg viewBox={`0 0 ${counts.length} 40`} preserveAspectRatio="none" role="img" aria-label={`Step ${at}: ${whole(sum)} values from ${number(edges[0])} to ${number(edges.at(-1))}`}>
        {counts.map((count, n) => <rect key={n} x={n} width={0.92} y={40 - (40 * count) / most} height={(40 * count) / most} />)}
      </svg>
      <figcaption class="muted number">step {whole(at)}: {number(edges[0])} to {number(edges.at(-1))}, {whole(sum)} values</figcaption>
    </figure>
  );
}

/** The histograms of these steps, and first the one of `at`; of the lowest rank that has logged them. */
function useHistograms(job: string, series: Series, at: number, steps: number[]): Map<number, Histogram> {
  const [read, setRead] = useState(new Map<number, Histogram>());
  useEffect(() => {
    let isOpen = true;
    const waiting = [at, ...steps.filter((step) => step !== at)].filter((step) => !read.has(step));
    const take = async () => {
      for (let step = waiting.shift(); step !== undefined && isOpen; step = waiting.shift()) {
        const histogram = histogramOf(await jsonOf(job, series.files.get(step)![0]!.path).catch(() => undefined));
        if (isOpen && histogram) setRead((before) => new Map(before).set(step!, histogram));
      }
    };
    for (let n = 0; n < AT_ONCE; n += 1) void take();
    return () => void (isOpen = false);
  }, [series, at]);
  return read;
}

function draw(canvas: HTMLCanvasElement, all: Histogram[], [low, high]: [number, number], present: number): void {
  const scale = devicePixelRatio;
  [canvas.width, canvas.height] = [Math.max(1, Math.round(canvas.clientWidth * scale)), Math.round(HEIGHT * scale)];
  const context = canvas.getContext("2d")!;
  const style = getComputedStyle(canvas);
  context.fillStyle = style.getPropertyValue("--sunken").trim();
  context.fillRect(0, 0, canvas.width, canvas.height);
  // Whole pixels: cells that overlap would be darker there.
  const [left, top] = [(n: number) => Math.round((n * canvas.width) / all.length), (row: number) => Math.round(canvas.height * (1 - row / ROWS))];
  context.fillStyle = style.getPropertyValue("--accent").trim();
  all.forEach((histogram, n) => {
    const shares = sharesOf(histogram, low, high, ROWS);
    const most = Math.max(...shares, 1e-300);
    shares.forEach((share, row) => {
      if (!share) return;
      // By the root, so that tails can be seen beside the peak.
      context.globalAlpha = Math.sqrt(share / most);
      context.fillRect(left(n), top(row + 1), Math.max(1, left(n + 1) - left(n)), top(row) - top(row + 1));
    });
  });
  context.globalAlpha = 1;
  if (present < 0) return;
  context.strokeStyle = style.getPropertyValue("--line-1").trim();
  context.lineWidth = 2 * scale;
  context.strokeRect(left(present), 0, Math.max(left(present + 1) - left(present), 2 * scale), canvas.height);
}
