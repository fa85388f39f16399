/** Which panels, units, axes and headers a job's resources have. */

import { expect, test } from "vitest";
import { labelled } from "../src/screens/job/heat-strip";
import { amount, axisOf, capacityOf, heatOf, measuresOf, panelsOf, unitOf } from "../src/screens/job/resource-panels";
import type { ResourceSeries } from "../src/types";

const X = [0, 10, 20];
const one = (name: string, rank: number, ...values: (number | null)[]): ResourceSeries => {
  const known = values.filter((value): value is number => value !== null);
  return { name, rank, values, last: known.at(-1)!, highest: Math.max(...known) };
};
const charts = (series: ResourceSeries[]) => panelsOf(series, X).flatMap((panel) => panel.charts.map((chart) => ({ panel: panel.title, ...chart })));

test("a unit is the end of a name", () => {
  expect(["cpu_percent", "memory_mib", "disk_read_mib_s", "cpu_cores", "gpu_0_power_w", "gpu_GPU-1_temperature_c", "mystery"].map(unitOf))
    .toEqual(["percent", "mib", "mib_s", "cores", "power_w", "temperature_c", ""]);
});

test("values are told with their units", () => {
  expect([amount(48.4, "percent"), amount(2.5, "percent"), amount(0, "percent"), amount(3277, "mib"), amount(12.25, "mib_s"), amount(1, "cores"), amount(61.4, "temperature_c")])
    .toEqual(["48 %", "2.5 %", "0 %", "3.2 GiB", "12.3 MiB/s", "1.00 cores", "61 °C"]);
});

test("an axis of memory is in the unit of its top", () => {
  expect([axisOf("mib", 500), axisOf("mib", 24_064), axisOf("mib", 3e6), axisOf("mib_s", 2000)].map(({ unit, divisor }) => [unit, divisor]))
    .toEqual([["MiB", 1], ["GiB", 1024], ["TiB", 1024 ** 2], ["GiB/s", 1024]]);
  expect(axisOf("percent", 5000)).toEqual({ unit: "%", divisor: 1 });
});

test("a capacity follows from a part and its share, and from nothing else", () => {
  expect(capacityOf(3277, 13.62)).toBeCloseTo(24_060, 0);
  expect([capacityOf(3277, undefined), capacityOf(3277, 0), capacityOf(0, 0), capacityOf(1, 101)]).toEqual([undefined, undefined, undefined, undefined]);
});

test("memory of a node is of its whole, with that as a line, and ranks have a chart of their own", () => {
  const [node, ranks] = charts([
    one("memory_mib", 0, 18.84, 18.84, 18.84), one("memory_mib", -1, 3000, 3600, 3276.8), one("memory_percent", -1, 12, 15, 13.617),
  ]);
  expect([node!.of, node!.header, node!.note]).toEqual(["nodes", "3.2 GiB of 23.5 GiB", "at most 3.5 GiB"]);
  expect(node!.lines.map((line) => [line.label, line.isLimit ?? false])).toEqual([["node 0", false], ["capacity", true]]);
  expect([node!.unit, node!.top!.toFixed(1)]).toEqual(["GiB", "23.5"]);
  expect(node!.lines[0]!.y[2]).toBeCloseTo(3.2);
  expect([ranks!.of, ranks!.header, ranks!.unit, ranks!.top, ranks!.lines.length]).toEqual(["ranks", "18.8 MiB", "MiB", undefined, 1]);
});

test("shares are from 0 to 100", () => {
  const [cpu] = charts([one("cpu_percent", -1, 70, 75, 72)]);
  expect([cpu!.unit, cpu!.top, cpu!.header]).toEqual(["%", 100, "72 %"]);
});

test("of several nodes the mean and the one with most are told", () => {
  const shares = [0, 1].map((node) => one("memory_percent", -1 - node, 10 + 10 * node));
  const [memory] = charts([...shares, one("memory_mib", -1, 1024), one("memory_mib", -2, 2048)]);
  expect([memory!.header, memory!.note]).toEqual(["mean 1.5 GiB of 10.0 GiB", "most 2.0 GiB, node 1"]);
});

