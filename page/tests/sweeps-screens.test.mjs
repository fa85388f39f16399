/** Sweeps and pipelines in depth in Chromium over a scripted server: best so far, a setting over the metric, timelines, importance, and the run before. */

import { expect } from "vitest";
import { eventually, open, page, server, test, useChromium, violations } from "./chromium-screens.mjs";
import { completed, jobOf, storyLine } from "./scripted-server.mjs";

useChromium({ width: 1280, height: 900, answers: () => ({ "/quotas/use": { uses: [] } }) });

const START = Date.parse("2026-11-20T08:00:00Z");
const at = (seconds) => new Date(START + seconds * 1000).toISOString();

/** Trials of lr and width, four at a time. */
function hasSweep(count) {
  const jobs = Array.from({ length: count }, (_, n) => completed(`tune_${n}`, { parent: "tune", submitted_at: at(Math.floor(n / 4) * 10), started_at: at(Math.floor(n / 4) * 10 + 2), ended_at: at(Math.floor(n / 4) * 10 + 9) }));
  const trials = jobs.map((job, n) => {
    const [lr, width] = [10 ** -(1 + (n % 4)), 8 * (1 + ((n * 7) % 5))];
    return { number: n, job: job.name, state: "completed", sentence: "", parameters: { lr, width, optimizer: n % 2 ? "adam" : "sgd" }, value: 1 + Math.log10(lr) * 0.2 + width * 0.001, last: 1, reports: 3, stopped: "" };
  });
  const best = trials.reduce((one, other) => (other.value > one.value ? other : one));
  server.answers["/jobs/tune"] = { ...completed("tune", { type: "sweep" }), story: [storyLine(1, "training")] };
  server.answers["/sweeps/tune"] = { name: "tune", state: "completed", sentence: "", goal: "maximize", primary_metric: "val/accuracy", max_total_trials: count, max_concurrent_trials: 4, trials, best: best.number };
  server.answers["/curves"] = trials.map((trial) => ({ job: trial.job, name: "val/accuracy", rank: 0, steps: [0, 1], values: [0, trial.value] }));
  server.answers["/jobs"] = (query) => ({ jobs: query.get("parent") === "tune" ? jobs : [], after: null });
  return { trials, best };
}

test("a sweep shows how its best value came, and when its trials ran", async () => {
  hasSweep(24);
  await open("/jobs/tune?tab=curves");
  await page.getByRole("button", { name: /Table of Best val\/accuracy so far/ }).click();
  const region = page.getByRole("region", { name: /Best val/ });
  const bests = (await region.locator("tbody tr").evaluateAll((rows) => rows.map((row) => Number(row.children[1].textContent))));
  expect(bests).toHaveLength(24);
  expect([...bests].sort((a, b) => a - b)).toEqual(bests);
  const timeline = page.getByRole("figure", { name: "When trials ran" });
  await eventually(() => timeline.locator("li").count()).toBe(24);
  const seconds = await timeline.locator(".timeline-run").evaluateAll((bars) => bars.map((bar) => Number(bar.dataset.seconds)));
  expect(seconds.reduce((sum, one) => sum + one, 0)).toBeCloseTo(24 * 7, 5);
  const [track, bar] = [await timeline.locator(".timeline-track").first().boundingBox(), await timeline.locator(".timeline-run").first().boundingBox()];
  expect(bar.width / track.width).toBeCloseTo(7 / 59, 1);
  expect(await violations()).toEqual([]);
});

test("a setting stands over the metric, by logarithmic axes where one asks, and points lead to their trials", async () => {
  const { best } = hasSweep(24);
  await open("/jobs/tune?tab=settings");
  const points = page.locator(".scatter circle");
  await eventually(() => points.count()).toBe(24);
  expect(await page.locator(".scatter .best-point").count()).toBe(1);
  const places = () => points.evaluateAll((all) => [...new Set(all.map((one) => Math.round(Number(one.getAttribute("cx")))))].sort((a, b) => a - b));
  const gaps = (xs) => xs.slice(1).map((x, n) => x - xs[n]);
  // lr spans three powers of ten: equal distances.
  const even = gaps(await places());
  expect(Math.max(...even) - Math.min(...even)).toBeLessThanOrEqual(2);
  await page.getByLabel("axis of lr").selectOption("0");
  await eventually(async () => Math.max(...gaps(await places())) > 3 * Math.min(...gaps(await places()))).toBe(true);
  expect(new URL(page.url()).searchParams.get("logx")).toBe("0");
  await page.getByRole("combobox", { name: "setting" }).selectOption("optimizer");
  await eventually(async () => (await places()).length).toBe(2);
  expect(await violations()).toEqual([]);
  await page.locator(`.scatter a[aria-label^="${best.job}:"]`).focus();
  await page.keyboard.press("Enter");
  await eventually(() => page.url()).toContain(`/jobs/${best.job}`);
});

