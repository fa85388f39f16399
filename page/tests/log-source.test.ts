import { afterEach, expect, test, vi } from "vitest";
import { addressOf } from "../src/screens/job/log-lines";
import { LogSource } from "../src/screens/job/log-source";
import { stream } from "../src/stream";
import type { LogPage, LogPiece } from "../src/types";

vi.setConfig({ testTimeout: 120_000 });

afterEach(() => {
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

/** A server whose job has printed these pieces of one log; returns the addresses that it was asked. */
function serve(texts: string[]): string[] {
  const asked: string[] = [];
  let offset = 0;
  const pieces = texts.map((text, n): LogPiece => {
    const piece = { position: n + 1, attempt: 1, round: 1, node: 0, rank: 0, offset, text };
    offset += text.length;
    return piece;
  });
  vi.stubGlobal("fetch", (address: string) => {
    asked.push(address);
    const words = new URL(address, "http://server").searchParams;
    const tail = Number(words.get("tail"));
    if (tail) return Promise.resolve(Response.json(endOf(pieces, tail)));
    const [after, limit] = [Number(words.get("after")), Number(words.get("limit"))];
    const sent: LogPiece[] = [];
    let length = 0;
    for (const piece of pieces.slice(after)) {
      if (length >= limit) break;
      sent.push(piece);
      length += piece.text.length;
    }
    const page: LogPage = { pieces: sent, after: sent.at(-1)?.position ?? after, end: pieces.length, first: 0 };
    return Promise.resolve(Response.json(page));
  });
  return asked;
}

/** The last pieces, the first of them cut to whole lines where that leaves enough. */
function endOf(pieces: LogPiece[], tail: number): LogPage {
  let [n, length] = [pieces.length, 0];
  while (n > 0 && length < tail) length += pieces[--n]!.text.length;
  const [cut, ...whole] = pieces.slice(n);
  const at = cut!.text.indexOf("\n", length - tail) + 1;
  const isCut = at > 0 && at < cut!.text.length;
  const kept = isCut ? { ...cut!, offset: cut!.offset + at, text: cut!.text.slice(at) } : cut!;
  return { pieces: [kept, ...whole], after: pieces.length, end: pieces.length, first: isCut ? cut!.position : cut!.position - 1 };
}

test("a piece that was cut at first is read whole with what is older", async () => {
  const lines = Array.from({ length: 9000 }, (_, n) => `line ${n} of a rank that prints many lines\n`);
  const asked = serve([lines.slice(0, 3000).join(""), lines.slice(3000, 8000).join(""), lines.slice(8000).join("")]);
  const source = new LogSource("job", () => undefined);
  await source.open();
  expect(asked.length).toBe(1);
  expect(source.first).toBe(2);
  expect(source.log.lines.length).toBeLessThan(2500);
  const earlier = new Set(source.log.lines.map(addressOf));
  await source.earlier(true);
  expect(source.log.lines.map((line) => `${line.text}\n`)).toEqual(lines);
  expect(source.log.lines.filter((line) => earlier.has(addressOf(line))).length).toBe(earlier.size);
});

test("the end of a log of large pieces is read, and not more", async () => {
  const asked = serve(Array.from({ length: 500 }, (_, n) => `${n}`.padStart((256 << 10) - 1) + "\n"));
  const source = new LogSource("job", () => undefined);
  await source.open();
  expect(asked.length).toBeLessThan(4);
  expect(source.log.lines.at(-1)!.text.trim()).toBe("499");
  expect(source.position).toBe(500);
  expect(source.first).toBe(499);
});

test("the end of a log of small pieces is read in few requests", async () => {
  const asked = serve(Array.from({ length: 20_000 }, (_, n) => `line ${n} of a rank that prints a line now and then\n`));
  const source = new LogSource("job", () => undefined);
  await source.open();
  expect(asked.length).toBeLessThan(7);
  expect(source.log.lines.at(-1)!.text).toContain("line 19999 ");
  expect(source.log.lines.length).toBeGreaterThan(1000);
  await source.earlier(true);
  expect(source.first).toBe(0);
  expect(source.log.lines.length).toBe(20_000);
  expect(source.log.lines[0]!.text).toContain("line 0 ");
});

/** A source that has its job's stream, and what that stream brings. */
function followed(maxText: number) {
  const heard: ((piece: LogPiece) => void)[] = [];
  vi.spyOn(stream, "onJob").mockImplementation((_job, kind, listener) => {
    if (kind === "log") heard.push(listener as never);
    return () => undefined;
  });
  return { source: new LogSource("job", () => undefined, maxText), bring: (piece: LogPiece) => heard.forEach((listener) => listener(piece)) };
}

test("a log that is watched for long keeps its newest lines", async () => {
  const lines = Array.from({ length: 400 }, (_, n) => `line ${n} of a rank that prints for days\n`);
  serve(lines);
  const { source, bring } = followed(8000);
  await source.open();
  await source.earlier(true);
  let offset = lines.join("").length;
  for (let n = 400; n < 800; n += 1) {
    bring({ position: n + 1, attempt: 1, round: 1, node: 0, rank: 0, offset, text: `line ${n} of a rank that prints for days\n` });
    offset += `line ${n} of a rank that prints for days\n`.length;
    if (n % 50 === 49) await vi.waitFor(() => expect(source.log.lines.at(-1)!.text).toContain(`line ${n} `), 60_000);
  }
  await vi.waitFor(() => expect(source.log.lines.length).toBeLessThan(8000 / 30), 60_000);
  expect(source.first).toBe(800 - source.log.lines.length);
  expect(source.log.lines[0]!.text).toContain(`line ${source.first} `);
  source.close();
});

test("a log that is as long as a browser is asked to keep isn't read any further", async () => {
  const asked = serve(Array.from({ length: 500 }, (_, n) => `${n}`.padStart((256 << 10) - 1) + "\n"));
  const source = new LogSource("job", () => undefined, 100 << 10);
  await source.open();
  expect([source.isFull, source.first]).toEqual([true, 499]);
  const before = asked.length;
  await source.earlier(true);
  expect(asked.length).toBe(before);
});

test("lines that nobody has asked for are read up to a quarter of what a browser is asked to keep, and all when asked", async () => {
  serve(Array.from({ length: 1500 }, (_, n) => `${n}`.padStart((8 << 10) - 1) + "\n"));
  const source = new LogSource("job", () => undefined, 8 << 20);
  await source.open();
  for (let n = 0; n < 12; n += 1) await source.seek();
  expect(source.canSeek).toBe(false);
  const shown = source.log.lines.length * (8 << 10);
  expect(shown).toBeGreaterThanOrEqual(2 << 20);
  expect(shown).toBeLessThan(4 << 20);
  await source.seek(true);
  expect(source.isFull).toBe(true);
});

test("lines that were let go aren't read again unasked", async () => {
  serve(Array.from({ length: 400 }, (_, n) => `line ${n} of a rank that prints for days\n`));
  const { source, bring } = followed(8000);
  await source.open();
  await source.earlier(true);
  for (let n = 400; n < 600; n += 1) bring({ position: n + 1, attempt: 1, round: 1, node: 0, rank: 0, offset: n * 40, text: `line ${n} of a rank that prints for days\n` });
  await vi.waitFor(() => expect(source.log.lines.length).toBeLessThan(8000 / 30), 60_000);
  const { first } = source;
  expect(first).toBeGreaterThan(0);
  await source.seek();
  await source.seek(true);
  expect(source.first).toBe(first);
  source.close();
});
