import { describe, expect, test } from "vitest";
import { cardsOf, foundCards, mainCards, partsOfName, sectionsOf, withPinned } from "../src/parts/metric-groups";
import { csvOf } from "../src/screens/job/chart-files";
import { between, restartsOf } from "../src/screens/job/metric-card";
import { barsOf } from "../src/screens/job/own-charts";
import { differenceOf, hours, ordinal, reasonOf } from "../src/screens/job/overview";
import { headlineOf } from "../src/screens/job/progress";
import type { Curve, Job, Standing } from "../src/types";

test("the same metric of training and of held-out data is one card, training first", () => {
  const names = (all: string[]) => cardsOf(all).map((card) => card.names);
  expect(names(["val/loss", "lr", "train/loss"])).toEqual([["train/loss", "val/loss"], ["lr"]]);
  expect(names(["loss", "val_loss"])).toEqual([["loss", "val_loss"]]);
  expect(names(["train_acc", "val_acc", "test_acc"])).toEqual([["train_acc", "val_acc", "test_acc"]]);
  expect(names(["Loss/train", "Loss/val"])).toEqual([["Loss/train", "Loss/val"]]);
  expect(names(["training_time", "latest", "value"])).toEqual([["training_time"], ["latest"], ["value"]]);
  expect(cardsOf(["val/loss"])[0]).toEqual({ title: "val/loss", names: ["val/loss"] });
  expect(partsOfName("train/acc/top1")).toEqual({ base: "acc/top1", split: "train" });
});

test("87 metrics are three sections, and one is found by a part of its name or a regular expression", () => {
  const grads = Array.from({ length: 80 }, (_, n) => `grad/layer${String(n).padStart(2, "0")}.mean`);
  const cards = cardsOf([...grads, "loss", "perf/step_s", "perf/samples_per_s", "lr", "epoch", "mem_bytes", "grad/norm"]);
  const sections = sectionsOf(cards);
  expect(sections.map((section) => [section.prefix, section.cards.length])).toEqual([["perf", 2], ["", 4], ["grad", 81]]);
  const found = (text: string) => foundCards(cards, text).map((card) => card.title);
  expect(found("loss")).toEqual(["loss"]);
  expect(found("layer0[12]")).toEqual(["grad/layer01.mean", "grad/layer02.mean"]);
  expect(found("LR$")).toEqual(["lr"]);
  expect(found("(")).toEqual([]);
  expect(found("")).toHaveLength(87);
});

test("an overview begins with the metric that counts and its pair, and leaves rates and gradients for the end", () => {
  const names = ["grad/a", "lr", "train/loss", "width", "val/loss", "train/acc", "val/acc"];
  expect(mainCards(names, "val/acc").map((card) => card.title)).toEqual(["acc", "loss", "width", "grad/a"]);
  expect(mainCards([], undefined)).toEqual([]);
});

const point = (step: number, second: number, value: number | string = 1) => ({ step, value, at: new Date(second * 1000).toISOString() });
const curve: Curve = { name: "a,b", rank: 0, points: [point(0, 10), point(60, 70, "NaN"), point(61, 90), point(119, 150)] };

test("a job that began again is marked at the last step before its failure, or at the time of it", () => {
  const failed = (second: number) => ({ attempt: 1, round: 1, at: new Date(second * 1000).toISOString(), verdict: {} }) as Job["failures"][number];
  const job = { failures: [failed(75)], started_at: new Date(5000).toISOString(), state: "completed" as const };
  expect(restartsOf(job, [curve], "step")).toEqual([60]);
  expect(restartsOf(job, [curve], "time")).toEqual([75]);
  expect(restartsOf(job, [curve], "relative")).toEqual([70]);
  expect(restartsOf(job, [curve], "m:samples")).toEqual([]);
  expect(restartsOf({ ...job, state: "failed" }, [curve], "step")).toEqual([]);
  expect(restartsOf({ ...job, failures: [failed(1)] }, [curve], "step")).toEqual([]);
});

