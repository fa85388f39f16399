/** Which panels show what nodes and ranks use, with which units, axes and headers: pure. */

import { counted, number, size } from "../../format";
import type { ChartLine } from "../../parts/chart";
import type { ResourceSeries } from "../../types";

export type Unit = "percent" | "mib" | "mib_s" | "cores" | "power_w" | "temperature_c" | "";
const UNITS: Unit[] = ["percent", "mib_s", "mib", "cores", "power_w", "temperature_c"];
const MIB = 2 ** 20;

/** What a measurement's name says of its unit. */
export const unitOf = (name: string): Unit => UNITS.find((unit) => unit === name || name.endsWith(`_${unit}`)) ?? "";

/** A value with its unit, as one reads it. */
export function amount(value: number, unit: Unit): string {
  switch (unit) {
    case "percent": return `${value < 10 && value > 0 ? value.toFixed(1) : value.toFixed(0)} %`;
    case "mib": return size(value * MIB);
    case "mib_s": return `${size(value * MIB)}/s`;
    case "cores": return `${value.toFixed(2)} cores`;
    case "power_w": return `${value.toFixed(0)} W`;
    case "temperature_c": return `${value.toFixed(0)} °C`;
    default: return number(value);
  }
}

/** title: what is drawn. of: whose it is. header: the value that stands for all; note: what else is known of it. */
export interface ResourceChart {
  title: string; of: "nodes" | "ranks"; lines: ChartLine[]; band: [ChartLine, ChartLine] | undefined;
  /** The unit of the axis, in which the lines are. */
  unit: string;
  /** The upper end of the axis; that of the values where it is undefined. */
  top: number | undefined; header: string; note: string;
}
export interface ResourcePanel { title: string; charts: ResourceChart[] }

export const MAX_LINES = 8;
/** More are drawn as their mean within the lowest and the highest. */

/** What of a node or a rank a chart is made of. capacity: of which the values are a part. */
interface Reading { label: string; values: (number | null)[]; last: number; highest: number; capacity?: number }

const place = (rank: number): string => (rank < 0 ? `node ${-1 - rank}` : `rank ${rank}`);

/** The whole of what a share is known of: 23.5 GiB where 3.2 GiB are 13.6 %. */
export function capacityOf(part: number, percent: number | undefined): number | undefined {
  return percent && percent > 0 && percent <= 100 && part > 0 ? (100 * part) / percent : undefined;
}

const GPU = /^gpu_(.+?)_(percent|memory_mib|memory_percent|power_w|temperature_c)$/;

