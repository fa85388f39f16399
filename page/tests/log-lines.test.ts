import { expect, test } from "vitest";
import { addressOf, bytes, endOf, failingLine, LogLines, placeOf, visible } from "../src/screens/job/log-lines";
import type { LogPiece } from "../src/types";

let position = 0;
const piece = (text: string, rank = 0, offset = 0): LogPiece =>
  ({ position: (position += 1), attempt: 1, round: 1, node: 0, rank, offset, text });
const texts = (log: LogLines): string[] => log.lines.map((line) => line.text);

test("pieces become lines, one rank beside the other", () => {
  const log = new LogLines();
  log.add([piece("one\ntw"), piece("first\n", 1), piece("o\n", 0, 6)]);
  expect(texts(log)).toEqual(["one", "two", "first"]);
});

test("a line that is not complete is shown, and replaced when more of it arrives", () => {
  const log = new LogLines();
  log.add([piece("half")]);
  expect(texts(log)).toEqual(["half"]);
  log.add([piece(" a line\n", 0, 4)]);
  expect(texts(log)).toEqual(["half a line"]);
});

test("offsets are counted in bytes", () => {
  const log = new LogLines();
  log.add([piece("é€😀\nnext\n")]);
  expect(log.lines.map((line) => line.offset)).toEqual([0, 10]);
  expect(addressOf(log.lines[1]!)).toBe("1.1.0.0.10");
  for (const text of ["", "abc", "é", "€", "😀", "a😀é"]) expect(bytes(text)).toBe(new TextEncoder().encode(text).length);
});

test("a progress bar shows its last state", () => {
  expect(visible("10 %\r20 %\r30 %")).toBe("30 %");
  expect(visible("windows line\r")).toBe("windows line");
});

test("a line without an end is cut into several", () => {
  const log = new LogLines();
  log.add([piece("x".repeat(50_000)), piece("y\n", 0, 50_000)]);
  expect(log.lines.length).toBeGreaterThan(1);
  expect(log.lines.map((line) => line.text).join("")).toBe(`${"x".repeat(50_000)}y`);
});

test("the newline of a line that was cut makes no empty line, and empty lines after it stay", () => {
  for (const newline of ["\n", "\r\n"]) {
    const log = new LogLines();
    log.add([piece("x".repeat(20_001)), piece(`${newline}\nnext\n`, 0, 20_001)]);
    expect(log.lines.map((line) => line.text.length)).toEqual([20_001, 0, 4]);
    expect(log.lines.at(-1)!.offset).toBe(20_001 + newline.length + 1);
  }
});

test("the failing line is the last of the verdict's tail, of that rank alone", () => {
  const log = new LogLines();
  log.add([piece("ok\nValueError: no\n", 3), piece("ValueError: no\n", 1), piece("bye\n", 3, 18)]);
  expect(failingLine(log.lines, 3, "Traceback\nValueError: no\n")).toBe(1);
  expect(failingLine(log.lines, 3, "")).toBe(3);
  expect(failingLine(log.lines, 7, "")).toBe(-1);
});

test("a line is found by its address, and also by that which it had before its beginning was read", () => {
  const log = new LogLines();
  log.add([piece("one\n10 %\r20 %\r30 %\nend\n"), piece("other\n", 1), piece("half", 0, 23)]);
  expect(log.lines.map((line) => placeOf(log.lines, addressOf(line)))).toEqual([0, 1, 2, 3, 4]);
  expect(placeOf(log.lines, "1.1.0.0.9")).toBe(1);
  const rest = new LogLines();
  rest.add([piece("20 %\r30 %\nend\n", 0, 9)]);
  for (const address of ["1.1.0.0.4", "1.1.0.1.9", "2.1.0.0.9", "nowhere"]) expect(placeOf(rest.lines, address)).toBe(-1);
});

test("of a failed rank's end the traceback is shown, or else the last lines", () => {
  const traceback = 'Traceback (most recent call last):\n  File "train.py", line 14\nValueError: no';
  expect(endOf(`step 1\nstep 2\n${traceback}\n`)).toBe(traceback);
  const steps = Array.from({ length: 20 }, (_, n) => `step ${n}`);
  expect(endOf(`${steps.join("\n")}\n`)).toBe(steps.slice(8).join("\n"));
  expect(endOf(`${traceback}\n${steps.join("\n")}`)).toBe(steps.slice(8).join("\n"));
});

test("a progress bar is one line with one address however long it lasts, and the line after it has its own", () => {
  const log = new LogLines();
  let offset = 0;
  const print = (text: string) => {
    log.add([{ position: 1, attempt: 1, round: 1, node: 0, rank: 0, offset, text }]);
    offset += bytes(text);
  };
  for (let n = 0; n < 3000; n += 1) print(`\r${n} of 3000 ▓▓▓▓▓▓▓▓▓▓ 12.5 it/s`);
  print("\ndone\n");
  expect(texts(log)).toEqual(["2999 of 3000 ▓▓▓▓▓▓▓▓▓▓ 12.5 it/s", "done"]);
  expect(log.lines.map((line) => line.offset)).toEqual([0, offset - 5]);
});
