/** Points of jobs over one of their settings; each leads to its job. */

import { useEffect, useRef, useState } from "preact/hooks";
import { number, text } from "../format";
import { jobHref } from "../router";
import { scaleOf, type Scale } from "./parallel-scale";

/** isBest: it stands out. */
export interface ScatterPoint { job: string; x: unknown; y: number; isBest: boolean }

const HEIGHT = 300;
const [LEFT, RIGHT, TOP, BOTTOM] = [64, 16, 12, 26];
const [RADIUS, BEST_RADIUS] = [4, 6];

/** isLogX, isLogY: undefined = where the values span more than two powers of ten. */
export function Scatter({ points, xName, yName, isLogX, isLogY }: { points: ScatterPoint[]; xName: string; yName: string; isLogX?: boolean | undefined; isLogY?: boolean | undefined }) {
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
  const ordered = [...points].sort((a, b) => Number(a.isBest) - Number(b.isBest));
  return (
    <div ref={box} class="scatter">
      <svg width={width} height={HEIGHT} role="group" aria-label={`${yName} over ${xName}, ${points.length} trials; the table of trials has the same values`}>
        <Axes xs={xs} ys={ys} x={x} y={y} width={width} />
        {ordered.map((one) => (
          <a key={one.job} href={jobHref(one.job)} aria-label={`${one.job}: ${xName} ${text(one.x)}, ${yName} ${number(one.y)}`}>
            <title>{`${one.job}: ${xName} ${text(one.x)}, ${yName} ${number(one.y)}`}</title>
            <circle class={one.isBest ? "best-point" : ""} cx={x(xs.at(one.x))} cy={y(ys.at(one.y))} r={one.isBest ? BEST_RADIUS : RADIUS} />
          </a>
        ))}
      </svg>
    </div>
  );
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
