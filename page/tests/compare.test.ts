import { describe, expect, test } from "vitest";
import { around, valuesAt } from "../src/parts/line-pointer";
import { colourable, huesOf, mixed } from "../src/screens/compare-colours";
import type { ComparedRow } from "../src/types";

const rowOf = (section: string, key: string, ...values: unknown[]): ComparedRow => ({ section, key, values });

describe("the lines under the pointer", () => {
  const xs = Array.from({ length: 9 }, (_, n) => n);

  test("are sorted by value, each by its nearest point", () => {
    const data = [xs, [1, 1, 1, 1, 1, 1, 1, 1, 1], [undefined, undefined, 5, undefined, undefined, undefined, undefined, undefined, 7], [3, null, null, null, null, null, null, null, null]];
    expect(valuesAt(data as never, 4, 3)).toEqual([{ series: 2, value: 5 }, { series: 3, value: 3 }, { series: 1, value: 1 }]);
  });

  test("without any value are left out", () => {
    expect(valuesAt([xs, xs.map(() => null)] as never, 4, 1)).toEqual([]);
  });

  test("the box shows those around the nearest one", () => {
    const sorted = Array.from({ length: 200 }, (_, n) => ({ series: n + 1, value: -n }));
    expect(around(sorted, 1, 13)).toEqual([0, 13]);
    expect(around(sorted, 100, 13)).toEqual([93, 106]);
    expect(around(sorted, 200, 13)).toEqual([187, 200]);
    expect(around(sorted.slice(0, 3), 2, 13)).toEqual([0, 3]);
  });
});

describe("the colours of compared jobs", () => {
  test("are those of an input or a parameter that differs", () => {
    const rows = [rowOf("inputs", "lr", 0.1, 0.2), rowOf("job file", "command", "a", "b"), rowOf("parameters", "same", "x", "x")];
    expect(colourable(rows)).toEqual([rows[0]]);
  });

  test("follow numbers on a scale, by their logarithm over magnitudes", () => {
    const shares = (...values: unknown[]) => huesOf(rowOf("inputs", "lr", ...values), values.length).map((hue) => ("share" in hue ? Math.round(hue.share * 100) : hue));
    expect(shares(0, 5, 10)).toEqual([0, 50, 100]);
    expect(shares("0.001", "0.01", "0.1")).toEqual([0, 50, 100]);
    expect(shares(1, 2, 3, null)).toEqual([0, 50, 100, { line: 7 }]);
  });

  test("set other values apart, and jobs where nothing is chosen", () => {
    expect(huesOf(rowOf("inputs", "opt", "sgd", "adam", "sgd"), 3)).toEqual([{ line: 0 }, { line: 1 }, { line: 0 }]);
    expect(huesOf(undefined, 10).map((hue) => "line" in hue && hue.line)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 0, 1]);
    expect(mixed("#000000", "#ff8000", 0.5)).toBe("#804000");
  });
});