/** The panels of all measurements; those without any are left out. x: the middle of each part of the time, in seconds. */
export function panelsOf(series: ResourceSeries[], x: number[]): ResourcePanel[] {
  const own = (name: string, isNode: boolean, label = (rank: number) => place(rank)): Reading[] =>
    series.filter((one) => one.name === name && one.rank < 0 === isNode).sort((a, b) => (isNode ? b.rank - a.rank : a.rank - b.rank))
      .map((one) => ({ label: label(one.rank), values: one.values, last: one.last, highest: one.highest }));
  const last = (name: string, rank: number) => series.find((one) => one.name === name && one.rank === rank)?.last;
  const hasOneNode = new Set(series.filter((one) => one.rank < 0).map((one) => one.rank)).size < 2;
  const ofGpus = (what: string): Reading[] =>
    series.flatMap((one) => {
      const match = one.rank < 0 ? GPU.exec(one.name) : null;
      if (match?.[2] !== what) return [];
      const capacity = what === "memory_mib" ? capacityOf(one.last, last(`gpu_${match[1]}_memory_percent`, one.rank)) : undefined;
      const label = `${hasOneNode ? "" : `${place(one.rank)} `}GPU ${match[1]}`;
      return [{ label, values: one.values, last: one.last, highest: one.highest, ...(capacity ? { capacity } : {}) }];
    }).sort((a, b) => a.label.localeCompare(b.label, "en", { numeric: true }));
  const memory = series.filter((one) => one.name === "memory_mib" && one.rank < 0).sort((a, b) => b.rank - a.rank).map((one): Reading => {
    const capacity = capacityOf(one.last, last("memory_percent", one.rank));
    return { label: place(one.rank), values: one.values, last: one.last, highest: one.highest, ...(capacity ? { capacity } : {}) };
  });
  const chart = (title: string, of: "nodes" | "ranks", unit: Unit, readings: Reading[], isDirected = false) =>
    (readings.length ? [chartOf(title, of, unit, readings, x, isDirected)] : []);
  const panels: ResourcePanel[] = [
    { title: "CPU", charts: [...chart("CPU in use", "nodes", "percent", own("cpu_percent", true)), ...chart("CPU cores in use", "ranks", "cores", own("cpu_cores", false))] },
    { title: "Memory", charts: [...chart("memory in use", "nodes", "mib", memory), ...chart("memory in use", "ranks", "mib", own("memory_mib", false))] },
    {
      title: "GPU",
      charts: [
        ...chart("GPUs busy", "nodes", "percent", ofGpus("percent")), ...chart("GPUs busy", "ranks", "percent", own("gpu_percent", false)),
        ...chart("GPU memory in use", "nodes", "mib", ofGpus("memory_mib")), ...chart("GPU memory in use", "ranks", "mib", own("gpu_memory_mib", false)),
        ...chart("GPU power", "nodes", "power_w", ofGpus("power_w")), ...chart("GPU temperature", "nodes", "temperature_c", ofGpus("temperature_c")),
      ],
    },
    {
      title: "Disk",
      charts: [
        ...chart("disk in use", "nodes", "mib", diskOf(series)),
        ...chart("read from disks", "ranks", "mib_s", own("disk_read_mib_s", false)), ...chart("written to disks", "ranks", "mib_s", own("disk_written_mib_s", false)),
      ],
    },
    {
      title: "Network",
      charts: hasOneNode
        ? chart("network", "nodes", "mib_s", [...own("network_received_mib_s", true, () => "received"), ...own("network_sent_mib_s", true, () => "sent")], true)
        : [...chart("received from the network", "nodes", "mib_s", own("network_received_mib_s", true)), ...chart("sent to the network", "nodes", "mib_s", own("network_sent_mib_s", true))],
    },
  ];
  return panels.filter((panel) => panel.charts.length);
}

/** What is in use of each node's disk: measured is what is free, and the share that is in use. */
function diskOf(series: ResourceSeries[]): Reading[] {
  return series.filter((one) => one.name === "disk_free_mib" && one.rank < 0).sort((a, b) => b.rank - a.rank).flatMap((free) => {
    const percent = series.find((one) => one.name === "disk_percent" && one.rank === free.rank);
    const capacity = percent && percent.last < 100 ? (100 * free.last) / (100 - percent.last) : undefined;
    if (!percent || !capacity) return [];
    const used = (share: number) => (share * capacity) / 100;
    return [{ label: place(free.rank), values: percent.values.map((one) => (one === null ? null : used(one))), last: used(percent.last), highest: used(percent.highest), capacity }];
  });
}

/** isDirected: the readings are of different things, each with a value of its own. */
function chartOf(title: string, of: "nodes" | "ranks", unit: Unit, readings: Reading[], x: number[], isDirected: boolean): ResourceChart {
  const capacities = readings.flatMap((one) => one.capacity ?? []);
  const capacity = capacities.length ? Math.max(...capacities) : undefined;
  const axis = axisOf(unit, capacity ?? Math.max(0, ...readings.map((one) => one.highest)));
  const scaled = (values: (number | null)[]) => values.map((one) => (one === null ? null : one / axis.divisor));
  const group = readings.length > MAX_LINES ? groupOf(readings) : undefined;
  const lines: ChartLine[] = (group ? [group.mean] : readings).map((one) => ({ label: one.label, x, y: scaled(one.values) }));
  const top = unit === "percent" ? 100 : capacity && capacity / axis.divisor;
  if (capacity) lines.push({ label: "capacity", x, y: x.map(() => top!), isLimit: true });
  return {
    title, of, unit: axis.unit, lines, band: group && [{ label: "", x, y: scaled(group.low) }, { label: "", x, y: scaled(group.high) }],
    top, ...headerOf(readings, unit, isDirected),
  };
}

const SIZES = ["MiB", "GiB", "TiB", "PiB"];
const AXIS_UNITS: Partial<Record<Unit, string>> = { percent: "%", power_w: "W", temperature_c: "°C" };

