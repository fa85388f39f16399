/** Small screens, dates and headings in Chromium over a scripted server; and what axe finds there. */

import { expect } from "vitest";
import { eventually, open, page, server, test, useChromium, violations } from "./chromium-screens.mjs";
import { completed, jobOf, logOf, storyLine } from "./scripted-server.mjs";

const POINTS = Array.from({ length: 120 }, (_, n) => ({ step: n, value: n === 7 ? "NaN" : 1 / (n + 1), at: `2026-11-20T08:00:${String(n % 60).padStart(2, "0")}Z` }));
const SERIES = { name: "train/loss", rank: 0, count: 120, last: POINTS[119], min: POINTS[119], max: POINTS[0] };

useChromium({ width: 390, height: 844, answers: () => ({
  "/page/session": { action_token: "", person: "ada", role: "owner", server: "gpu-server", version: "0.3.0" }, "/quotas/use": { uses: [] },
  "/jobs/one/metrics": { job: "one", run: "r", experiment: "tests", status: "", series: [SERIES], params: {}, tags: {} },
  "/jobs/one/metrics/curves": [{ name: "train/loss", rank: 0, points: POINTS }], "/experiments/tests/charts": [], "/jobs/one/files": [],
  "/jobs/one/overview": { job: "one", held_s: 1, slot_hours: 1, gpu_hours: 0, lost_s: 0, inputs: {}, parameters: {}, note: "", series: [SERIES], standing: null, use: {} },
  "/jobs/one/definition": { document: {}, text: "command: a", plan: {} }, "/jobs/one/logs": logOf(["a line"]),
}) });

const hasJob = (job, story = [storyLine(1, "training")]) => (server.answers[`/jobs/${job.name}`] = { ...job, story });
const primary = { name: "val/accuracy", value: 0.9123, step: 119, goal: "maximize", best: 0.92, best_step: 80, source: "guess" };

test("a phone's list has one row of filters and at least six jobs, and its filters unfold", async () => {
  const verdict = { reason: "rank_failed", sentence: "rank 2 on node 1 stopped with exit code 1: KeyError: 1000 is not in the table", rank: 2, node: 1, code: 1, tail: "", advice: "", aftermath: "" };
  const jobs = Array.from({ length: 12 }, (_, n) => [
    completed(`cifar-${n}`, { primary }), jobOf(`live-${n}`, { primary }),
    completed(`bad-${n}`, { state: "failed", sentence: verdict.sentence, verdict, primary }),
  ][n % 3]);
  server.answers["/jobs"] = { jobs, after: null };
  server.answers["/curves"] = jobs.map((job) => ({ job: job.name, name: "val/accuracy", rank: 0, steps: [1, 2, 3], values: [0.1, 0.5, 0.9] }));
  await open("/");
  const rows = page.locator("table.jobs tbody tr");
  await eventually(() => rows.count()).toBe(12);
  await page.locator("table.jobs svg.sparkline, table.jobs .sparkline").first().waitFor();
  const bottoms = await rows.evaluateAll((all) => all.map((one) => one.getBoundingClientRect().bottom));
  expect(bottoms.filter((bottom) => bottom <= 844).length).toBeGreaterThanOrEqual(6);
  const filters = await page.locator(".filters").boundingBox();
  expect(filters.height).toBeLessThan(48);
  expect(await page.getByRole("button", { name: "failed" }).isVisible()).toBe(false);
  await page.getByRole("button", { name: "Filters" }).click();
  await page.getByRole("button", { name: "failed" }).click();
  await eventually(() => page.getByRole("button", { name: "Filters" }).innerText()).toContain("1");
  expect(await violations()).toEqual([]);
});

test("the bar fades where more items are, and shows the present one", async () => {
  server.answers["/usage"] = { items: [], totals: {}, total: 0, free: 0, retain_s: 0 };
  await open("/server");
  const nav = page.locator("header.bar nav");
  await eventually(() => nav.getAttribute("class")).toContain("more-left");
  await eventually(() => nav.getAttribute("class")).not.toContain("more-right");
  await open("/experiments");
  await eventually(() => nav.getAttribute("class")).toContain("more-right");
});

test("a chart's values are a table of at most fifty rows, by the keyboard", async () => {
  hasJob(completed("one"));
  await open("/jobs/one?tab=metrics");
  const toggle = page.getByRole("button", { name: "Table of train/loss" });
  await toggle.focus();
  await page.keyboard.press("Enter");
  const region = page.getByRole("region", { name: "Values of train/loss" });
  await region.waitFor();
  expect(await toggle.getAttribute("aria-expanded")).toBe("true");
  const rows = await region.locator("tbody tr").evaluateAll((all) => all.map((one) => [...one.children].map((cell) => cell.textContent)));
  expect(rows.length).toBe(50);
  expect(rows[0]).toEqual(["0", "1"]);
  expect(rows.at(-1)).toEqual(["119", "0.00833333"]);
  expect(await region.innerText()).toContain("50 of 120 points");
  expect(await violations()).toEqual([]);
});

test("every tab has a heading of its own, and the zone of all times stands in one place", async () => {
  hasJob(completed("one"));
  for (const [tab, name] of [["overview", "Overview"], ["logs", "Logs"], ["metrics", "Metrics"], ["ranks", "Ranks"], ["outputs", "Artifacts"], ["resources", "Resources"], ["story", "History"], ["file", "Job file"]]) {
    await open(`/jobs/one?tab=${tab}`);
    await page.getByRole("heading", { level: 2, name, exact: true }).first().waitFor();
    expect(await page.getByRole("heading", { level: 1 }).count()).toBe(1);
    expect(await page.getByText(/times in UTC/).count()).toBe(1);
  }
});

test("a job of three days ago shows its day in the strip and in its history", async () => {
  const at = new Date(Date.now() - 3 * 86_400_000);
  const day = `${at.getFullYear()}-${String(at.getMonth() + 1).padStart(2, "0")}-${String(at.getDate()).padStart(2, "0")}`;
  const line = (n, state) => storyLine(n, `it is ${state}`, { at: at.toISOString(), state });
  hasJob(completed("one", { submitted_at: at.toISOString(), started_at: at.toISOString(), ended_at: at.toISOString() }), [line(1, "running"), line(2, "completed")]);
  await open("/jobs/one?tab=story");
  await page.locator("ol.story li").first().waitFor();
  expect(await page.locator(".strip").innerText()).toContain(`at ${day}`);
  expect(await page.locator("ol.story li").first().innerText()).toContain(day);
  for (const box of await page.locator(".strip button").all()) expect((await box.boundingBox()).height).toBeGreaterThanOrEqual(24);
});
