/** The log in Chromium, over a scripted server: levels, a search as a filter, and a failed job's line. */

import { expect } from "vitest";
import { eventually, page, server, test, useChromium } from "./chromium-screens.mjs";
import { completed, jobOf, logOf, storyLine } from "./scripted-server.mjs";

useChromium({ width: 1440, height: 900 });

const shown = () => page.locator(".log .line-text").allInnerTexts();

function has(job, lines) {
  server.answers[`/jobs/${job.name}`] = () => ({ ...job, story: [storyLine(1, "training")] });
  server.answers[`/jobs/${job.name}/logs`] = () => logOf(lines);
}

const LINES = ["INFO step 1", "WARNING: slow disk", "ERROR: this is handled", "loss 0.5", "INFO step 2"];

test("errors and warnings are marked, and a filter leaves them alone, also by its address", async () => {
  has(jobOf("one"), LINES);
  await page.goto(`${server.origin}/ui/jobs/one?tab=logs`);
  await eventually(shown).toEqual(LINES);
  expect(await page.locator(".line.bad").allInnerTexts()).toEqual([expect.stringContaining("ERROR: this is handled")]);
  expect(await page.locator(".line.warned").allInnerTexts()).toEqual([expect.stringContaining("WARNING: slow disk")]);
  await page.getByLabel("Level").selectOption("warning");
  await eventually(shown).toEqual(["WARNING: slow disk", "ERROR: this is handled"]);
  await page.reload();
  await eventually(shown).toEqual(["WARNING: slow disk", "ERROR: this is handled"]);
  await page.getByLabel("Level").selectOption("error");
  await eventually(shown).toEqual(["ERROR: this is handled"]);
});

test("a search shows only the lines that it finds, where that is asked for, and those that come", async () => {
  has(jobOf("one"), LINES);
  await page.goto(`${server.origin}/ui/jobs/one?tab=logs`);
  await page.getByRole("searchbox", { name: "Search the log" }).fill("step");
  await page.getByRole("checkbox", { name: "only these lines" }).check();
  await eventually(shown).toEqual(["INFO step 1", "INFO step 2"]);
  expect(new URL(page.url()).searchParams.get("only")).toBe("1");
  await page.getByRole("searchbox", { name: "Search the log" }).fill("step 2");
  await eventually(shown).toEqual(["INFO step 2"]);
  await page.getByRole("searchbox", { name: "Search the log" }).fill("absent");
  await page.getByText("No line is of this kind").waitFor();
  await page.getByRole("searchbox", { name: "Search the log" }).fill("");
  await eventually(shown).toEqual(LINES);
});

test("a failed job shows its failing line without a click, behind whatever the others printed", async () => {
  const verdict = { reason: "rank_failed", sentence: "rank 0 stopped: KeyError: 1000", rank: 0, node: 0, code: 1, tail: "Traceback (most recent call last):\nKeyError: 1000", advice: "", aftermath: "" };
  const lines = ["Traceback (most recent call last):", "KeyError: 1000", ...Array.from({ length: 300 }, (_, n) => `rank 1 waits ${n}`)];
  const log = logOf(lines);
  const job = completed("bad", { state: "failed", verdict, world_size: 2 });
  has(job, lines);
  server.answers["/jobs/bad/logs"] = () => ({ ...log, pieces: log.pieces.map((piece, n) => (n < 2 ? piece : { ...piece, rank: 1, offset: piece.offset - log.pieces[2].offset })) });
  await page.goto(`${server.origin}/ui/jobs/bad`);
  const line = page.locator(".log .line.marked", { hasText: "KeyError: 1000" });
  await line.waitFor();
  const view = await page.locator(".log").boundingBox();
  const box = await line.boundingBox();
  expect(box.y).toBeGreaterThanOrEqual(view.y);
  expect(box.y + box.height).toBeLessThanOrEqual(Math.min(900, view.y + view.height));
  await page.keyboard.press("G");
  await eventually(() => page.locator(".log .line", { hasText: "rank 1 waits 299" }).count()).toBe(1);
});
