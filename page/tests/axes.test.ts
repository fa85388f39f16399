import { expect, test } from "vitest";
import { distinct } from "../src/format";
import { numberTicks, timeTicks } from "../src/parts/ticks";
import { labelOf, textOf } from "../src/screens/compared-row";

const splits = (from: number, step: number, count = 4) => Array.from({ length: count }, (_, n) => from + n * step);

test.each([
  ["a narrow range", splits(85.331, 0.001), ["85.331", "85.332", "85.333", "85.334"]],
  ["a large number's fractions", splits(1_234_567, 0.01), ["1234567.00", "1234567.01", "1234567.02", "1234567.03"]],
  ["tiny numbers", splits(0, 2e-10), ["0", "2e-10", "4e-10", "6e-10"]],
  ["large numbers", splits(0, 2.5e8, 5), ["0", "2.5e+8", "5.0e+8", "7.5e+8", "1.00e+9"]],
  ["numbers around zero", splits(-0.5, 0.25, 5), ["-0.50", "-0.25", "0.00", "0.25", "0.50"]],
  ["one mark", [0.1], ["0.1"]],
])("marks of %s differ from their neighbours", (_, values, texts) => {
  expect(numberTicks(values)).toEqual(texts);
});

test.each([[1, "14:47:20"], [60, "14:47"], [3600, "14:47"]])("marks %d s apart are times of 24 hours with the day below the first", (step, first) => {
  const texts = timeTicks(splits(new Date(2026, 10, 28, 14, 47, 20).getTime() / 1000, step));
  expect(texts[0]).toBe(`${first}\n2026-11-28`);
  expect(texts.slice(1).every((text) => /^\d\d:\d\d(:\d\d)?$/.test(text))).toBe(true);
  expect(new Set(texts).size).toBe(4);
});

test("marks say the day again after midnight, and only days where they are half a day apart", () => {
  const evening = new Date(2026, 10, 28, 22, 0).getTime() / 1000;
  expect(timeTicks(splits(evening, 3600))).toEqual(["22:00\n2026-11-28", "23:00", "00:00\n2026-11-29", "01:00"]);
  expect(timeTicks(splits(evening, 86_400))).toEqual(["2026-11-28", "2026-11-29", "2026-11-30", "2026-12-01"]);
});

test("numbers beside each other have the digits that tell them apart", () => {
  expect(distinct([85.3312, 85.3309, 85.3341])).toEqual(["85.3312", "85.3309", "85.3341"]);
  expect(distinct([1_234_567, 1_234_567.03])).toEqual(["1234567", "1234567.03"]);
  expect(distinct([0.25, 0.25, "NaN"])).toEqual(["0.25", "0.25", "NaN"]);
});

test("metrics and parameters are never renamed or given units", () => {
  const row = (section: string, key: string) => ({ section, key, values: [] });
  const told = (section: string, key: string, value: unknown) => [labelOf(row(section, key)), textOf(row(section, key), value)];
  for (const section of ["metrics", "params"]) {
    expect(told(section, "perf/samples_per_s", 918.6)).toEqual(["perf/samples_per_s", "918.6"]);
    expect(told(section, "mem_bytes", 1e9)).toEqual(["mem_bytes", "1.00e+9"]);
    expect(told(section, "train/grad_norm", 0.25)).toEqual(["train/grad_norm", "0.25"]);
  }
  expect(told("outcome", "duration_s", 918.6)).toEqual(["duration", "15 min 18 s"]);
  expect(told("outcome", "lost_s", 0.1)).toEqual(["lost", "0.1 s"]);
});
