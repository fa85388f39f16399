/** Parallel coordinates by ECharts: only what this needs of it, loaded on the screen of a sweep alone. */

import { ParallelChart } from "echarts/charts";
import { ParallelComponent, VisualMapComponent } from "echarts/components";
import { init, use } from "echarts/core";
import { CanvasRenderer } from "echarts/renderers";
import type { Trial } from "../types";

use([ParallelChart, ParallelComponent, VisualMapComponent, CanvasRenderer]);

export interface ParallelInput {
  names: string[]; metric: string; isUp: boolean; trials: Trial[]; onChosen: (rows: number[]) => void;
}

/** Draws into an element; returns what removes it. */
export function drawParallel(element: HTMLElement, input: ParallelInput): () => void {
  const chart = init(element, undefined, { renderer: "canvas" });
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const draw = () => chart.setOption(optionOf(input), { notMerge: true });
  draw();
  chart.on("axisareaselected", () => {
    // The event itself has no rows; the series knows which lie within the chosen parts of all axes.
    const series = (chart as unknown as { getModel(): { getSeries(): { getRawIndicesByActiveState(state: string): number[] }[] } }).getModel().getSeries()[0];
    const active = series?.getRawIndicesByActiveState("active") ?? [];
    input.onChosen([...active]);
  });
  scheme.addEventListener("change", draw);
  const watch = new ResizeObserver(() => chart.resize());
  watch.observe(element);
  return () => {
    watch.disconnect();
    scheme.removeEventListener("change", draw);
    chart.dispose();
  };
}

function optionOf({ names, metric, isUp, trials }: ParallelInput): Record<string, unknown> {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const rows = trials.map((trial) => [...names.map((name) => cellOf(trial.parameters[name])), trial.value]);
  const values = trials.map((trial) => trial.value!).sort((a, b) => a - b);
  const columns = [...names, metric];
  return {
    animation: false,
    textStyle: { fontFamily: colour("--sans"), color: colour("--text") },
    visualMap: {
      show: false, dimension: names.length, min: values[0], max: values.at(-1),
      inRange: { color: isUp ? [colour("--faint"), colour("--accent")] : [colour("--accent"), colour("--faint")] },
    },
    parallel: { left: 50, right: 70, top: 40, bottom: 24, parallelAxisDefault: axisLook(colour) },
    parallelAxis: columns.map((name, dim) => ({ dim, name, ...axisOf(rows.map((row) => row[dim])) })),
    series: { type: "parallel", lineStyle: { width: 1.6, opacity: 0.75 }, inactiveOpacity: 0.06, activeOpacity: 1, data: rows },
  };
}

const cellOf = (value: unknown): number | string =>
  typeof value === "number" ? value : typeof value === "string" ? value : (JSON.stringify(value) ?? "–");

function axisOf(cells: unknown[]): Record<string, unknown> {
  if (cells.some((cell) => typeof cell !== "number")) return { type: "category", data: [...new Set(cells.map(String))] };
  const numbers = cells as number[];
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  // Settings that span more than two powers of ten were drawn from a logarithmic space.
  return low > 0 && high / low > 100 ? { type: "log", logBase: 10, min: low, max: high } : { type: "value", scale: true };
}

function axisLook(colour: (name: string) => string): Record<string, unknown> {
  const text = { color: colour("--muted"), fontSize: 11 };
  return {
    nameTextStyle: { color: colour("--text"), fontSize: 12, fontWeight: 600 }, nameGap: 14,
    axisLine: { lineStyle: { color: colour("--line"), width: 1.5 } }, axisTick: { show: false }, axisLabel: text,
    splitLine: { show: false },
    areaSelectStyle: { width: 18, borderColor: colour("--accent"), color: colour("--accent"), opacity: 0.2 },
  };
}
