/** The log in Chromium, over a scripted server: levels, a search as a filter, and a failed job's line. */

import { expect } from "vitest";
import { eventually, page, server, test, useChromium, violations } from "./chromium-screens.mjs";
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

/** A log of four ranks on two nodes, a second apart. */
function hasRanks(texts, changes = {}) {
  const start = Date.parse("2026-11-20T08:00:01Z") / 1000;
  const pieces = texts.map((text, n) => ({ position: n + 1, attempt: 1, round: 1, node: n % 4 < 2 ? 0 : 1, rank: n % 4, offset: n * 1000, text: `${text}\n`, at: start + n }));
  const job = completed("many", { world_size: 4, node_count: 2, processes_per_node: 2, ...changes });
  server.answers["/jobs/many"] = { ...job, story: [storyLine(1, "training")] };
  server.answers["/jobs/many/logs"] = { pieces, after: pieces.length, end: pieces.length, first: 0 };
}

const times = () => page.locator(".log .line-time").allInnerTexts();

test("lines have times where they are asked for: of the day, or since the start; off by default", async () => {
  hasRanks(["a", "b", "c", "d"]);
  await page.goto(`${server.origin}/ui/jobs/many?tab=logs`);
  await eventually(shown).toEqual(["a", "b", "c", "d"]);
  expect(await times()).toEqual([]);
  await page.keyboard.press("t");
  await eventually(times).toEqual(["08:00:01", "08:00:02", "08:00:03", "08:00:04"]);
  await page.keyboard.press("t");
  await eventually(times).toEqual(["+0.0 s", "+1.0 s", "+2.0 s", "+3.0 s"]);
  expect(new URL(page.url()).searchParams.get("times")).toBe("since");
  await page.getByRole("combobox", { name: "Times" }).selectOption("");
  await eventually(times).toEqual([]);
});

test("several ranks, and nodes, are shown at once, also by the address", async () => {
  hasRanks(["a", "b", "c", "d", "e"]);
  await page.goto(`${server.origin}/ui/jobs/many?tab=logs&rank=0,2-3`);
  await eventually(shown).toEqual(["a", "c", "d", "e"]);
  await page.getByLabel("Ranks", { exact: true }).fill("1");
  await page.keyboard.press("Enter");
  await eventually(shown).toEqual(["b"]);
  await page.getByLabel("Whose log").selectOption("several");
  await eventually(shown).toEqual(["a", "b", "e"]);
  await page.getByLabel("Whose log").selectOption("");
  await page.getByLabel("Nodes", { exact: true }).fill("1");
  await page.keyboard.press("Enter");
  await eventually(shown).toEqual(["c", "d"]);
  await page.getByLabel("Nodes", { exact: true }).fill("1-");
  await page.keyboard.press("Enter");
  await page.getByText("No line is of this kind").waitFor();
  expect(await page.getByLabel("Nodes", { exact: true }).getAttribute("aria-invalid")).toBe("true");
});

test("numbers that are typed stay while lines come", async () => {
  hasRanks(["a", "b", "c", "d"], { state: "running", ended_at: null });
  await page.goto(`${server.origin}/ui/jobs/many?tab=logs`);
  await eventually(shown).toHaveLength(4);
  await eventually(() => [...server.streams].some((one) => one.words.get("job") === "many")).toBe(true);
  const nodes = page.getByLabel("Nodes", { exact: true });
  await nodes.pressSequentially("0");
  server.send("log", { position: 5, attempt: 1, round: 1, node: 1, rank: 3, offset: 5000, text: "e\n", at: 1 }, { job: "many", id: "5.1" });
  await eventually(shown).toHaveLength(5);
  await nodes.pressSequentially("-0");
  await page.keyboard.press("Enter");
  await eventually(shown).toEqual(["a", "b"]);
});

test("a regular expression is searched, and one that can't be read is said", async () => {
  hasRanks(["loss=0.5", "loss=nan", "other", "LOSS=12"]);
  await page.goto(`${server.origin}/ui/jobs/many?tab=logs`);
  await eventually(shown).toHaveLength(4);
  await page.getByRole("searchbox", { name: "Search the log" }).fill("loss=\\d");
  await page.getByText("none", { exact: false }).first().waitFor();
  await page.getByRole("checkbox", { name: "regex" }).check();
  await page.getByRole("checkbox", { name: "only these lines" }).check();
  await eventually(shown).toEqual(["loss=0.5", "LOSS=12"]);
  expect(await page.locator(".log mark").allInnerTexts()).toEqual(["loss=0", "LOSS=1"]);
  await page.getByRole("searchbox", { name: "Search the log" }).fill("loss=(");
  await page.getByRole("alert").filter({ hasText: "Unterminated group" }).waitFor();
});