test("nine lines are their mean within the lowest and the highest, eight are drawn one by one", () => {
  const ranks = (count: number) => Array.from({ length: count }, (_, rank) => one("cpu_cores", rank, rank, rank, null));
  expect(charts(ranks(8))[0]!.lines.map((line) => line.label)).toEqual(Array.from({ length: 8 }, (_, rank) => `rank ${rank}`));
  const [many] = charts(ranks(9));
  expect(many!.lines.map((line) => [line.label, line.y])).toEqual([["mean of 9 ranks", [4, 4, null]]]);
  expect(many!.band!.map((line) => line.y)).toEqual([[0, 0, null], [8, 8, null]]);
});

test("what is in use of a disk follows from what is free of it", () => {
  const [disk] = charts([one("disk_free_mib", -1, 768), one("disk_percent", -1, 25)]);
  expect([disk!.header, disk!.top]).toEqual(["256 MiB of 1.0 GiB", 1]);
});

test("the network of one node is in one chart, of several in two", () => {
  const network = (rank: number) => [one("network_received_mib_s", rank, 1), one("network_sent_mib_s", rank, 2)];
  expect(charts(network(-1)).map((chart) => chart.header)).toEqual(["received 1.0 MiB/s, sent 2.0 MiB/s"]);
  expect(charts([...network(-1), ...network(-2)]).map((chart) => chart.title)).toEqual(["received from the network", "sent to the network"]);
});

test("GPUs are named with their node where there are several, and have their memory's size", () => {
  const gpu = (rank: number, n: number) => [one(`gpu_${n}_percent`, rank, 90), one(`gpu_${n}_memory_mib`, rank, 40_960), one(`gpu_${n}_memory_percent`, rank, 50), one(`gpu_${n}_power_w`, rank, 350)];
  const [busy, memory, power] = charts([...gpu(-1, 10), ...gpu(-1, 2)]);
  expect(busy!.lines.map((line) => line.label)).toEqual(["GPU 2", "GPU 10"]);
  expect([memory!.header, power!.header]).toEqual(["mean 40.0 GiB of 80.0 GiB", "mean 350 W"]);
  expect(charts([...gpu(-1, 0), ...gpu(-2, 0)])[0]!.lines.map((line) => line.label)).toEqual(["node 0 GPU 0", "node 1 GPU 0"]);
});

test("the strip has a row for each rank, or for each GPU where no rank is known to use one", () => {
  const gpus = [one("gpu_0_percent", -1, 90), one("gpu_1_percent", -1, 2)];
  const cores = [one("cpu_cores", 10, 0.1), one("cpu_cores", 9, 1)];
  expect(measuresOf([...gpus, ...cores])).toEqual(["gpu", "cpu"]);
  const idle = [{ name: "gpu_1_percent", rank: -1 }];
  expect(heatOf([...gpus, ...cores], idle, "gpu").rows.map((row) => [row.label, row.isIdle])).toEqual([["node 0 GPU 0", false], ["node 0 GPU 1", true]]);
  const ofRanks = heatOf([...gpus, one("gpu_percent", 1, 2), one("gpu_percent", 0, 90)], [], "gpu");
  expect([ofRanks.rows.map((row) => row.label), ofRanks.highest]).toEqual([["rank 0", "rank 1"], 100]);
  expect(heatOf(cores, [], "cpu")).toMatchObject({ unit: "cores", highest: 1, rows: [{ label: "rank 9" }, { label: "rank 10" }] });
});

test("one rank alone has nobody to be compared with", () => {
  expect(measuresOf([one("cpu_cores", 0, 1)])).toEqual([]);
});

test("labels have room, and an idle row keeps its own", () => {
  const rows = Array.from({ length: 64 }, (_, n) => ({ isIdle: n === 37 }));
  const chosen = labelled(rows, 8);
  expect(chosen).toContain(37);
  expect(chosen.slice(1).every((n, at) => n - chosen[at]! >= 2)).toBe(true);
  expect(labelled(rows.slice(0, 3), 16)).toEqual([0, 1, 2]);
});
