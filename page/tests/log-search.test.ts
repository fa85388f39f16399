import { expect, test } from "vitest";
import { LogLines } from "../src/screens/job/log-lines";
import { patternOf } from "../src/screens/job/log-pattern";
import { countUpTo, LogSearch } from "../src/screens/job/log-search";

const linesOf = (texts: string[]) => texts.map((text) => ({ text, isGrowing: false }));

test("a search finds what a line shows, and nothing of its control sequences", () => {
  const lines = linesOf(["plain ERROR", "er\u001b[31mror\u001b[0m", "\u001b[31mred\u001b[0m", "a\bb", ""]);
  const find = (text: string) => new LogSearch().find(lines, text ? patternOf(text, false) : undefined);
  expect(find("error")).toEqual([0, 1]);
  expect(find("31m")).toEqual([]);
  expect(find("ab")).toEqual([3]);
  expect(find("")).toEqual([]);
});

test("a search that goes on reads the lines that have arrived, and no others", () => {
  let read = 0;
  const line = (text: string) => ({ get text() { read += 1; return text; }, isGrowing: false });
  const lines = Array.from({ length: 10_000 }, (_, n) => line(n % 1000 ? "quiet" : "found"));
  const search = new LogSearch();
  expect(search.find(lines, patternOf("found", false)).length).toBe(10);
  expect(read).toBe(10_000);
  lines.push(line("found"), line("quiet"));
  expect(search.find(lines, patternOf("found", false)).slice(-2)).toEqual([9000, 10_000]);
  expect(read).toBe(10_002);
  search.find(lines, patternOf("found", false));
  expect(read).toBe(10_002);
  expect(search.find(lines, patternOf("quiet", false)).length).toBe(9991);
  expect(search.find([...lines], patternOf("found", false)).length).toBe(11);
});

test("a line that grows is searched again, however many lines of other ranks have come behind it", () => {
  const log = new LogLines();
  const [search, fresh] = [new LogSearch(), () => new LogSearch().find(log.lines, patternOf("50", false))];
  let offset = 0;
  const print = (rank: number, text: string) => log.add([{ position: 1, attempt: 1, round: 1, node: 0, rank, offset: rank ? 0 : (offset += 1), text }]);
  const seen: number[][] = [];
  const lines: [number, string][] = [
    [1, "40 %"], ...Array.from({ length: 200 }, (_, n): [number, string] => [0, `line ${n}\n`]), [1, "\r50 %"], [2, "50"], [1, "\r60 %"],
    [2, "\n"], [1, "\r50 %\n"], [1, "51 %\n"],
  ];
  for (const [rank, text] of lines) {
    print(rank, text);
    expect(search.find(log.lines, patternOf("50", false))).toEqual(fresh());
    seen.push([...fresh()]);
  }
  expect(seen.slice(-6)).toEqual([[0, 51, 151], [0, 51, 151, 201], [51, 151, 201], [51, 151, 201], [0, 51, 151, 201], [0, 51, 151, 201]]);
});

test("hits up to a place are counted", () => {
  expect([-1, 0, 2, 3, 4, 9].map((place) => countUpTo([0, 3, 4], place))).toEqual([0, 1, 1, 2, 3, 3]);
  expect(countUpTo([], 3)).toBe(0);
});
