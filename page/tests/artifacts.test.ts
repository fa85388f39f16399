/** Files of steps, tables, histograms and headers of tensors. */

import { expect, test } from "vitest";
import { treeOf } from "../src/screens/artifacts/file-tree";
import { histogramOf, sharesOf } from "../src/screens/artifacts/heat-map";
import { allSteps, isStepFile, seriesOf, stepAt, thinned } from "../src/screens/artifacts/step-files";
import { filtered, separated, sorted, tableInJson, type TableData } from "../src/screens/artifacts/table-data";
import { array, countOf, TENSOR_FILES, type ReadPart } from "../src/screens/artifacts/tensor-files";

const RUN = "outputs/mlflow-artifacts/0123456789abcdef0123456789abcdef";
const own = (kind: string, name: string, step: number, at: number, id: string, ending: string) =>
  ({ path: `${RUN}/${kind}/${name}+step+${step}+timestamp+${at}+${id}.${ending}`, size: 10 });
const UUID = "9648b8e5-1111-2222-3333-444444444444";

test("an image of MLflow and its small copy are one, whichever way its name is written", () => {
  for (const sign of ["+", "%"]) {
    const name = `${RUN}/images/val~dogs${sign}step${sign}3${sign}timestamp${sign}17${sign}${UUID}`;
    const [series] = seriesOf([{ path: `${name}.png`, size: 9 }, { path: `${name}${sign}compressed.webp`, size: 2 }]);
    expect(series).toMatchObject({ kind: "images", name: "val/dogs", steps: [3] });
    expect(series!.files.get(3)).toEqual([{ path: `${name}.png`, size: 9, index: 0, small: `${name}${sign}compressed.webp` }]);
  }
});

test("images of a step stand in the order of ranks and places, with their captions", () => {
  const [series] = seriesOf([
    own("images", "a", 1, 5, "1-0", "png"), own("images", "a", 1, 5, "0-1", "png"), own("images", "a", 1, 5, "0-0", "jpg"),
    own("images", "a", 1, 5, "0-0", "captions.json"), own("images", "a", 10, 6, "0-0", "png"), own("images", "a", 2, 6, "0-0", "png"),
  ]);
  expect(series!.steps).toEqual([1, 2, 10]);
  expect(series!.files.get(1)!.map((one) => [one.rank, one.index, one.captions !== undefined])).toEqual([[0, 0, true], [0, 1, true], [1, 0, false]]);
});

test("a step that a rank has logged again shows what it logged last", () => {
  const [series] = seriesOf([own("texts", "a", 1, 5, "0-0", "txt"), own("texts", "a", 1, 5, "1-0", "txt"), own("texts", "a", 1, 8, "0-0", "txt")]);
  expect(series!.files.get(1)!.map((one) => one.path)).toEqual([own("texts", "a", 1, 8, "0-0", "txt").path, own("texts", "a", 1, 5, "1-0", "txt").path]);
});

test("files of other places and endings are none of a step", () => {
  expect(seriesOf([own("images", "a", 1, 1, "0-0", "svg"), own("models", "a", 1, 1, "0-0", "png"), { path: "outputs/default/a.png", size: 1 }])).toEqual([]);
  expect(isStepFile(own("tables", "a", -1, 1, "0-0", "json").path)).toBe(true);
});

test("the step that is shown is the last that isn't later", () => {
  expect([-1, 0, 4, 5, 99].map((step) => stepAt([0, 5, 10], step))).toEqual([undefined, 0, 0, 5, 10]);
  expect(allSteps(seriesOf([own("texts", "a", 10, 5, "0-0", "txt"), own("texts", "b", 9, 5, "0-0", "txt")]))).toEqual([9, 10]);
  expect(thinned([1, 2, 3, 4, 5], 3)).toEqual([1, 3, 5]);
});

test("folders of runs are left out, and told apart where there are several", () => {
  const other = RUN.replace("0123", "ffff");
  expect(treeOf([{ path: `${RUN}/model/MLmodel`, size: 1 }, { path: "outputs/default/a", size: 1 }]).map((one) => one.path)).toEqual(["logged/model/MLmodel", "outputs/default/a"]);
  expect(treeOf([{ path: `${RUN}/a`, size: 1 }, { path: `${other}/a`, size: 1 }]).map((one) => one.path)).toEqual(["logged/run 01234567/a", "logged/run ffff4567/a"]);
});

test("separated values are read with their quotes, line ends and empty cells", async () => {
  const rows = async (text: string, separator: "," | "\t" = ",", isCut = false) => {
    const { columns, rows: rest } = await separated(text, separator, isCut);
    return [columns, ...rest];
  };
  expect(await rows('a,"b ""c"", d"\n1,\n')).toEqual([["a", 'b "c", d'], ["1", ""]]);
  expect(await rows("a\tb\n1\t2\n3", "\t", true)).toEqual([["a", "b"], ["1", "2"]]);
  expect(await rows('a,b\r\n"x\ny",2\r\n\r\n3,4')).toEqual([["a", "b"], ["x\ny", "2"], ["3", "4"]]);
  expect(await rows('a,b\n1,')).toEqual([["a", "b"], ["1", ""]]);
  expect(await rows('a,b\n"open')).toEqual([["a", "b"], ["open"]]);
  expect(await rows("")).toEqual([[]]);
});

