import { expect, test } from "vitest";
import { importanceOf, importanceSteps, tooFew } from "../src/parts/parameter-importance";

/** Trials of a function of four parameters that is known, drawn as the script of the shares below has drawn them. */
function trials(count: number, ofLr: (exponent: number) => number) {
  let state = 7;
  const draw = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
  const parameters: Record<string, unknown>[] = [];
  const values: number[] = [];
  for (let n = 0; n < count; n += 1) {
    const exponent = draw();
    const width = 8 + Math.floor(248 * draw());
    const drop = 0.5 * draw();
    const optimizer = draw() < 0.5 ? "adam" : "sgd";
    parameters.push({ lr: exponent, width, drop, optimizer });
    values.push(ofLr(exponent) - 0.006 * width + (optimizer === "sgd" ? 0.5 : 0) + 0.2 * draw());
  }
  return { parameters, values };
}

/** By Optuna 5.0's FanovaImportanceEvaluator(seed=0) of the same 200 trials. */
const FANOVA: [string, (x: number) => number, Record<string, number>][] = [
  ["a line", (x) => 2 * x, { lr: 0.677, width: 0.291, optimizer: 0.031, drop: 0.001 }],
  ["a parabola", (x) => 8 * (x - 0.5) ** 2, { lr: 0.694, width: 0.269, optimizer: 0.035, drop: 0.002 }],
  ["a wave", (x) => Math.sin(6 * x), { lr: 0.707, width: 0.262, optimizer: 0.029, drop: 0.002 }],
];

test.each(FANOVA)("shares and order of 200 trials of %s are those of Optuna's fANOVA within ten points", (_name, ofLr, fanova) => {
  const { parameters, values } = trials(200, ofLr);
  const found = importanceOf(parameters, values);
  expect(found.map((one) => one.name)).toEqual(["lr", "width", "optimizer", "drop"]);
  for (const one of found) {
    expect(Math.abs(one.share - fanova[one.name]!)).toBeLessThan(0.1);
    expect(one.low).toBeLessThanOrEqual(one.share + 0.02);
    expect(one.high).toBeGreaterThanOrEqual(one.share - 0.02);
  }
  const sum = found.reduce((all, one) => all + one.share, 0);
  expect(sum).toBeGreaterThan(0.9);
  expect(sum).toBeLessThanOrEqual(1);
});

test("the direction of a number, and the words with the highest and lowest results, are told", () => {
  const { parameters, values } = trials(200, (x) => 2 * x);
  const of = new Map(importanceOf(parameters, values).map((one) => [one.name, one]));
  expect(of.get("lr")!.direction).toBeGreaterThan(0.5);
  expect(of.get("width")!.direction).toBeLessThan(-0.3);
  expect(of.get("optimizer")).toMatchObject({ highest: "sgd", lowest: "adam" });
});

test("parameters that change together share what they explain, and few trials are said to be too few", () => {
  const parameters = Array.from({ length: 12 }, (_, n) => ({ lr: [0.1, 0.2, 0.3][n % 3], width: [8, 16, 32][n % 3] }));
  const found = importanceOf(parameters, parameters.map((one) => one.lr! * 3 + one.width!));
  expect(found.reduce((all, one) => all + one.share, 0)).toBeLessThanOrEqual(1);
  expect(tooFew(["lr", "width"], 12)).toEqual(["lr", "width"]);
  expect(tooFew(["lr", "width"], 20)).toEqual([]);
});

test("nothing is told of noise, of equal results, and of parameters that never change", () => {
  let state = 3;
  const draw = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
  const noise = importanceOf(Array.from({ length: 300 }, () => ({ a: draw(), b: draw() })), Array.from({ length: 300 }, draw));
  for (const one of noise) expect(one.share).toBeLessThan(0.1);
  expect(importanceOf([{ a: 1 }, { a: 2 }, { a: 3 }], [5, 5, 5])).toEqual([]);
  expect(importanceOf([{ a: 1 }, { a: 1 }, { a: 1 }, { a: 1 }], [1, 2, 3, 4])).toEqual([]);
});

test("of many runs and parameters, a step weighs one sample at most, and all come to the same as at once", () => {
  let state = 3;
  const draw = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
  const parameters = Array.from({ length: 300 }, () => Object.fromEntries(Array.from({ length: 6 }, (_, n) => [`p${n}`, draw()])));
  const values = parameters.map((one) => one.p0! * 2 + draw());
  const steps = importanceSteps(parameters, values);
  let pauses = 0;
  let step = steps.next();
  for (; !step.done; step = steps.next()) pauses += 1;
  // A pause for each parameter as it is grouped and as its direction is found, and for each sample.
  expect(pauses).toBeGreaterThan(6 + 20 + 6);
  expect(step.value[0]!.name).toBe("p0");
  expect(step.value).toEqual(importanceOf(parameters, values));
});
