import { afterEach, expect, test, vi } from "vitest";
import { LogSource } from "../src/screens/job/log-source";
import type { LogPage, LogPiece } from "../src/types";

afterEach(() => void vi.unstubAllGlobals());

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
    const [after, limit] = [Number(words.get("after")), Number(words.get("limit"))];
    const sent: LogPiece[] = [];
    let length = 0;
    for (const piece of pieces.slice(after)) {
      if (length >= limit) break;
      sent.push(piece);
      length += piece.text.length;
    }
    const page: LogPage = { pieces: sent, after: sent.at(-1)?.position ?? after, end: pieces.length };
    return Promise.resolve(Response.json(page));
  });
  return asked;
}

test("the end of a log of large pieces is read, and not more", async () => {
  const asked = serve(Array.from({ length: 500 }, (_, n) => `${n}`.padStart((256 << 10) - 1) + "\n"));
  const source = new LogSource("job", () => undefined);
  await source.open();
  expect(asked.length).toBeLessThan(4);
  expect(source.log.lines.at(-1)!.text.trim()).toBe("499");
  expect(source.position).toBe(500);
  expect(source.first).toBe(496);
});

test("the end of a log of small pieces is read in few requests", async () => {
  const asked = serve(Array.from({ length: 20_000 }, (_, n) => `line ${n} of a rank that prints a line now and then\n`));
  const source = new LogSource("job", () => undefined);
  await source.open();
  expect(asked.length).toBeLessThan(7);
  expect(source.log.lines.at(-1)!.text).toContain("line 19999 ");
  expect(source.log.lines.length).toBeGreaterThan(2000);
  await source.earlier(true);
  expect(source.first).toBe(0);
  expect(source.log.lines.length).toBe(20_000);
  expect(source.log.lines[0]!.text).toContain("line 0 ");
});
