/** The pointer over many lines: the nearest one is drawn thick, and a box has the names and values of those around it, sorted by value. */

import type uPlot from "uplot";
import { number, whole } from "../format";

const SHOWN = 13;
/** Lines in the box. */
const REACH = 400;
/** Points to each side in which a line without a value at the pointer is looked for. */

const [GAP, EDGE] = [14, 8];

export interface Pointed { series: number; value: number }

/** The value of each line at a point of x, that of its nearest point where it has none there; sorted, the largest first. */
export function valuesAt(data: uPlot.AlignedData, idx: number, count: number): Pointed[] {
  const found: Pointed[] = [];
  for (let series = 1; series <= count; series += 1) {
    const value = nearestValue(data[series]!, idx);
    if (value !== undefined) found.push({ series, value });
  }
  return found.sort((a, b) => b.value - a.value);
}

function nearestValue(values: ArrayLike<number | null | undefined>, idx: number): number | undefined {
  for (let by = 0; by <= REACH; by += 1) {
    const value = values[idx - by] ?? values[idx + by];
    if (value != null) return value;
    // Beyond its first or last point a line has no value.
    if (idx - by < 0 && idx + by >= values.length) return undefined;
  }
  return undefined;
}

/** The part of the sorted lines that the box shows: those around the nearest one. */
export function around(sorted: Pointed[], nearest: number, shown = SHOWN): [number, number] {
  const at = Math.max(0, sorted.findIndex((one) => one.series === nearest));
  const from = Math.max(0, Math.min(at - Math.floor(shown / 2), sorted.length - shown));
  return [from, Math.min(sorted.length, from + shown)];
}

export interface PointerLook {
  /** Of a line, counted from 0: its name, and what sets it apart. */
  labelOf: (line: number) => { name: string; note: string };
  colourOf: (line: number) => string;
  /** The line that stays thick when the pointer is elsewhere; -1 = none. */
  pinned: { current: number };
  pin: (line: number) => void;
}

/** A plugin for the first `count` lines of a plot. */
export function linePointer(count: number, look: PointerLook): uPlot.Plugin {
  const box = document.createElement("div");
  const canvas = document.createElement("canvas");
  box.className = "line-box";
  box.hidden = true;
  canvas.className = "line-thick";
  canvas.setAttribute("aria-hidden", "true");
  let nearest = 0;

  const draw = (plot: uPlot) => {
    const { width, height, left, top } = plot.bbox;
    if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
    const context = canvas.getContext("2d")!;
    context.clearRect(0, 0, width, height);
    for (const series of new Set([look.pinned.current + 1, nearest])) {
      const values = plot.data[series];
      if (series < 1 || series > count || !values) continue;
      context.strokeStyle = look.colourOf(series - 1);
      context.lineWidth = 3 * devicePixelRatio;
      context.lineJoin = "round";
      context.beginPath();
      let isOpen = false;
      for (let n = 0; n < values.length; n += 1) {
        const value = values[n];
        // A gap of the common x is none of the line's.
        if (value === undefined) continue;
        if (value === null) isOpen = false;
        else {
          const [x, y] = [plot.valToPos(plot.data[0][n]!, "x", true) - left, plot.valToPos(value, "y", true) - top];
          if (isOpen) context.lineTo(x, y);
          else context.moveTo(x, y);
          isOpen = true;
        }
      }
      context.stroke();
    }
  };

  const leave = (plot: uPlot) => {
    box.hidden = true;
    nearest = 0;
    draw(plot);
  };

  const point = (plot: uPlot) => {
    const { idx, left = -1, top = -1 } = plot.cursor;
    if (idx == null || left < 0 || !plot.over.matches(":hover")) return leave(plot);
    const sorted = valuesAt(plot.data, idx, count);
    if (!sorted.length) return leave(plot);
    const distance = (one: Pointed) => Math.abs(plot.valToPos(one.value, "y") - top);
    nearest = sorted.reduce((best, one) => (distance(one) < distance(best) ? one : best)).series;
    draw(plot);
    const [from, to] = around(sorted, nearest);
    const rows = sorted.slice(from, to).map((one) => {
      const { name, note } = look.labelOf(one.series - 1);
      return row(look.colourOf(one.series - 1), name, note, number(one.value, 5), one.series === nearest);
    });
    box.replaceChildren(
      text("p", `step ${whole(plot.data[0][idx]!)}`, "muted"),
      ...(from > 0 ? [text("p", `${whole(from)} above`, "muted")] : []),
      ...rows,
      ...(to < sorted.length ? [text("p", `${whole(sorted.length - to)} below`, "muted")] : []),
    );
    box.hidden = false;
    // Beside the pointer, and within the window.
    const [edge, width] = [plot.over.getBoundingClientRect().left, box.offsetWidth];
    const at = edge + left + GAP + width > innerWidth - EDGE ? left - GAP - width : left + GAP;
    box.style.left = `${Math.max(at, EDGE - edge)}px`;
  };

  return {
    hooks: {
      init: (plot) => {
        plot.over.append(canvas, box);
        plot.over.addEventListener("click", () => nearest > 0 && look.pin(nearest - 1));
        plot.over.addEventListener("mouseleave", () => leave(plot));
      },
      setCursor: point,
      draw,
    },
  };
}

function text(tag: string, content: string, kind: string): HTMLElement {
  const element = document.createElement(tag);
  element.className = kind;
  element.textContent = content;
  return element;
}

function row(colour: string, name: string, note: string, value: string, isNearest: boolean): HTMLElement {
  const element = text("div", "", isNearest ? "line-row nearest" : "line-row");
  const swatch = text("span", "", "line-swatch");
  swatch.style.background = colour;
  element.append(swatch, text("span", name, "line-name"), ...(note ? [text("span", note, "muted line-note")] : []), text("span", value, "number"));
  return element;
}
