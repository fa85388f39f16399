/** Parallel coordinates on a canvas: a line for each run, and parts of axes that are chosen by dragging. */

import { number } from "../format";
import type { PanelRun } from "./run-panels/run-set";
import { scaleOf, type Scale } from "./parallel-scale";

const [LEFT, RIGHT, TOP, BOTTOM] = [14, 74, 40, 18];
const BUCKETS = 24;
/** Shades of lines by their run's value: lines of one shade are drawn together. */
const REACH_PX = 16;
/** How near to an axis dragging begins. */
const HOVER_PX = 6;
const MIN_DRAG_PX = 4;
const MAX_WIDE = 2500;
/** Points of all lines together, up to which a line is wider than a pixel: browsers draw those much slower. */
const FAINT = 0.07;

export interface ParallelInput {
  names: string[]; metric: string; isUp: boolean; runs: PanelRun[];
  onChosen: (rows: number[] | undefined) => void; onHover: (row: number | undefined) => void;
}

/** Draws into an element; returns what removes it. */
export function drawParallel(element: HTMLElement, input: ParallelInput): () => void {
  const chart = new ParallelChart(element, input);
  return () => chart.close();
}

interface Axis { name: string; scale: Scale; places: number[]; chosen: [number, number] | undefined }

class ParallelChart {
  private readonly canvas = document.createElement("canvas");
  /** The lines, drawn again only when they change: what follows the pointer is drawn over them. */
  private readonly lines = document.createElement("canvas");
  private hasLines = false;
  private readonly axes: Axis[];
  private readonly order: number[];
  private readonly shades: number[];
  private readonly scheme = matchMedia("(prefers-color-scheme: dark)");
  private readonly watch: ResizeObserver;
  private width = 0;
  private height = 0;
  private frame = 0;
  private dragged: { axis: Axis; from: number; to: number } | undefined;
  private hovered: number | undefined;

  constructor(private readonly element: HTMLElement, private readonly input: ParallelInput) {
    const { names, metric, runs, isUp } = input;
    const columns = [...names.map((name) => [name, runs.map((one) => one.parameters[name])] as const), [metric, runs.map((one) => one.value)] as const];
    this.axes = columns.map(([name, cells]) => {
      const scale = scaleOf(cells, number);
      return { name, scale, places: cells.map(scale.at), chosen: undefined };
    });
    // The share of the way from the worst run to the best, by rank: a few outliers don't take the colours from the others.
    const ranked = runs.map((_, n) => n).sort((a, b) => (isUp ? 1 : -1) * (runs[a]!.value! - runs[b]!.value!));
    this.order = ranked;
    this.shades = [];
    ranked.forEach((row, n) => (this.shades[row] = Math.round((n / Math.max(ranked.length - 1, 1)) * (BUCKETS - 1))));
    element.append(this.canvas);
    this.watch = new ResizeObserver(() => this.resize());
    this.watch.observe(element);
    this.scheme.addEventListener("change", this.changed);
    this.canvas.addEventListener("pointerdown", this.pressed);
    this.canvas.addEventListener("pointermove", this.moved);
    this.canvas.addEventListener("pointerup", this.released);
    this.canvas.addEventListener("pointerleave", this.left);
    this.resize();
  }

  close(): void {
    cancelAnimationFrame(this.frame);
    this.watch.disconnect();
    this.scheme.removeEventListener("change", this.changed);
    this.canvas.remove();
  }

  private resize(): void {
    const { clientWidth, clientHeight } = this.element;
    if (!clientWidth || (clientWidth === this.width && clientHeight === this.height)) return;
    [this.width, this.height] = [clientWidth, clientHeight];
    for (const one of [this.canvas, this.lines]) [one.width, one.height] = [clientWidth * devicePixelRatio, clientHeight * devicePixelRatio];
    this.hasLines = false;
    this.draw();
  }

  /** Draws the lines anew. */
  private readonly changed = (): void => {
    this.hasLines = false;
    this.soon();
  };

