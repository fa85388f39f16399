import { expect, test } from "vitest";
import { endsOfX, joined } from "../src/parts/chart";
import { counted, dated, duration, number, size } from "../src/format";
import { whoOf } from "../src/top-bar";
import { pieces, plain } from "../src/parts/ansi";
import { differenceOf } from "../src/parts/line-diff";
import { isNews } from "../src/parts/desktop-notices";
import { importanceOf } from "../src/parts/parameter-importance";
import { phasesOf } from "../src/screens/job/progress";
import { busiestOf } from "../src/screens/job/slow-rank";
import { groupsOf, rangesOf } from "../src/screens/job/stacks-now";
import { share } from "../src/screens/ledger";
import type { StoryLine } from "../src/types";

test("numbers have four digits, times and sizes their units", () => {
  expect([0.161, 1234567, 0.00001, 42, "NaN", null].map((one) => number(one))).toEqual(["0.161", "1234567", "1.00e-5", "42", "NaN", "–"].map((one, n) => (n === 1 ? "1.23e+6" : one)));
  expect([0.04, 59, 61, 3700, 90_000].map(duration)).toEqual(["0.0 s", "59 s", "1 min 01 s", "1 h 01 min", "1 d 1 h"]);
  expect([1, 999, 1000, 1234567].map((count) => counted(count, "line"))).toEqual(["1 line", "999 lines", "1,000 lines", "1,234,567 lines"]);
  expect([0, 1023, 1536, 5 << 20].map(size)).toEqual(["0 B", "1023 B", "1.5 KiB", "5.0 MiB"]);
});

test("colours of a terminal become classes, other sequences go", () => {
  expect(pieces("\u001b[31mred\u001b[0m plain")).toEqual([{ text: "red", class: " ansi-1" }, { text: " plain", class: "" }]);
  expect(plain("\u001b]8;;http://evil.example\u0007link\u001b]8;;\u0007 \u001b[2Jcleared\u0007")).toBe("link cleared");
  expect(pieces("<script>alert(1)</script>")).toEqual([{ text: "<script>alert(1)</script>", class: "" }]);
});

test("extended colours are read whole, as the nearest of ours", () => {
  const looks = (codes: string) => pieces(`\u001b[${codes}mx`).map((one) => one.class);
  expect(["38;5;1", "38;5;9", "38;5;33", "38;5;196", "38;5;244", "38;2;0;31;90"].map((codes) => looks(codes)[0]))
    .toEqual([" ansi-1", " ansi-1", " ansi-4", " ansi-1", "", " ansi-4"]);
  expect(["48;5;31", "48;2;31;1;32", "58;5;1", "38", "38;5"].map((codes) => looks(codes)[0])).toEqual(["", "", "", "", ""]);
  expect(looks("38;5;2;1")).toEqual([" ansi-bold ansi-2"]);
  expect(looks("48;5;1;33")).toEqual([" ansi-3"]);
});

test("bold ends at 22, and the colour stays", () => {
  expect(pieces("\u001b[1;31mB\u001b[22mn\u001b[39m.").map((one) => one.class)).toEqual([" ansi-bold ansi-1", " ansi-1", ""]);
});

test("a difference keeps what both texts have", () => {
  const lines = differenceOf(["a", "b", "c"], ["a", "x", "c", "d"]);
  expect(lines.map((line) => line.side + line.text)).toEqual([" a", "-b", "+x", " c", "+d"]);
});

test("the parameter that decides has the highest importance", () => {
  const parameters = Array.from({ length: 40 }, (_, n) => ({ lr: (n * 7) % 40, noise: n % 2 ? "a" : "b" }));
  const shares = importanceOf(parameters, parameters.map((one) => one.lr * 2));
  expect(shares[0]!.name).toBe("lr");
  expect(shares[0]!.share).toBeGreaterThan(0.8);
  expect(shares[1]!.share).toBeLessThan(0.2);
  expect(importanceOf([{ a: 1 }, { a: 2 }], [1, 2])).toEqual([]);
});


test("a time of another day has its day", () => {
  const at = (day: number, hour: number) => new Date(2026, 10, day, hour, 5, 9).getTime();
  expect(dated(at(29, 8), at(29, 23))).toBe("08:05:09");
  expect(dated(at(26, 8), at(29, 8))).toBe("2026-11-26 08:05:09");
});