test("long lines wrap, keep their address, and the failing line is still in sight", async () => {
  const long = "word ".repeat(200).trim();
  hasRanks([...Array.from({ length: 60 }, () => long), "the last line"]);
  await page.goto(`${server.origin}/ui/jobs/many?tab=logs`);
  const box = page.locator(".log");
  await eventually(() => page.locator(".log .line", { hasText: "the last line" }).count()).toBe(1);
  expect(await box.evaluate((one) => one.scrollWidth > one.clientWidth)).toBe(true);
  await page.keyboard.press("w");
  await eventually(() => box.evaluate((one) => one.scrollWidth <= one.clientWidth)).toBe(true);
  await eventually(() => page.locator(".log .line", { hasText: "the last line" }).isVisible()).toBe(true);
  await box.evaluate((one) => (one.scrollTop = 0));
  const rows = page.locator(".log .line");
  await eventually(async () => (await rows.first().innerText()).trim().startsWith("0")).toBe(true);
  const texts = await page.locator(".log .line-text").allInnerTexts();
  expect(texts.slice(0, 12).join("")).toContain(long.slice(0, 900));
  await rows.nth(1).locator("button").click();
  await eventually(() => new URL(page.url()).searchParams.get("at")).toBe("1.1.0.0.0");
  await eventually(() => page.locator(".log .line.marked").count()).toBeGreaterThan(1);
});

test("addresses of the web are links to a tab of their own, and a file of all logs can be had", async () => {
  hasRanks(["see https://example.org/run?x=1.", "<a href=javascript:alert(1)>x</a>", "c", "d"]);
  await page.goto(`${server.origin}/ui/jobs/many?tab=logs`);
  const link = page.locator(".log a");
  await link.first().waitFor();
  expect(await link.count()).toBe(1);
  expect(await link.evaluate((one) => [one.getAttribute("href"), one.rel, one.target])).toEqual(["https://example.org/run?x=1", "noopener noreferrer", "_blank"]);
  const all = page.getByRole("link", { name: "Download all" });
  expect(await all.getAttribute("href")).toBe("/api/v1/jobs/many/log-text");
  await page.keyboard.press("t");
  await eventually(() => all.getAttribute("href")).toBe("/api/v1/jobs/many/log-text?times=true");
});

test("the log fills the window and goes back by a key, and every choice is in the list of keys", async () => {
  hasRanks(Array.from({ length: 100 }, (_, n) => `line ${n}`));
  await page.goto(`${server.origin}/ui/jobs/many?tab=logs`);
  await eventually(async () => (await shown()).length).toBeGreaterThan(10);
  const height = async () => (await page.locator(".log").boundingBox()).height;
  const before = await height();
  await page.keyboard.press("m");
  await eventually(async () => (await height()) > before + 100).toBe(true);
  expect((await page.locator(".logs").boundingBox()).height).toBe(900);
  expect(await violations()).toEqual([]);
  await page.keyboard.press("Escape");
  await eventually(height).toBe(before);
  await page.keyboard.press("v");
  await eventually(() => new URL(page.url()).searchParams.get("level")).toBe("warning");
  await page.keyboard.press("?");
  const keys = await page.locator("dl.keys").innerText();
  for (const word of ["regular expression", "Wrap long lines", "Times of lines", "whole window", "Only the lines that are found", "address of the line"]) expect(keys).toContain(word);
});

test("a search is a filter over a million lines", async () => {
  const lines = Array.from({ length: 1_000_000 }, (_, n) => `step ${n} loss 0.${n % 1000}`);
  let offset = 0;
  const pieces = [];
  for (let n = 0; n < lines.length; n += 5000) {
    const text = `${lines.slice(n, n + 5000).join("\n")}\n`;
    pieces.push({ position: pieces.length + 1, attempt: 1, round: 1, node: 0, rank: 0, offset, text, at: 1 });
    offset += text.length;
  }
  hasRanks(["x"], { world_size: 1, node_count: 1 });
  server.answers["/jobs/many/logs"] = { pieces, after: pieces.length, end: pieces.length, first: 0 };
  await page.goto(`${server.origin}/ui/jobs/many?tab=logs`);
  await page.getByText("1,000,000 lines").waitFor();
  const took = await page.evaluate(() => new Promise((resolve) => {
    const began = performance.now();
    const watch = new MutationObserver(() => {
      if (!document.querySelector(".log .line-text")?.textContent.startsWith("step 7777")) return;
      watch.disconnect();
      resolve(performance.now() - began);
    });
    watch.observe(document.body, { childList: true, subtree: true, characterData: true });
    history.replaceState(null, "", `${location.pathname}?tab=logs&search=step+7777&only=1`);
    dispatchEvent(new PopStateEvent("popstate"));
  }));
  console.log(`a filter over 1,000,000 lines took ${Math.round(took)} ms`);
});
