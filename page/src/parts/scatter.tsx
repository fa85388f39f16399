/** Points of jobs over one of their settings; each leads to its job. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { number, text } from "../format";
import { go, jobHref } from "../router";
import { scaleOf, type Scale } from "./parallel-scale";

/** isBest: it stands out. */
export interface ScatterPoint { job: string; x: unknown; y: number; isBest: boolean }

const HEIGHT = 300;
const [LEFT, RIGHT, TOP, BOTTOM] = [64, 16, 12, 26];
const [RADIUS, BEST_RADIUS] = [4, 6];
const MAX_LINKS = 300;
/** Points that are links of their own. More are drawn as one shape, in which the pointer finds the nearest: the page stays quick with thousands. */
const REACH_PX = 12;

interface Placed extends ScatterPoint { cx: number; cy: number }

/** noun: what one of the points is. isLogX, isLogY: undefined = where the values span more than two powers of ten. */
export function Scatter({ points, noun, xName, yName, isLogX, isLogY }: {
  points: ScatterPoint[]; noun: string; xName: string; yName: string; isLogX?: boolean | undefined; isLogY?: boolean | undefined;
}) {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(600);
  useEffect(() => {
    const watch = new ResizeObserver(() => box.current && setWidth(Math.max(200, box.current.clientWidth)));
    watch.observe(box.current!);
    return () => watch.disconnect();
  }, []);
  const [xs, ys] = [scaleOf(points.map((one) => one.x), number, isLogX), scaleOf(points.map((one) => one.y), number, isLogY)];
  const x = (share: number): number => LEFT + share * (width - LEFT - RIGHT);
  const y = (share: number): number => HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM);
  const placed = points.map((one): Placed => ({ ...one, cx: x(xs.at(one.x)), cy: y(ys.at(one.y)) }));
  const told = (one: ScatterPoint): string => `${one.job}: ${xName} ${text(one.x)}, ${yName} ${number(one.y)}`;
  const isShape = points.length > MAX_LINKS;
  const links = isShape ? placed.filter((one) => one.isBest) : placed.sort((a, b) => Number(a.isBest) - Number(b.isBest));
  return (
    <div ref={box} class="scatter">
      <svg width={width} height={HEIGHT} role="group" aria-label={`${yName} over ${xName}, ${points.length} ${noun}s; the table of ${noun}s has the same values`}>
        <Axes xs={xs} ys={ys} x={x} y={y} width={width} />
        {isShape && <Shape points={placed} told={told} width={width} />}
        {links.map((one) => (
          <a key={one.job} href={jobHref(one.job)} aria-label={told(one)}>
            <title>{told(one)}</title>
            <circle class={one.isBest ? "best-point" : ""} cx={one.cx} cy={one.cy} r={one.isBest ? BEST_RADIUS : RADIUS} />
          </a>
        ))}
      </svg>
    </div>
  );
}

/** Thousands of points as the dots of one line; the pointer names the nearest, and a click leads to it. */
function Shape({ points, told, width }: { points: Placed[]; told: (point: ScatterPoint) => string; width: number }) {
  const [near, setNear] = useState<Placed>();
  const dots = points.map((one) => `M${one.cx.toFixed(1)} ${one.cy.toFixed(1)}h0`).join("");
  // What was pointed at has another place after a change.
  useEffect(() => setNear(undefined), [dots]);
  const drawn = useMemo(() => <path class="scatter-dots" d={dots} stroke-width={RADIUS * 2} />, [dots]);
  const isRight = near && near.cx > width / 2;
  return (
    <g class={near ? "pointed" : ""} aria-hidden="true" onPointerLeave={() => setNear(undefined)} onClick={() => near && go(jobHref(near.job))}
      onPointerMove={(event) => {
        const { left, top } = event.currentTarget.ownerSVGElement!.getBoundingClientRect();
        setNear(nearest(points, event.clientX - left, event.clientY - top));
      }}>
      <rect class="scatter-ground" x={LEFT} y={0} width={width - LEFT} height={HEIGHT - BOTTOM} />
      {drawn}
      {near && <circle class="near-point" cx={near.cx} cy={near.cy} r={BEST_RADIUS} />}
      {near && <text class="near-text" x={near.cx + (isRight ? -10 : 10)} y={Math.max(near.cy - 10, TOP + 4)} text-anchor={isRight ? "end" : "start"}>{told(near)}</text>}
    </g>
  );
}

function nearest(points: Placed[], x: number, y: number): Placed | undefined {
  let [found, least]: [Placed | undefined, number] = [undefined, REACH_PX];
  for (const one of points) {
    const distance = Math.hypot(one.cx - x, one.cy - y);
    if (distance <= least) [found, least] = [one, distance];
  }
  return found;
}

function Axes({ xs, ys, x, y, width }: { xs: Scale; ys: Scale; x: (share: number) => number; y: (share: number) => number; width: number }) {
  return (
    <g class="scatter-axes" aria-hidden="true">
      {ys.ticks.map((tick) => (
        <g key={tick.label}><line x1={LEFT} x2={width - RIGHT} y1={y(tick.at)} y2={y(tick.at)} /><text x={LEFT - 6} y={y(tick.at) + 4} text-anchor="end">{tick.label}</text></g>
      ))}
      {xs.ticks.map((tick) => (
        <g key={tick.label}><line x1={x(tick.at)} x2={x(tick.at)} y1={TOP} y2={HEIGHT - BOTTOM} /><text x={x(tick.at)} y={HEIGHT - 8} text-anchor="middle">{tick.label}</text></g>
      ))}
    </g>
  );
}