  private readonly soon = (): void => {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.draw());
  };

  private x(n: number): number {
    return LEFT + (n * (this.width - LEFT - RIGHT)) / Math.max(this.axes.length - 1, 1);
  }

  private y(place: number): number {
    return TOP + (1 - place) * (this.height - TOP - BOTTOM);
  }

  private placeAt(y: number): number {
    return Math.min(Math.max(1 - (y - TOP) / (this.height - TOP - BOTTOM), 0), 1);
  }

  private isActive(row: number): boolean {
    return this.axes.every(({ chosen, places }) => !chosen || (places[row]! >= chosen[0] && places[row]! <= chosen[1]));
  }

  private draw(): void {
    const context = this.canvas.getContext("2d")!;
    const style = getComputedStyle(document.documentElement);
    const colour = (name: string) => style.getPropertyValue(name).trim();
    if (!this.hasLines) this.drawLines(this.lines.getContext("2d")!, colour("--faint"), colour("--accent"));
    this.hasLines = true;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.drawImage(this.lines, 0, 0);
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    context.lineJoin = "round";
    if (this.hovered !== undefined) {
      context.globalAlpha = 1;
      context.lineWidth = 3;
      context.strokeStyle = colour("--text");
      context.stroke(this.path([this.hovered]));
    }
    this.axes.forEach((axis, n) => this.drawAxis(context, axis, n, colour));
  }

  private drawLines(context: CanvasRenderingContext2D, worst: string, best: string): void {
    const active: number[][] = Array.from({ length: BUCKETS }, () => []);
    const others: number[] = [];
    for (const row of this.order) (this.isActive(row) ? active[this.shades[row]!]! : others).push(row);
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    context.lineJoin = "round";
    context.lineWidth = this.order.length * this.axes.length > MAX_WIDE ? 1 / devicePixelRatio : 1.5;
    context.globalAlpha = FAINT;
    context.strokeStyle = worst;
    context.stroke(this.path(others));
    context.globalAlpha = this.order.length > 200 ? 0.6 : 0.8;
    active.forEach((rows, n) => {
      if (!rows.length) return;
      context.strokeStyle = mixed(worst, best, (n / (BUCKETS - 1)) ** 2);
      context.stroke(this.path(rows));
    });
  }

  private path(rows: number[]): Path2D {
    const path = new Path2D();
    const xs = this.axes.map((_, n) => this.x(n));
    for (const row of rows) this.axes.forEach((axis, n) => (n ? path.lineTo(xs[n]!, this.y(axis.places[row]!)) : path.moveTo(xs[n]!, this.y(axis.places[row]!))));
    return path;
  }

  private drawAxis(context: CanvasRenderingContext2D, axis: Axis, n: number, colour: (name: string) => string): void {
    const x = this.x(n);
    const sans = colour("--sans");
    context.globalAlpha = 1;
    context.fillStyle = colour("--line");
    context.fillRect(x - 0.75, this.y(1), 1.5, this.y(0) - this.y(1));
    if (axis.chosen) {
      const [low, high] = axis.chosen;
      context.fillStyle = colour("--accent");
      context.globalAlpha = 0.25;
      context.fillRect(x - 8, this.y(high), 16, this.y(low) - this.y(high));
      context.globalAlpha = 1;
      context.strokeStyle = colour("--accent");
      context.lineWidth = 1;
      context.strokeRect(x - 8, this.y(high), 16, this.y(low) - this.y(high));
    }
    context.textBaseline = "middle";
    context.textAlign = "left";
    context.font = `11px ${sans}`;
    // A ground behind the letters: lines cross them.
    context.strokeStyle = colour("--surface");
    context.lineWidth = 3;
    context.fillStyle = colour("--muted");
    for (const tick of axis.scale.ticks) {
      const label = shortened(tick.label, 14);
      context.strokeText(label, x + 7, this.y(tick.at));
      context.fillText(label, x + 7, this.y(tick.at));
    }
    context.font = `600 12px ${sans}`;
    context.fillStyle = colour("--text");
    context.textAlign = n === 0 ? "left" : "center";
    context.fillText(shortened(axis.name, 22), n === 0 ? 2 : x, 16);
  }

  private axisNear(x: number): Axis | undefined {
    return this.axes.find((_, n) => Math.abs(this.x(n) - x) <= REACH_PX);
  }

  private readonly pressed = (event: PointerEvent): void => {
    const axis = this.axisNear(event.offsetX);
    if (!axis || event.button !== 0) return;
    this.dragged = { axis, from: event.offsetY, to: event.offsetY };
    this.canvas.setPointerCapture(event.pointerId);
  };

  private readonly moved = (event: PointerEvent): void => {
    if (this.dragged) {
      const { axis, from } = this.dragged;
      this.dragged.to = event.offsetY;
      const ends = [this.placeAt(from), this.placeAt(event.offsetY)].sort((a, b) => a - b) as [number, number];
      axis.chosen = Math.abs(event.offsetY - from) < MIN_DRAG_PX ? undefined : ends;
      this.changed();
      return;
    }
    const isAxis = this.axisNear(event.offsetX) !== undefined;
    this.canvas.style.cursor = isAxis ? "crosshair" : "";
    this.hover(isAxis ? undefined : this.nearest(event.offsetX, event.offsetY));
  };

  private readonly released = (): void => {
    if (!this.dragged) return;
    const { axis, from, to } = this.dragged;
    this.dragged = undefined;
    if (Math.abs(to - from) < MIN_DRAG_PX) axis.chosen = undefined;
    this.changed();
    const isAll = this.axes.every((one) => !one.chosen);
    this.input.onChosen(isAll ? undefined : this.input.runs.map((_, row) => row).filter((row) => this.isActive(row)));
  };

  private readonly left = (): void => this.hover(undefined);

  private hover(row: number | undefined): void {
    if (row === this.hovered) return;
    this.hovered = row;
    this.input.onHover(row);
    this.soon();
  }

  /** The line under the pointer, the best of those that are equally near. */
  private nearest(x: number, y: number): number | undefined {
    const n = this.axes.findIndex((_, at) => at + 1 < this.axes.length && x >= this.x(at) && x <= this.x(at + 1));
    if (n < 0) return undefined;
    const share = (x - this.x(n)) / (this.x(n + 1) - this.x(n));
    let [found, least]: [number | undefined, number] = [undefined, HOVER_PX];
    for (const row of this.order) {
      const place = this.axes[n]!.places[row]! * (1 - share) + this.axes[n + 1]!.places[row]! * share;
      const distance = Math.abs(this.y(place) - y);
      if (distance <= least && this.isActive(row)) [found, least] = [row, distance];
    }
    return found;
  }
}

const shortened = (text: string, most: number): string => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

/** A colour between two that are written as #rrggbb. */
function mixed(one: string, other: string, share: number): string {
  const parts = [1, 3, 5].map((at) => {
    const [from, to] = [one, other].map((colour) => Number.parseInt(colour.slice(at, at + 2), 16)) as [number, number];
    return Math.round(from + (to - from) * share);
  });
  return `rgb(${parts.join(" ")})`;
}
