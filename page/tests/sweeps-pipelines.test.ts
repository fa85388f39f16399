import { expect, test } from "vitest";
import { scaleOf } from "../src/parts/parallel-scale";
import { bestSoFar } from "../src/parts/run-panels/best-so-far";
import { doubtOf, tendencyOf } from "../src/parts/run-panels/importance";
import type { PanelRun } from "../src/parts/run-panels/run-set";
import { barsOf, type Span } from "../src/parts/timeline";
import { changeOf } from "../src/screens/job/pipeline";
import { flowsOf, runBefore } from "../src/screens/job/pipeline-times";
import type { Job } from "../src/types";

const span = (name: string, submitted: number, start: number | null, end: number | null): Span => ({ name, job: name, state: "completed", submitted, start, end });

test("bars of a timeline are as long as their jobs lasted, and their sums are the durations", () => {
  const spans = [span("b", 2000, 5000, 9000), span("a", 1000, 1000, 3500), span("waits", 6000, null, null)];
  const { bars, total, begin } = barsOf(spans, 11_000);
  expect([begin, total]).toEqual([1000, 10]);
  expect(bars.map((bar) => bar.span.name)).toEqual(["a", "b", "waits"]);
  for (const bar of bars) expect(bar.ran * total).toBeCloseTo(bar.seconds, 9);
  expect(bars.map((bar) => bar.seconds)).toEqual([2.5, 4, 0]);
  expect(bars[1]!.waited * total).toBeCloseTo(3, 9);
  expect(bars[2]!.waited * total).toBeCloseTo(5, 9);
});

test("a job that runs has lasted until now, and one job alone fills the timeline", () => {
  const { bars, total } = barsOf([span("a", 0, 0, null)], 4000);
  expect([bars[0]!.ran, bars[0]!.seconds, total]).toEqual([1, 4, 4]);
});

const trial = (number: number, value: number | null) => ({ number, value }) as PanelRun;

test("the best so far follows the goal and leaves out trials without a value", () => {
  const runs = [trial(2, 0.7), trial(0, 0.5), trial(1, null), trial(3, 0.6)];
  const [best, each] = bestSoFar({ runs, goal: "maximize", metric: "acc" });
  expect([best!.x, best!.y]).toEqual([[0, 2, 3], [0.5, 0.7, 0.7]]);
  expect(each!.y).toEqual([0.5, 0.7, 0.6]);
  expect(bestSoFar({ runs, goal: "minimize", metric: "loss" })[0]!.y).toEqual([0.5, 0.5, 0.5]);
});

test("the outputs that flow between steps are found in the job file, also within a step that is a pipeline", () => {
  const document = {
    jobs: {
      prepare: { outputs: { data: {} } },
      train: { inputs: { data: "${{parent.jobs.prepare.outputs.data}}", stats: { path: "${{parent.jobs.prepare.outputs.stats}}" }, again: "${{parent.jobs.prepare.outputs.data}}", lr: 0.1 } },
      inner: { jobs: { a: {}, b: { inputs: { x: "${{parent.jobs.a.outputs.model}}" } } } },
      bare: null,
    },
  };
  expect([...flowsOf(document)]).toEqual([["prepare train", ["data", "stats"]], ["inner/a inner/b", ["model"]]]);
  expect(flowsOf(undefined).size).toBe(0);
});

test("the run before is the newest earlier pipeline of the experiment", () => {
  const job = (name: string, submitted_at: string, type = "pipeline") => ({ name, submitted_at, type }) as Job;
  const own = job("flow-3", "2026-11-20T08:00:00Z");
  const jobs = [job("flow-4", "2026-11-21T08:00:00Z"), own, job("lone", "2026-11-19T09:00:00Z", "command"), job("flow-2", "2026-11-19T08:00:00Z"), job("flow-1", "2026-11-18T08:00:00Z")];
  expect(runBefore(jobs, own)?.name).toBe("flow-2");
  expect(runBefore([own], own)).toBe(undefined);
});

test("a change of duration has its sign and its share", () => {
  expect(changeOf(12, 10)).toBe("+2.0 s, +20 %");
  expect(changeOf(8, 10)).toBe("−2.0 s, −20 %");
  expect(changeOf(5, undefined)).toBe("–");
});

test("a setting's tendency follows the goal; few trials are doubted", () => {
  const of = { name: "lr", share: 0.5, low: 0.4, high: 0.6 };
  expect(tendencyOf({ ...of, direction: -0.8 }, "minimize")).toBe("higher is better");
  expect(tendencyOf({ ...of, direction: -0.8 }, "maximize")).toBe("lower is better");
  expect(tendencyOf({ ...of, direction: 0.1 }, "maximize")).toBe("no direction");
  expect(tendencyOf({ ...of, highest: "adam", lowest: "sgd" }, "maximize")).toBe("best adam");
  expect(tendencyOf({ ...of, highest: "adam", lowest: "sgd" }, "minimize")).toBe("best sgd");
  expect(tendencyOf({ ...of, direction: 0.8 }, "")).toBe("more of it, higher values");
  expect(tendencyOf({ ...of, highest: "adam", lowest: "sgd" }, "")).toBe("highest adam");
  expect(doubtOf(["lr"], 4, "run")).toBe("4 runs are too few to say how much lr matters: that takes 10");
  expect(doubtOf(["lr", "width"], 12)).toBe("12 trials are too few to tell lr from width: that takes 20");
  expect(doubtOf(["lr"], 4)).toBe("4 trials are too few to say how much lr matters: that takes 10");
  expect(doubtOf(["lr", "width"], 20)).toBe("");
});

test("an axis is logarithmic where it is asked for, or by its values", () => {
  const plain = (value: number) => String(value);
  expect(scaleOf([1, 10, 100], plain, true).at(10)).toBeCloseTo(0.5);
  expect(scaleOf([0.001, 0.01, 1], plain).at(0.001)).toBe(0);
  expect(scaleOf([0.001, 0.5, 1], plain, false).at(0.5)).toBeCloseTo(0.5, 1);
  expect(scaleOf([2, 3, 4], plain, true).ticks.map((tick) => tick.label)).toEqual(["2", "4"]);
  expect(scaleOf([-1, 3], plain, true).at(-1)).toBe(0);
});
