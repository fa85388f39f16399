import { expect, test } from "vitest";
import { belowLogText, centralRange, groupOf, marksText, outliersText } from "../src/parts/honest-curves";
import { drawingOf } from "../src/screens/job/metric-card";

const curve = (values: (number | string)[], label = "rank 0") => ({ label, x: values.map((_, n) => n), times: values.map((_, n) => 1000 + n), values });
const loss = Array.from({ length: 120 }, (_, n) => 2 - n / 100);
const atStep = (x: number) => `at step ${x}`;
const look = { toX: undefined, isEach: false, isLog: false, smooth: 0, nounOf: "ranks" };

test("a spike doesn't press the other points flat, and is named", () => {
  const spiked = curve(loss.map((value, n) => (n === 60 ? 3e4 : value)));
  const [low, high] = centralRange([spiked])!;
  expect([low, high]).toEqual([Math.min(...loss), Math.max(...loss)]);
  expect(outliersText([spiked], [low, high], atStep)).toBe("1 point of 30000 at step 60 is above");
});

test("points beyond both ends are counted with the worst of each side", () => {
  const wild = curve(loss.map((value, n) => (n === 7 ? -900 : n === 8 ? 500 : n === 9 ? 700 : value)));
  expect(outliersText([wild], [0, 3], atStep)).toBe("2 points up to 700 at step 9 are above; 1 point of -900 at step 7 is below");
});

test.each([["a curve without a spike", loss], ["few points", [1, 2, 1e6]], ["one value", loss.map(() => 1)]])("%s is drawn whole", (_, values) => {
  expect(centralRange([curve(values)])).toBeUndefined();
});

test("values that are no numbers leave a gap and a mark, and are said", () => {
  const broken = curve(loss.map((value, n) => (n >= 91 ? "NaN" : n % 50 === 0 ? "Infinity" : value)));
  const { lines, marks } = drawingOf([broken], look);
  expect(lines[0]!.y.slice(49, 52)).toEqual([loss[49], null, loss[51]]);
  expect(marks.filter((mark) => mark.value === "Infinity").map((mark) => mark.x)).toEqual([0, 50]);
  expect(marksText(marks, atStep)).toBe("Infinity at 2 points, first at step 0; NaN at 29 points, first at step 91");
});

test("ranks that log the same are one line, and say so", () => {
  const { lines, band } = drawingOf([0, 1, 2, 3].map((rank) => curve(loss, `rank ${rank}`)), look);
  expect(lines.map((line) => line.label)).toEqual(["4 ranks agree"]);
  expect(band).toBeUndefined();
});

test("ranks that differ are their mean within the lowest and highest", () => {
  const group = groupOf([1, 2, 6].map((factor) => curve(loss.map((value) => value * factor))), "ranks")!;
  expect(group.mean.label).toBe("mean of 3 ranks");
  expect([group.low, group.mean, group.high].map((line) => line.values[0])).toEqual([2, 6, 12]);
  const { lines, band } = drawingOf([1, 2, 6].map((factor) => curve(loss.map((value) => value * factor))), { ...look, toX: (_step: number, time: number) => time });
  expect([lines[0]!.x[0], band![1].x.at(-1)]).toEqual([1000, 1119]);
});

test("a step that was logged twice counts with its last value, and two ranks are two lines", () => {
  const again = { ...curve([1, 5, 9]), x: [0, 1, 1] };
  expect(groupOf([again, curve([1, 3]), curve([1, 3])], "ranks")!.high.values).toEqual([1, 9]);
  expect(drawingOf([curve(loss), curve(loss)], look).lines).toHaveLength(2);
});

test("the smoothed line is drawn over what was logged", () => {
  const { lines } = drawingOf([curve(loss)], { ...look, smooth: 0.9 });
  expect(lines.map((line) => line.isPale ?? false)).toEqual([true, false]);
  expect(lines[0]!.y).toEqual(loss);
  const spiked = drawingOf([curve(loss.map((value, n) => (n === 60 ? 3e4 : value)))], { ...look, smooth: 0.9 });
  expect(Math.max(...spiked.lines[1]!.y.map(Number))).toBeLessThan(2.1);
});

test("points that a logarithmic axis can't show are counted", () => {
  expect(belowLogText([curve([1, 0, -2, "NaN"])])).toBe("2 points ≤ 0 can't be shown on a logarithmic axis");
  expect(belowLogText([curve(loss)])).toBe("");
});
