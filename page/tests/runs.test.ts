import { describe, expect, test } from "vitest";
import given from "../../tests/unit/core/run_orders.json";
import { groupsOf, sortedRuns, spreadOf } from "../src/screens/runs/run-order";
import { choiceOf, completionOf, partsOf, pathOf, sortedBy, sortOf, sortText, valueText } from "../src/screens/runs/run-query";
import type { RunCell, RunField, RunRow } from "../src/types";

/** What the server's tests expect, too. */
const cases = given as unknown as {
  orders: { values: RunCell[]; up: RunCell[]; without: RunCell[] }[];
  groups: { values: RunCell[]; groups: [RunCell, number][] }[];
  spreads: { values: RunCell[]; mean: number; deviation: number | null }[];
};

const runOf = (job: string, ...values: RunCell[]): RunRow =>
  ({ job, title: job, experiment: "e", state: "completed", reason: "", type: "command", is_archived: false, values });
const runsOf = (values: RunCell[]): RunRow[] => values.map((value, n) => runOf(`r${n}`, value));

describe("the order of runs", () => {
  test("is that of the server, in both directions", () => {
    for (const { values, up, without } of cases.orders) {
      for (const descends of [false, true]) {
        const ordered = sortedRuns(runsOf(values), ["x"], [{ field: "x", descends }]).map((run) => run.values[0]);
        expect(ordered).toEqual([...(descends ? [...up].reverse() : up), ...without]);
      }
    }
  });

  test("keeps runs that are equal as they are, and the second column decides between them", () => {
    const runs = [runOf("a", "x", 1), runOf("b", "y", 2), runOf("c", "x", 3), runOf("d", "x", 1)];
    const order = (text: string) => sortedRuns(runs, ["s", "n"], sortOf(text)).map((run) => run.job).join("");
    expect(order("s")).toBe("acdb");
    expect(order("s desc, n desc")).toBe("bcad");
    expect(order("unknown")).toBe("abcd");
  });

  test("groups and spreads are those of the server", () => {
    for (const { values, groups } of cases.groups) expect(groupsOf(runsOf(values), 0).map((group) => [group.value, group.runs.length])).toEqual(groups);
    for (const { values, mean, deviation } of cases.spreads) {
      const spread = spreadOf(runsOf(values), 0);
      expect([spread.mean, spread.deviation ?? null]).toEqual([mean, deviation]);
    }
    expect(spreadOf(runsOf(["sgd", "sgd"]), 0).common).toBe("sgd");
    expect(spreadOf(runsOf(["sgd", null]), 0)).toMatchObject({ common: null, count: 0 });
  });
});

describe("the words of the address", () => {
  test("a list is parted at its commas, not at those in quotes", () => {
    expect(partsOf('state, tag."a, b",metric.`x,y` , ')).toEqual(["state", 'tag."a, b"', "metric.`x,y`"]);
  });

  test("a click on a column sorts numbers from the largest, then from the smallest, then not", () => {
    const clicks = (isNumber: boolean, isAdded: boolean, before: string) => {
      const texts = [];
      for (let keys = sortOf(before), n = 0; n < 3; n += 1) texts.push(sortText((keys = sortedBy(keys, "x", isNumber, isAdded))));
      return texts;
    };
    expect(clicks(true, false, "name")).toEqual(["x desc", "x", ""]);
    expect(clicks(false, false, "")).toEqual(["x", "x desc", ""]);
    expect(clicks(true, true, "name")).toEqual(["name, x desc", "name, x", "name"]);
  });

  test("a saved view stands for its words, and words of the address stand before it", () => {
    const view = { name: "v", columns: "a", where: "b", sort: "c", group_by: "d", person: "", saved_at: "" };
    expect(choiceOf(new URLSearchParams("view=v"), view)).toEqual({ columns: "a", where: "b", sort: "c", group: "d" });
    expect(choiceOf(new URLSearchParams("view=v&sort=x"), view)).toEqual({ columns: "", where: "", sort: "x", group: "" });
  });

  test("what was saved before, with a user as person, is read as it was meant", () => {
    const view = { name: "v", columns: "person,tag.person, person", where: "person = ada", sort: "person desc", group_by: "person", person: "", saved_at: "" };
    expect(choiceOf(new URLSearchParams(), view)).toEqual({ columns: "user,tag.person, user", where: "person = ada", sort: "user desc", group: "user" });
  });

  test("an experiment's name may have slashes", () => {
    expect(pathOf("vision/cifar", "runs")).toBe("/experiments/vision%2Fcifar/runs");
    expect(pathOf("", "run-fields")).toBe("/run-fields");
  });
});

describe("what may follow in a filter", () => {
  const fields: RunField[] = [["metric.loss", "number"], ["metric.val/loss", "number"], ["input.lr", "any"], ["state", "text"]]
    .map(([field, unit]) => ({ field: field!, unit: unit!, runs: 1, values: 1, is_default: false, is_primary: false, goal: null }));
  const values = (field: string) => (field === "state" ? ["failed", "completed", "a b"] : []);
  const after = (text: string) => completionOf(text, text.length, fields, values);

  test.each([
    ["", ["metric.loss", "metric.val/loss", "input.lr", "state"]],
    ["met", ["metric.loss", "metric.val/loss"]],
    ["loss", ["metric.loss", "metric.val/loss"]],
    ["metric.loss ", ["<", "<=", ">", ">=", "=", "!=", "IS NULL", "IS NOT NULL"]],
    ["state i", ["ILIKE", "IN (", "IS NULL", "IS NOT NULL"]],
    ["state = ", ["failed", "completed", "'a b'"]],
    ["state = f", ["failed"]],
    ["state in (failed, c", ["completed"]],
    ["state = failed ", ["and"]],
    ["state = failed and inp", ["input.lr"]],
  ])("after %s", (text, items) => {
    expect(after(text).items.slice(0, items.length)).toEqual(items);
  });

  test("what is taken replaces the word before the caret", () => {
    const text = "state = failed and inp";
    expect(after(text)).toMatchObject({ from: text.length - 3, to: text.length });
    expect(valueText("it's")).toBe("'it''s'");
  });
});