/** The unit of an axis that goes up to a value, and what the values are divided by for it. */
export function axisOf(unit: Unit, top: number): { unit: string; divisor: number } {
  if (unit !== "mib" && unit !== "mib_s") return { unit: AXIS_UNITS[unit] ?? "", divisor: 1 };
  const power = Math.min(SIZES.length - 1, Math.max(0, Math.floor(Math.log2(Math.max(top, 1)) / 10)));
  return { unit: SIZES[power]! + (unit === "mib_s" ? "/s" : ""), divisor: 1024 ** power };
}

/** Of one node or rank its own value; of several their mean, and which has most. */
function headerOf(readings: Reading[], unit: Unit, isDirected: boolean): { header: string; note: string } {
  const text = (value: number, capacity?: number) => amount(value, unit) + (capacity ? ` of ${amount(capacity, unit)}` : "");
  if (isDirected) return { header: readings.map((one) => `${one.label} ${text(one.last)}`).join(", "), note: `at most ${readings.map((one) => text(one.highest)).join(", ")}` };
  if (readings.length === 1) return { header: text(readings[0]!.last, readings[0]!.capacity), note: `at most ${text(readings[0]!.highest)}` };
  const mean = readings.reduce((sum, one) => sum + one.last, 0) / readings.length;
  const most = readings.reduce((one, other) => (other.last > one.last ? other : one));
  const equal = readings.every((one) => one.capacity && Math.abs(one.capacity / readings[0]!.capacity! - 1) < 0.01);
  return { header: `mean ${text(mean, equal ? readings[0]!.capacity : undefined)}`, note: `most ${text(most.last)}, ${most.label}` };
}

function groupOf(readings: Reading[]): { mean: Reading; low: (number | null)[]; high: (number | null)[] } {
  const at = readings[0]!.values.map((_, n) => readings.flatMap((one) => one.values[n] ?? []));
  const each = (of: (values: number[]) => number) => at.map((values) => (values.length ? of(values) : null));
  const noun = readings[0]!.label.split(" ").at(-2);
  const mean = { label: `mean of ${counted(readings.length, noun === "GPU" ? "GPU" : noun ?? "")}`, values: each((values) => values.reduce((sum, one) => sum + one, 0) / values.length), last: 0, highest: 0 };
  return { mean, low: each((values) => Math.min(...values)), high: each((values) => Math.max(...values)) };
}

/** A row of the strip of ranks over time. */
export interface HeatRow { label: string; rank: number; name: string; values: (number | null)[]; mean: number | null; isIdle: boolean }
export interface Heat { measure: string; unit: Unit; highest: number; rows: HeatRow[] }

export const MEASURES = { gpu: "GPUs busy", cpu: "CPU cores", memory: "memory", read: "disk reads" } as const;
export type Measure = keyof typeof MEASURES;

/** What can be compared of a job's ranks: of GPUs, those of nodes where no rank is known to use one. */
export function measuresOf(series: ResourceSeries[]): Measure[] {
  return (Object.keys(MEASURES) as Measure[]).filter((one) => rowsOf(series, one).length > 1);
}

function rowsOf(series: ResourceSeries[], measure: Measure): ResourceSeries[] {
  const ofRanks = (name: string) => series.filter((one) => one.rank >= 0 && one.name === name);
  if (measure === "cpu") return ofRanks("cpu_cores");
  if (measure === "memory") return ofRanks("memory_mib");
  if (measure === "read") return ofRanks("disk_read_mib_s");
  const own = ofRanks("gpu_percent");
  return own.length ? own : series.filter((one) => one.rank < 0 && GPU.exec(one.name)?.[2] === "percent");
}

/** The strip of a measure: a row for each rank, in their order. */
export function heatOf(series: ResourceSeries[], idle: { name: string; rank: number }[], measure: Measure): Heat {
  const rows = rowsOf(series, measure).map((one): HeatRow => {
    const known = one.values.filter((value): value is number => value !== null);
    const gpu = GPU.exec(one.name)?.[1];
    return {
      label: one.rank < 0 ? `${place(one.rank)} GPU ${gpu}` : place(one.rank), rank: one.rank, name: one.name, values: one.values,
      mean: known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null,
      isIdle: idle.some((odd) => odd.name === one.name && odd.rank === one.rank),
    };
  }).sort((a, b) => a.label.localeCompare(b.label, "en", { numeric: true }));
  const unit = unitOf(rows[0]?.name ?? "");
  const highest = unit === "percent" ? 100 : Math.max(0, ...rows.flatMap((row) => row.values.map((value) => value ?? 0)));
  return { measure: MEASURES[measure], unit, highest, rows };
}