test("importance has intervals, a direction and at most a hundred per cent; few trials are said to be too few", async () => {
  hasSweep(40);
  await open("/jobs/tune?tab=settings");
  const rows = page.locator(".importance tbody tr");
  await eventually(() => rows.count()).toBe(3);
  const texts = await rows.allInnerTexts();
  expect(texts[0]).toContain("lr");
  expect(texts[0]).toContain("higher is better");
  expect(texts[0]).toMatch(/\d+ % \(\d+ % – \d+ %\)/);
  const shares = texts.map((text) => Number(/(\d+) % \(/.exec(text)[1]));
  expect(shares.reduce((sum, one) => sum + one, 0)).toBeLessThanOrEqual(101);
  expect(await page.getByText("too few").count()).toBe(0);
  hasSweep(12);
  await open("/jobs/tune?tab=settings");
  await page.getByText("12 trials are too few to tell lr, width from optimizer: that takes 30.").waitFor();
});

function hasPipeline() {
  const jobs = (name, factor) => [
    completed(`${name}_prepare`, { parent: name, submitted_at: at(0), started_at: at(1), ended_at: at(1 + 10 * factor) }),
    completed(`${name}_train`, { parent: name, submitted_at: at(1 + 10 * factor), started_at: at(3 + 10 * factor), ended_at: at(3 + 40 * factor) }),
  ];
  const flow = (name, day) => completed(name, { type: "pipeline", submitted_at: `2026-11-${day}T08:00:00Z` });
  const step = (name, after) => ({ name, job: `flow-2_${name}`, type: "command", state: "completed", sentence: "1 rank ended with exit code 0", after, result: "", reused: "", skipped: "" });
  server.answers["/jobs/flow-2"] = { ...flow("flow-2", 20), story: [storyLine(1, "training")] };
  server.answers["/pipelines/flow-2"] = { name: "flow-2", state: "completed", sentence: "", steps: [step("prepare", []), step("train", ["prepare"]), { ...step("report", ["train"]), state: null, sentence: "" }], edges: [{ source: "prepare", target: "train" }, { source: "train", target: "report" }], outputs: [] };
  server.answers["/jobs/flow-2/definition"] = { text: "", plan: {}, document: { jobs: { prepare: {}, train: { inputs: { data: "${{parent.jobs.prepare.outputs.tiles}}" } }, report: { inputs: { model: "${{parent.jobs.train.outputs.model}}" } } } } };
  server.answers["/jobs"] = (query) => {
    const parent = query.get("parent");
    return { jobs: parent === "flow-2" ? jobs("flow-2", 1) : parent === "flow-1" ? jobs("flow-1", 2) : [flow("flow-2", 20), jobOf("other"), flow("flow-1", 19)], after: null };
  };
}

test("a pipeline shows the time of its steps, what flows between them, and the run before", async () => {
  hasPipeline();
  await open("/jobs/flow-2");
  await page.locator(".graph").getByText("completed · 10 s").waitFor();
  await page.locator(".graph").getByText("completed · 30 s").waitFor();
  await eventually(async () => (await page.locator(".graph .flow").evaluateAll((all) => all.map((one) => one.lastChild.textContent)))).toEqual(["tiles", "model"]);
  const timeline = page.getByRole("figure", { name: "When steps ran" });
  const seconds = await timeline.locator(".timeline-run").evaluateAll((bars) => bars.map((bar) => Number(bar.dataset.seconds)));
  expect(seconds).toEqual([10, 30]);
  await timeline.getByText("40 s of work").waitFor();
  const row = page.locator("table.plain tbody tr", { hasText: "prepare" }).first();
  await eventually(() => row.innerText()).toContain("−10 s, −50 %");
  await page.getByText("The run before was").waitFor();
  expect(await violations()).toEqual([]);
  await page.locator(".run-before").getByRole("link", { name: "Compare" }).click();
  await eventually(() => page.url()).toContain("/compare?job=flow-1&job=flow-2");
});

test("timelines and graphs fit a phone", async () => {
  await page.setViewportSize({ width: 390, height: 844 });
  hasPipeline();
  hasSweep(24);
  const jobs = server.answers["/jobs"];
  for (const path of ["/jobs/tune?tab=curves", "/jobs/tune?tab=settings", "/jobs/flow-2"]) {
    if (path.includes("flow")) hasPipeline();
    else server.answers["/jobs"] = jobs;
    await open(path);
    await page.locator(".timeline li, .scatter circle").first().waitFor();
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390);
    expect(await violations()).toEqual([]);
  }
});
