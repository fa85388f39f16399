import { describe, expect, test } from "vitest";
import { checkpointLabel, inputsOf, isAbout, otherCode, readText, requestOf, standsFor, textFor, valueAt, withValue } from "../src/screens/job/run-again-form";

const FILE = `name: first
command: python train.py
# how fast
inputs:
  lr: 0.1
  seed: '07'
  flag: true
  data: {type: uri_folder, path: ./data}
  width: {type: integer, default: 64}
resources:
  instance_count: 2
`;

describe("the form of a job that is run again", () => {
  const text = textFor(FILE);

  test("has each input with its value, and leaves the name to the new job", () => {
    expect(inputsOf(text).map((one) => [one.label, one.value, one.path.join(".")])).toEqual([
      ["lr", "0.1", "inputs.lr"], ["seed", "07", "inputs.seed"], ["flag", "true", "inputs.flag"],
      ["data", "./data", "inputs.data.path"], ["width", "64", "inputs.width.default"],
    ]);
    expect(text).not.toContain("first");
    expect(text).toContain("# how fast");
  });

  test("keeps numbers numbers and texts texts, also over what is half typed", () => {
    let changed = text;
    for (const typed of ["", "5", "5e", "5e-", "5e-3"]) changed = withValue(changed, ["inputs", "lr"], typed, text);
    for (const typed of ["", "0", "08"]) changed = withValue(changed, ["inputs", "seed"], typed, text);
    changed = withValue(changed, ["inputs", "width", "default"], "128", text);
    const read = readText(changed) as { document: { inputs: Record<string, unknown> } };
    expect(read.document.inputs).toEqual({ lr: 0.005, seed: "08", flag: true, data: { type: "uri_folder", path: "./data" }, width: { type: "integer", default: 128 } });
    expect(changed).toContain("# how fast");
  });

  test("an input that is emptied stays; another key that is emptied goes, with its table", () => {
    expect(inputsOf(withValue(text, ["inputs", "lr"], "")).map((one) => one.label)).toContain("lr");
    const without = withValue(text, ["resources", "instance_count"], "");
    expect(without).not.toContain("resources");
    expect(valueAt(withValue(without, ["resources", "instance_count"], "3"), ["resources", "instance_count"])).toBe("3");
  });

  test("says where a text can't be read, and changes nothing of it", () => {
    const broken = "command: [1,\n  a: b\n";
    expect(readText(broken)).toMatchObject({ problem: { where: expect.stringMatching(/^line \d/) } });
    expect(withValue(broken, ["compute"], "x")).toBe(broken);
    expect(readText("just words")).toHaveProperty("problem");
    expect(readText("")).toHaveProperty("problem");
  });

  test("puts a problem beside its key", () => {
    const problem = (where: string) => ({ what: "", where, fix: "" });
    expect(isAbout(problem("job.resources.instance_count"), ["resources", "instance_count"])).toBe(true);
    expect(isAbout(problem("job.inputs.data"), ["inputs", "data", "path"])).toBe(true);
    expect(isAbout(problem("inputs.data.path"), ["inputs", "data", "path"])).toBe(true);
    expect(isAbout(problem("inputs.data2"), ["inputs", "data"])).toBe(false);
    expect(isAbout(problem(""), ["compute"])).toBe(false);
  });
});

test("what is half typed stays as it is typed, and gives way to another value", () => {
  for (const [typed, value] of [["0.", "0"], ["0.00", "0"], ["0.005", "0.005"], ["1e", "1e"], ["", ""], ["null", ""], ["07", "07"], ["a: b", "a: b"]]) expect([typed, standsFor(typed!, value!)]).toEqual([typed, true]);
  expect(standsFor("0.1", "0.4")).toBe(false);
});

describe("the beginning of a job that is run again", () => {
  const last = { job: "first", step: 1300, saved_at: "2026-11-30T10:00:00Z", size: 1, is_certain: true, problem: "", fix: "" };

  test("says from which step it continues, and how long that was before the end", () => {
    expect(checkpointLabel(last, "2026-11-30T10:12:10Z")).toBe("from its last checkpoint (step 1,300, 12 min before it ended)");
    expect(checkpointLabel(last, "2026-11-30T10:00:09Z")).toBe("from its last checkpoint (step 1,300, when it ended)");
    expect(checkpointLabel({ ...last, step: null }, null)).toBe("from its last checkpoint");
    expect(checkpointLabel({ ...last, step: null, saved_at: null, is_certain: false }, null)).toBe("from its last checkpoint, if it saved one");
  });

  test("asks for no more than was chosen, and other code has no commit", () => {
    const document = { command: "true", properties: { "azureml.git.commit": "a", "mlflow.source.git.branch": "b", mine: "c" } };
    expect(requestOf(document, { like: "first", resume: false, code: "" })).toEqual({ document, like: "first" });
    expect(requestOf(document, { like: "first", resume: true, code: "d1" })).toEqual({
      document: { command: "true", properties: { mine: "c" } }, like: "first", resume: true, code: "d1",
    });
  });

  test("offers each other snapshot", () => {
    const codes = [{ digest: "d1", job: "a", submitted_at: "" }, { digest: "d2", job: "b", submitted_at: "" }];
    expect(otherCode(codes, "d2")).toEqual([codes[0]]);
    expect(otherCode(codes, "")).toEqual(codes);
  });
});
