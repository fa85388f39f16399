/** Ranks as rows over time, as dark as they are busy: the one that is idle, or slow, is a pale stripe. */

import { useEffect, useRef, useState } from "preact/hooks";
import { clock, counted } from "../../format";
import { go, jobHref } from "../../router";
import { amount, type Heat, type HeatRow } from "./resource-panels";

const HEIGHTS: [number, number][] = [[32, 16], [128, 8], [Infinity, 4]];
/** Up to how many rows each is so many pixels high. */
const LABEL_HEIGHT = 15;
const LEAST_ALPHA = 0.06;
const LISTED = 20;

/** start: in seconds. partS: the seconds of each column. */
export function HeatStrip({ job, heat, start, partS }: { job: string; heat: Heat; start: number; partS: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [pointed, setPointed] = useState<{ row: HeatRow; part: number }>();
  const { rows } = heat;
  const rowHeight = HEIGHTS.find(([most]) => rows.length <= most)![1];
  const height = rowHeight * rows.length;
  const parts = rows[0]?.values.length ?? 0;
  useEffect(() => {
    const draw = () => drawHeat(canvas.current!, heat, rowHeight);
    draw();
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", draw);
    const watch = new ResizeObserver(draw);
    watch.observe(canvas.current!);
    return () => {
      scheme.removeEventListener("change", draw);
      watch.disconnect();
    };
  }, [heat, rowHeight]);
  const rowAt = (event: PointerEvent | MouseEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    const row = rows[Math.floor(((event.clientY - box.top) / box.height) * rows.length)];
    const part = Math.min(parts - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * parts)));
    return { row: row ?? rows.at(-1)!, part };
  };
  const text = (value: number | null) => (value === null ? "not measured" : amount(value, heat.unit));
  const order = [...rows].sort((a, b) => (a.mean ?? 0) - (b.mean ?? 0));
  return (
    <>
      <div class="heat">
        <div class="heat-labels" style={{ height: `${height}px` }}>
          {labelled(rows, rowHeight).map((n) => (
            <span key={n} class={rows[n]!.isIdle ? "tone-wait" : "muted"} style={{ top: `${(n + 0.5) * rowHeight}px` }}>
              {rows[n]!.isIdle && <strong>idle </strong>}{rows[n]!.label}
            </span>
          ))}
        </div>
        <canvas ref={canvas} role="img" style={{ height: `${height}px` }}
          aria-label={`${heat.measure} of ${counted(rows.length, rows[0]!.rank < 0 ? "GPU" : "rank")} over time; least: ${order.slice(0, 3).map((row) => `${row.label}, ${text(row.mean)}`).join("; ")}`}
          onClick={(event) => go(logOf(job, rowAt(event).row))}
          onPointerMove={(event) => setPointed(rowAt(event))} onPointerLeave={() => setPointed(undefined)} />
        <div class="heat-times muted number"><span>{clock(start * 1000)}</span><span>{clock((start + parts * partS) * 1000)}</span></div>
      </div>
      <p class="heat-word muted">
        {pointed
          ? <><strong>{pointed.row.label}</strong> at {clock((start + (pointed.part + 0.5) * partS) * 1000)}: {text(pointed.row.values[pointed.part] ?? null)}</>
          : <>{heat.measure}: from none, pale, to {amount(heat.highest, heat.unit)}, dark; what is empty wasn't measured</>}
      </p>
      <details>
        <summary>Means, the least first</summary>
        <table class="plain heat-table">
          <tbody>
            {order.slice(0, LISTED).map((row) => (
              <tr key={row.label}><th scope="row"><a href={logOf(job, row)}>{row.label}</a></th><td class="right number">{text(row.mean)}</td></tr>
            ))}
          </tbody>
        </table>
        {order.length > LISTED && <p class="muted">and {order.length - LISTED} more</p>}
      </details>
    </>
  );
}

const logOf = (job: string, row: HeatRow): string =>
  jobHref(job, { tab: "logs", ...(row.rank >= 0 ? { rank: String(row.rank) } : { node: String(-1 - row.rank), rank: "node" }) });

/** The rows whose labels have room: every so many, and those that are idle before their neighbours. */
export function labelled(rows: { isIdle: boolean }[], rowHeight: number): number[] {
  const apart = Math.ceil(LABEL_HEIGHT / rowHeight);
  const chosen: number[] = [];
  const take = (n: number) => {
    if (chosen.every((other) => Math.abs(other - n) >= apart)) chosen.push(n);
  };
  rows.forEach((row, n) => row.isIdle && take(n));
  for (let n = 0; n < rows.length; n += apart) take(n);
  return chosen.sort((a, b) => a - b);
}

function drawHeat(canvas: HTMLCanvasElement, { rows, highest }: Heat, rowHeight: number): void {
  const parts = rows[0]?.values.length ?? 0;
  const [width, height] = [canvas.clientWidth * devicePixelRatio, rows.length * rowHeight * devicePixelRatio];
  if (!width || !parts) return;
  [canvas.width, canvas.height] = [Math.round(width), Math.round(height)];
  const context = canvas.getContext("2d")!;
  context.fillStyle = getComputedStyle(canvas).getPropertyValue("--line-0");
  const [w, h] = [canvas.width / parts, canvas.height / rows.length];
  const gap = h >= 6 * devicePixelRatio ? devicePixelRatio : 0;
  rows.forEach((row, n) => row.values.forEach((value, part) => {
    if (value === null) return;
    context.globalAlpha = LEAST_ALPHA + (1 - LEAST_ALPHA) * Math.min(1, highest > 0 ? Math.max(0, value) / highest : 0);
    const left = Math.floor(part * w);
    context.fillRect(left, Math.floor(n * h), Math.ceil((part + 1) * w) - left, Math.floor((n + 1) * h) - Math.floor(n * h) - gap);
  }));
}