test("a step between two of the metric on the axis of x is in between there, too", () => {
  const points = [{ step: 0, value: 0 }, { step: 10, value: 1280 }];
  expect([0, 5, 10, 11].map((step) => between(points, step))).toEqual([0, 640, 1280, undefined]);
  expect(between([{ step: 5, value: 1 }], 4)).toBeUndefined();
});

test("the points of a chart are csv with quotes where a name needs them", () => {
  expect(csvOf([curve]).split("\n").slice(0, 3)).toEqual(["name,rank,step,value,at", '"a,b",0,0,1,1970-01-01T00:00:10.000Z', '"a,b",0,60,NaN,1970-01-01T00:01:10.000Z']);
});

test("a standing is said with the rank and the difference to the run before", () => {
  const standing: Standing = { metric: "loss", goal: "minimize", value: 0.5, step: 3, rank: 3, of: 22, best: { job: "b", value: 0.25 }, before: { job: "a", value: 0.75 } };
  expect([1, 2, 3, 4, 11, 12, 13, 21, 112, 1003].map(ordinal)).toEqual(["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "112th", "1,003rd"]);
  expect(differenceOf(standing)).toBe("−0.25, better");
  expect(differenceOf({ ...standing, goal: "maximize" })).toBe("−0.25, worse");
  expect(differenceOf({ ...standing, before: { job: "a", value: 0.5 } })).toBe("as good");
  expect(differenceOf({ ...standing, before: null })).toBe("");
});

test("a completed job's headline is its metric, unless its own sentence says more", () => {
  const primary = { name: "val/accuracy", value: 0.75, step: 119, best: 0.8, best_step: 90 };
  const job = { state: "completed", reason: "completed", sentence: "1 rank ended with exit code 0", outputs: [], nodes: [], primary } as unknown as Job;
  expect(headlineOf(job)).toBe("val/accuracy 0.75 at step 119; best 0.8 at step 90");
  expect(headlineOf({ ...job, sentence: "completed by hand" })).toBe("completed by hand");
  const { primary: _, ...without } = job;
  expect(headlineOf(without as Job)).toBe("1 rank ended with exit code 0");
});

test("hours have as many digits as their size needs", () => {
  expect([0.0001, 0.02, 1.234, 123.4, 12345].map(hours)).toEqual(["less than 0.001", "0.020", "1.23", "123", "12,345"]);
});

test("what a recovered job failed of is what its exception said", () => {
  expect(reasonOf("rank 0 on node 0 stopped with exit code 1: RuntimeError: NCCL error: unhandled")).toBe("RuntimeError: NCCL error: unhandled");
  expect(reasonOf("node 1 was lost")).toBe("node 1 was lost");
});

describe("pinned charts", () => {
  test("come first, once, and at most four are shown", () => {
    const cards = ["a", "b", "c", "d"].map((name) => ({ title: name, names: [name] }));
    const pinned = [{ title: "mine", names: ["c"] }, { title: "gone", names: [] }];
    expect(withPinned(pinned, cards).map((one) => one.title)).toEqual(["mine", "a", "b", "d"]);
    expect(withPinned([...pinned, { title: "both", names: ["a", "b"] }], cards).map((one) => one.title)).toEqual(["mine", "both", "a", "b"]);
  });
});

describe("bars", () => {
  const at = (value: number | string) => ({ step: 1, at: "", value });
  const series = (name: string, rank: number, value: number | string) => ({ name, rank, count: 1, last: at(value), min: null, max: null }) as never;

  test("have the last value of each metric and rank, as long as its size beside the largest", () => {
    expect(barsOf([series("x", 1, 5), series("x", 0, 10), series("y", 0, -20)], ["x", "y"])).toEqual([
      { label: "x rank 0", value: 10, share: 0.5 }, { label: "x rank 1", value: 5, share: 0.25 }, { label: "y rank 0", value: -20, share: 1 },
    ]);
    expect(barsOf([series("x", 0, "NaN")], ["x", "absent"])).toEqual([{ label: "x", value: "NaN", share: 0 }]);
  });
});
