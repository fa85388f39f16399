/** A curve as small as a word. */

import { drawable } from "../format";

export function Sparkline({ steps, values, width = 72, height = 20 }: {
  steps: number[]; values: (number | string)[]; width?: number; height?: number;
}) {
  const byStep = new Map<number, number>();
  steps.forEach((step, n) => {
    const value = drawable(values[n] ?? "");
    if (value !== null) byStep.set(step, value);
  });
  // A job that was restarted has logged steps again.
  const points = [...byStep].sort((a, b) => a[0] - b[0]);
  if (points.length < 2) return <svg class="sparkline" width={width} height={height} aria-hidden="true" />;
  const xs = points.map(([x]) => x);
  const ys = points.map(([, y]) => y);
  const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const at = ([x, y]: readonly [number, number]) =>
    `${(1.5 + ((x - left) / (right - left || 1)) * (width - 3)).toFixed(1)} ${(height - 2 - ((y - low) / (high - low || 1)) * (height - 4)).toFixed(1)}`;
  return (
    <svg class="sparkline" width={width} height={height} viewBox={`0 0 ${width} ${height}`} aria-hidden="true">
      <path d={`M${points.map(at).join("L")}`} fill="none" stroke="currentColor" stroke-width="1.4" stroke-linejoin="round" />
    </svg>
  );
}
