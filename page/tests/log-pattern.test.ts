import { expect, test } from "vitest";
import { cut, linked, pieces } from "../src/parts/ansi";
import type { LogLine } from "../src/screens/job/log-lines";
import { patternOf, rangesIn } from "../src/screens/job/log-pattern";
import { WrappedRows } from "../src/screens/job/log-rows";
import { whoseOf } from "../src/screens/job/logs";

test("a text is found in any case of letters, and a regular expression where it matches", () => {
  expect(patternOf("LOSS", false).spanOf("train loss 0.5")).toEqual([6, 10]);
  expect(patternOf("a.c", false).isIn("abc")).toBe(false);
  expect(patternOf("loss=\\d+", true).spanOf("x Loss=12 y")).toEqual([2, 9]);
  expect(patternOf("absent", true).spanOf("x")).toBe(undefined);
});

test("an expression that can't be read finds nothing and says why", () => {
  const pattern = patternOf("(", true);
  expect(pattern.problem).toMatch(/Unterminated group/);
  expect(pattern.isIn("(")).toBe(false);
});

test("numbers of ranks are single ones and ranges; anything else is refused", () => {
  expect(rangesIn("0-3, 7")).toEqual([[0, 3], [7, 7]]);
  expect(rangesIn("")).toEqual([]);
  for (const bad of ["a", "3-1", "1-", "-1", "1.5", "0-3;7"]) expect(rangesIn(bad)).toBe(undefined);
});

test("lines are of several ranks, of nodes, or of nodes' own logs", () => {
  const line = (rank: number, node: number) => ({ rank, node });
  const all = [line(0, 0), line(1, 0), line(2, 1), line(3, 1), line(-1, 0), line(-1, 1)];
  const chosen = (rank: string, node = "") => all.filter(whoseOf({ rank, node })).map((one) => `${one.node}:${one.rank}`);
  expect(chosen("0,2-3")).toEqual(["0:0", "1:2", "1:3"]);
  expect(chosen("", "1")).toEqual(["1:2", "1:3", "1:-1"]);
  expect(chosen("node", "0")).toEqual(["0:-1"]);
  expect(chosen("0-9", "1")).toEqual(["1:2", "1:3"]);
  expect(chosen("nonsense")).toEqual([]);
});

const lineOf = (text: string, isGrowing = false): LogLine => ({ attempt: 1, round: 1, node: 0, rank: 0, offset: 0, text, at: 0, isGrowing });

test("a wrapped line takes the rows that it needs, and those behind it move when it grows", () => {
  const lines = [lineOf("a".repeat(25)), lineOf(""), lineOf("b".repeat(5), true), lineOf("c".repeat(11))];
  const rows = new WrappedRows(lines, 10).update();
  expect(rows.length).toBe(3 + 1 + 1 + 2);
  expect([0, 2, 3, 4, 5, 6].map((row) => rows.lineOf(row))).toEqual([0, 0, 1, 2, 3, 3]);
  expect(rows.partOf(2)).toEqual([20, 30]);
  expect(rows.rowOf(3)).toBe(5);
  Object.assign(lines[2]!, { text: "b".repeat(15), isGrowing: false });
  lines.push(lineOf("d"));
  rows.update();
  expect(rows.rowOf(3)).toBe(6);
  expect(rows.length).toBe(3 + 1 + 2 + 2 + 1);
});

test("terminal colours stay where a line is cut", () => {
  expect(cut(pieces("ab\u001b[31mcdef\u001b[0mg"), [1, 5])).toEqual([{ text: "b", class: "" }, { text: "cde", class: expect.stringContaining("ansi-1") }]);
});

test("addresses of the web are links without what ends a sentence, and nothing else is one", () => {
  const links = (text: string) => linked(text).flatMap((one) => (typeof one === "string" ? [] : [(one.props as { href: string }).href]));
  expect(links("see https://example.org/a?b=1, (http://x.org/c).")).toEqual(["https://example.org/a?b=1", "http://x.org/c"]);
  expect(links("javascript://x data:// ftp://a.b file:///etc")).toEqual([]);
  expect(linked("plain")).toEqual(["plain"]);
});
