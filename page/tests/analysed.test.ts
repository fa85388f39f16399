import { describe, expect, test } from "vitest";
import { analysed, columnsOf, keyOf, settingFields, valueField } from "../src/screens/runs/analysed";
import type { RunCell, RunField, RunRow, RunTableAnswer } from "../src/types";

const fieldOf = (field: string, runs: number, values: number): RunField => ({ field, unit: "any", runs, values, is_default: false, is_primary: false, goal: null });

/** A table as the server answers it: the metric's value, three times, and the settings, the newest run first. */
function tableOf(settings: string[], rows: [value: RunCell, ...settings: RunCell[]][]): RunTableAnswer {
  const runs = rows.map(([value, ...own], n): RunRow => ({
    job: `run-${n}`, title: `run-${n}`, experiment: "e", state: "completed", reason: "", type: "command", is_archived: false,
    values: [value, 1000 * (n + 1), 1000 * (n + 1) + 100, 1000 * (n + 1) + 600, ...own],
  }));
  return { columns: columnsOf("metric.acc", settings).map((field) => ({ field, unit: "any" })), runs: runs.reverse(), total: rows.length };
}

describe("the columns that are asked for", () => {
  test("settings are inputs and parameters that differ, those of most runs first, and a parameter with an input's name isn't another", () => {
    const fields = [fieldOf("input.lr", 4, 2), fieldOf("input.seed", 4, 1), fieldOf("param.lr", 4, 2), fieldOf('param."a b"', 9, 3), fieldOf("metric.acc", 9, 0), fieldOf("tag.x", 9, 4)];
    expect(settingFields(fields)).toEqual(['param."a b"', "input.lr"]);
    expect(settingFields(Array.from({ length: 100 }, (_, n) => fieldOf(`param.p${n}`, 1, 2)))).toHaveLength(40);
    expect(settingFields(Array.from({ length: 30 }, (_, n) => fieldOf(`param.${"x".repeat(200)}${n}`, 1, 2))).join().length).toBeLessThanOrEqual(3000);
  });

  test("the value is the best one by the goal, else the last", () => {
    expect(["maximize", "minimize", ""].map((goal) => valueField("metric.acc", goal))).toEqual(["max(metric.acc)", "min(metric.acc)", "metric.acc"]);
    expect(['metric.val/acc', 'param."a ""b"" c"', "input.a.b"].map(keyOf)).toEqual(["val/acc", 'a "b" c', "a.b"]);
  });
});

describe("runs that are looked at together", () => {
  test("they are in the order in which they came, and the first of the best ones is the best", () => {
    const { set, spans } = analysed(tableOf(["input.lr"], [[0.5, 0.1], [0.9, "1e-2"], [0.9, 1]]), "acc", "maximize", ["input.lr"]);
    expect(set.runs.map((run) => [run.job, run.number, run.value, run.parameters.lr])).toEqual([["run-0", 1, 0.5, 0.1], ["run-1", 2, 0.9, 0.01], ["run-2", 3, 0.9, 1]]);
    expect(set.best).toBe("run-1");
    expect(analysed(tableOf(["input.lr"], [[0.5, 0.1], [0.9, 1]]), "acc", "", ["input.lr"]).set.best).toBe(undefined);
    expect(spans[0]).toEqual({ name: "run-0", job: "run-0", state: "completed", submitted: 1000, start: 1100, end: 1600 });
  });

  test("those without a finite value are left out, and the page says so", () => {
    const { set, notes, spans } = analysed(tableOf(["input.lr"], [[0.5, 0.1], ["NaN", 0.2], ["Infinity", 0.3], [null, 0.4], [0.6, 0.5]]), "acc", "maximize", ["input.lr"]);
    expect(set.runs.map((run) => run.job)).toEqual(["run-0", "run-4"]);
    expect(notes).toEqual(["3 runs without a value of acc are in no chart but the last"]);
    expect(spans).toHaveLength(5);
  });

  test("the selected ones alone are looked at", () => {
    const { set, axes } = analysed(tableOf(["input.lr", "input.seed"], [[0.5, 0.1, 1], [0.6, 0.1, 2], [0.7, 0.2, 3]]), "acc", "maximize", ["input.lr", "input.seed"], new Set(["run-0", "run-1"]));
    expect(set.runs.map((run) => run.job)).toEqual(["run-0", "run-1"]);
    expect(axes).toEqual(["seed"]);
  });

  test("settings that don't differ, say the same, are names of each run or of few runs are left out with the reason", () => {
    const settings = ["input.lr", "input.fixed", "param.rate", "param.folder", "param.beta"];
    const rows = Array.from({ length: 30 }, (_, n): [RunCell, ...RunCell[]] => [n / 30, n % 3, "x", String(n % 3), `out/${n}`, n < 10 ? n : null]);
    const { axes, offered, notes, full } = analysed(tableOf(settings, rows), "acc", "maximize", settings);
    expect(axes).toEqual(["lr"]);
    expect(offered).toEqual(["lr", "beta"]);
    expect(notes).toEqual([
      "rate has the values of lr", "folder: more than 20 different words", "beta: only some of the runs have it; IS NOT NULL in the filter chooses these",
    ]);
    expect(full.runs).toHaveLength(30);
  });

  test("a run without one of the common settings is in no line, and twelve axes are drawn at most", () => {
    const settings = Array.from({ length: 15 }, (_, n) => `input.p${n}`);
    const rows = Array.from({ length: 40 }, (_, n): [RunCell, ...RunCell[]] => [n, ...settings.map((_, k) => (n === 7 && k === 0 ? null : n * (k + 2) + k * (n % (k + 2))))]);
    const { axes, full, set, notes } = analysed(tableOf(settings, rows), "acc", "minimize", settings);
    expect(axes).toHaveLength(12);
    expect([set.runs.length, full.runs.length]).toEqual([40, 39]);
    expect(notes.join("; ")).toContain("of 15 settings that differ, the first 12 are looked at together");
    expect(notes.join("; ")).toContain("1 run without a value of each setting");
  });
});
