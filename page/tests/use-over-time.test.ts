import { expect, test } from "vitest";
import { hours } from "../src/format";
import { amount, levels } from "../src/parts/use-chart";
import { free } from "../src/screens/computes";
import { sentence, sinceOf, waits } from "../src/screens/compute-use";
import { idleShare, summary } from "../src/screens/ledger";
import { csvOf } from "../src/screens/ledger-csv";
import type { Compute, Ledger, LedgerRow, UseHistory } from "../src/types";

const history: UseHistory = {
  since: "2026-11-29T00:00:00Z", until: "2026-11-29T03:00:00Z", by: "person", step: "hour", compute: "", starts: ["2026-11-29T00:00:00Z", "2026-11-29T01:00:00Z", "2026-11-29T02:00:00Z"],
  lengths_s: [3600, 3600, 1800], series: [{ name: "ada", slot_s: [7200, 0, 1800], gpu_s: [3600, 3600, 0] }, { name: "bob", slot_s: [0, 3600, 0], gpu_s: [3600, 0, 0] }],
  gpu_s: 10_800, slot_s: 12_600, work_slot_s: [3600, 0, 0], busy_gpu_s: [3600, 1800, 0], waiting: [0, 2.5, 0], waits: { jobs: 3, p50_s: 5, p95_s: 60 },
  slots: [4, 4, 4], gpus: [null, 4, 4], idle: [],
};

test("what was held is a mean number in each part, also where the last one is shorter", () => {
  expect(levels(history, "slot")).toEqual({ held: [[2, 0, 1], [0, 1, 0]], used: [1, 0, 0], capacity: [4, 4, 4], top: 4 });
  expect(levels(history, "gpu").held).toEqual([[1, 1, 0], [1, 0, 0]]);
  expect([amount(0.5), amount(2), amount(12.34), amount(1234.5)]).toEqual(["0.5", "2", "12.3", "1,235"]);
});

test("the sentence of a history says what was held, used, and free where that is known", () => {
  expect(sentence(history, "slot")).toBe("3.5 slot-hours held, 29 % of them really used; 6.5 of 10.0 were free");
  expect(sentence(history, "gpu")).toBe("3.0 GPU-hours held, 50 % of them really used");
  expect(sentence({ ...history, gpu_s: 0 }, "gpu")).toBe("no GPU was held");
  expect(waits(history)).toBe("3 jobs waited: half of them at most 5.0 s, 19 of 20 at most 1 min 00 s; at the busiest time 2.5 waited at once, on average.");
  expect(waits({ ...history, waits: { jobs: 0, p50_s: null, p95_s: null } })).toBe("No job waited.");
});

test("a day of history begins at a full hour, and more at midnight in UTC", () => {
  const now = Date.parse("2026-11-29T15:20:00Z");
  expect([sinceOf("24h", now), sinceOf("7d", now), sinceOf("30d", now)]).toEqual(["2026-11-28T16:00:00.000Z", "2026-11-23T00:00:00.000Z", "2026-10-31T00:00:00.000Z"]);
});

const row = (name: string, gpu_s: number, busy_gpu_s: number): LedgerRow => ({
  name, jobs: 1, wall_s: gpu_s / 2, seconds: { train: gpu_s / 2, lost: 0 }, slot_s: gpu_s * 4, gpu_s, slot_seconds: { train: gpu_s, lost: gpu_s * 3 }, gpu_seconds: { train: gpu_s, lost: 0 }, busy_gpu_s, cost: 2.5,
});
const ledger: Ledger = { by: "person", since: null, until: null, rows: [row("bob", 36_000, 36_000), row("=ada", 324_000, 162_000)], total: row("", 360_000, 198_000), currency: "EUR" };

test("a ledger says who held the most, and how much of it was idle", () => {
  expect(summary(ledger, "gpu")).toBe("=ada has the most: 90.0 of 100 GPU-hours (90 %), of which 50 % idle; 45 % of all idle while held; 2.50 EUR.");
  expect(idleShare(ledger.rows[1]!, "slot")).toBe(0.75);
  expect(idleShare({ ...ledger.rows[1]!, gpu_s: 0 }, "gpu")).toBe(0);
  expect([0, 30, 600, 5400, 4e6].map(hours)).toEqual(["0", "< 0.01", "0.17", "1.5", "1,111"]);
});

test("csv of a ledger has its seconds and hours, and no formula", () => {
  const [heads, bob, ada] = csvOf(ledger).trimEnd().split("\r\n").map((line) => line.split(","));
  expect(heads!.slice(0, 10)).toEqual(["person", "jobs", "gpu_hours", "slot_hours", "busy_gpu_hours", "cost", "currency", "wall_s", "train_s", "lost_s"]);
  expect(bob!.slice(0, 8)).toEqual(["bob", "1", "10.000000", "40.000000", "10.000000", "2.5", "EUR", "18000"]);
  expect(ada![0]).toBe("'=ada");
  expect(heads!.length).toBe(ada!.length);
});

test("what is free of all computes leaves out what can't be used", () => {
  const machine = (name: string, unusable = "") => ({ name, cpus: 8, gpus: ["0", "1"], memory_mib: 0, state: "idle", word: "", unusable });
  const compute = { name: "lab", engine: "ssh", machines: [machine("a"), machine("b", "off")], held: [{ job: "j", attempt: 1, node: 0, machine: "a", cpus: 3, gpus: ["1"] }], waiting: 0, trouble: "", spec: {} } as unknown as Compute;
  expect(free([compute, { ...compute, trouble: "gone" }])).toBe("Free now: 1 of 2 GPUs, 5 of 8 CPU slots");
});