test("the bar says who one is, but for the only owner", () => {
  expect([whoOf("ada", "reader"), whoOf("", "reader"), whoOf("", "owner"), whoOf("ann", "owner")]).toEqual(["ada · reader", "reader", "", "ann · owner"]);
});

test("ranks with equal stacks are one group, the odd ones first", () => {
  const rank = (number: number, line: number) => ({
    rank: number, doing: line === 9 ? "sleeps" : "waits for the others",
    processes: [{ is_helper: false, threads: [{ frames: [{ function: "step", file: "train.py", line }] }] }],
  });
  const groups = groupsOf([{ node: 0, host: "a", error: "", ranks: [rank(0, 5), rank(1, 9)] }, { node: 1, host: "b", error: "", ranks: [rank(2, 5), rank(3, 5)] }]);
  expect(groups.map((group) => [group.ranks, group.doing, group.stack])).toEqual([[[1], "sleeps", "step (train.py:9)"], [[0, 2, 3], "waits for the others", "step (train.py:5)"]]);
  expect(rangesOf([0, 2, 3, 4, 9])).toBe("0, 2–4, 9");
});

test("a story becomes the states that a job was in", () => {
  const line = (n: number, state: StoryLine["state"], attempt = 1): StoryLine =>
    ({ n, at: `2026-01-01T00:00:0${n}Z`, state, reason: "accepted", sentence: `line ${n}`, attempt, round: 1 });
  const phases = phasesOf([line(1, "queued"), line(2, "running"), line(3, "running"), line(4, "completed")], "2026-01-01T00:00:04Z");
  expect(phases.map((one) => [one.state, one.sentence])).toEqual([["queued", "line 1"], ["running", "line 3"], ["completed", "line 4"]]);
  expect(phases[1]!.to).toBe("2026-01-01T00:00:04Z");
});

test("a rank that uses far more processor time than each other is the one that they wait for", () => {
  const cores = (...values: number[]) => values.map((value, rank) => ({ rank, value })).sort((a, b) => b.value - a.value);
  const job = { state: "running" as const, world_size: 3 };
  expect(busiestOf(job, cores(0.1, 0.9, 0.2))).toBe(1);
  expect(busiestOf(job, cores(0.8, 0.9, 0.9))).toBeUndefined();
  expect(busiestOf(job, cores(0.9, 0.1))).toBeUndefined();
  expect(busiestOf({ ...job, state: "completed" }, cores(0.1, 0.9, 0.2))).toBeUndefined();
});

test("a desktop notice is shown once, soon after the end of a job that is part of none", () => {
  const ended_at = "2026-11-26T10:00:00Z";
  const [job, now] = [{ name: "a", state: "failed" as const, ended_at }, Date.parse(ended_at) + 5000];
  expect(isNews(job, now, new Set())).toBe(true);
  expect(isNews(job, now, new Set([`a ${ended_at}`]))).toBe(false);
  expect(isNews({ ...job, parent: "sweep" }, now, new Set())).toBe(false);
  expect(isNews({ ...job, state: "running", ended_at: null }, now, new Set())).toBe(false);
  expect(isNews(job, now + 3_600_000, new Set())).toBe(false);
});

test("shares of a ledger are in whole percents, and a little is not nothing", () => {
  const held = { slot_s: 0, gpu_s: 0, slot_seconds: {}, gpu_seconds: {}, busy_gpu_s: 0, cost: null };
  const row = { name: "a", jobs: 1, wall_s: 1000, seconds: { train: 996, queue: 4, lost: 0 }, ...held };
  expect(["train", "queue", "lost", "stall"].map((one) => share(row, one))).toEqual(["100 %", "< 1 %", "0 %", "0 %"]);
});

test("the curve of a job that logged steps again has the last value of each, and its steps in order", () => {
  const again = { label: "rank 0", x: [1, 2, 3, 2, 3, 4], y: [9, 8, 7, 6, null, 4] };
  expect(joined([again])).toEqual([[1, 2, 3, 4], [9, 6, null, 4]]);
  expect(joined([again, { label: "rank 1", x: [0, 4], y: [1, 2] }])[0]).toEqual([0, 1, 2, 3, 4]);
  expect(joined([])).toEqual([[]]);
});

test("a single point has a minute around it on an axis of time, and a step on each side on others", () => {
  expect(endsOfX(1_796_000_000, 1_796_000_000, true)).toEqual([1_795_999_970, 1_796_000_030]);
  expect(endsOfX(7, 7, false)).toEqual([6, 8]);
  expect(endsOfX(0, 7, true)).toEqual([0, 7]);
});