const DATA: TableData = { columns: ["name", "loss"], rows: [["cat", 0.5], ["dog", "0.25"], ["Cat b", null], ["", "NaN"], ["x", "high"]], note: "" };

test("rows are filtered by words in any cell and by conditions on columns", () => {
  expect(filtered(DATA, "")).toEqual([0, 1, 2, 3, 4]);
  expect(filtered(DATA, "cat")).toEqual([0, 2]);
  expect(filtered(DATA, "loss<0.5")).toEqual([1]);
  expect(filtered(DATA, "LOSS<=0.5 name=cat")).toEqual([0]);
  expect(filtered(DATA, "loss!=0.50")).toEqual([1, 2, 3, 4]);
  expect(filtered(DATA, "unknown<3")).toEqual([]);
});

test("rows are sorted with numbers before texts and empty cells last in both directions", () => {
  const all = [0, 1, 2, 3, 4];
  expect(sorted(DATA, all, 1, false)).toEqual([1, 0, 4, 3, 2]);
  expect(sorted(DATA, all, 1, true).at(-1)).toBe(2);
  expect(sorted(DATA, all, 0, true)).toEqual([4, 1, 2, 0, 3]);
});

test("tables in JSON are MLflow's, records, or none", () => {
  expect(tableInJson({ columns: ["a"], data: [[1], [{ b: 2n }]] })).toEqual({ columns: ["a"], rows: [[1], ['{"b":2}']], note: "" });
  expect(tableInJson([{ a: 1 }, { b: "x" }])).toEqual({ columns: ["a", "b"], rows: [[1, null], [null, "x"]], note: "" });
  for (const value of [[], [1], { a: 1 }, "a", null, { columns: ["a"], data: [1] }]) expect(tableInJson(value)).toBeUndefined();
});

test("a histogram's values are shared among the bins of the map", () => {
  const histogram = { counts: [1, 3], edges: [0, 1, 2] };
  expect(sharesOf(histogram, 0, 2, 4)).toEqual([0.125, 0.125, 0.375, 0.375]);
  expect(sharesOf(histogram, 0, 4, 2).reduce((all, one) => all + one)).toBeCloseTo(1);
  expect(histogramOf({ counts: [1], edges: [0, 1] })).toEqual({ counts: [1], edges: [0, 1] });
  for (const value of [null, {}, { counts: [], edges: [0] }, { counts: [1], edges: [0] }, { counts: [Infinity], edges: [0, 1] }]) expect(histogramOf(value)).toBeUndefined();
});

const partsOf = (bytes: Uint8Array<ArrayBuffer>): ReadPart => async (from, length) => new DataView(bytes.slice(from, from + length).buffer);
const bytesOf = (text: string): Uint8Array<ArrayBuffer> => Uint8Array.from(text, (one) => one.charCodeAt(0));

test("the header of safetensors names its tensors, and a false length is refused", async () => {
  const header = '{"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}';
  const file = bytesOf(`${String.fromCharCode(header.length)}${"\0".repeat(7)}${header}`);
  const tensors = await TENSOR_FILES.safetensors!(partsOf(file), file.length);
  expect(tensors).toEqual([{ name: "w", type: "F32", shape: [2, 3] }]);
  expect(countOf(tensors)).toBe(6);
  await expect(TENSOR_FILES.safetensors!(partsOf(bytesOf("\xff".repeat(16))), 16)).rejects.toThrow("no valid length");
});

test("the header of an array of NumPy names its shape and type", () => {
  const header = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }\n";
  expect(array(new DataView(bytesOf(`\x93NUMPY\x01\0${String.fromCharCode(header.length)}\0${header}`).buffer))).toEqual({ type: "<f4", shape: [3, 4] });
  expect(() => array(new DataView(bytesOf("something else").buffer))).toThrow("NumPy");
});

test("initializers of ONNX are named without their numbers", async () => {
  // dims 2 and 3, data_type 1, name "w", raw_data; in a graph, in a model.
  const tensor = "\x08\x02\x08\x03\x10\x01\x42\x01w\x4a\x03abc";
  const graph = `\x2a${String.fromCharCode(tensor.length)}${tensor}`;
  const file = bytesOf(`\x08\x07\x3a${String.fromCharCode(graph.length)}${graph}`);
  expect(await TENSOR_FILES.onnx!(partsOf(file), file.length)).toEqual([{ name: "w", type: "float32", shape: [2, 3] }]);
});
