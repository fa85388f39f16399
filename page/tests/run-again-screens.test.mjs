/** A job is run again with changes, in Chromium over a scripted server: form, job file, live checks, links. */

import { expect } from "vitest";
import { eventually, page, server, test, useChromium, violations } from "./chromium-screens.mjs";
import { completed, jobOf } from "./scripted-server.mjs";

let planned, started;
const TEXT = "name: cifar\ncommand: python train.py --lr ${{inputs.lr}}\ncode: src\ninputs:\n  lr: 0.1\n  data:\n    type: uri_folder\n    path: data\n";

useChromium({ width: 1280, height: 800, answers: () => {
  planned = [];
  started = [];
  return {
    "/page/session": { action_token: "t", person: "ada", role: "owner" },
    "/computes": [{ name: "local" }, { name: "lab" }],
    "/jobs/cifar": { ...completed("cifar", { state: "failed", reason: "rank_failed", successors: ["cifar-2"] }), story: [] },
    "/jobs/cifar/definition": { document: {}, text: TEXT, plan: { code: "a".repeat(64) } },
    "/jobs/cifar/checkpoint": { job: "cifar", step: 300, saved_at: new Date(Date.parse(completed("cifar").ended_at) - 720_000).toISOString(), size: 4096, is_certain: true, problem: "", fix: "" },
    "/jobs/cifar/snapshots": [{ digest: "b".repeat(64), job: "cifar-2", submitted_at: completed("cifar").submitted_at }, { digest: "a".repeat(64), job: "cifar", submitted_at: completed("cifar").submitted_at }],
    "/jobs/cifar/log": { pieces: [], after: 0, end: 0, first: 0 },
    "/plan": (_query, _request, body) => {
      planned.push(body);
      if (body.resume && body.document.compute === "lab") return { refused: 422, what: "the checkpoints of cifar are on compute local, and the nodes of lab don't see them", where: "compute", fix: "Continue there: --set compute=local" };
      const { instance_count: nodes } = body.document.resources ?? {};
      if (nodes !== undefined && !(nodes > 0)) return { refused: 422, what: "expected a whole number of 1 or more", where: "job.resources.instance_count" };
      return { queue: "compute local: would start at once", notes: [], never: false };
    },
    "/jobs": (_query, request, body) => {
      if (request.method === "GET") return { jobs: [], after: null };
      started.push(body);
      return jobOf("cifar-3", { state: "queued" });
    },
    "/jobs/cifar-3": { ...jobOf("cifar-3", { state: "queued", origin: "cifar" }), story: [] },
  };
} });

const inDialog = () => page.locator("dialog");
const open = async () => {
  await page.goto(`${server.origin}/ui/jobs/cifar`);
  await page.getByRole("heading", { level: 1 }).waitFor();
};

test("a failed run is started with another rate in four clicks", async () => {
  await open();
  await page.getByRole("button", { name: "Run again…" }).click();
  await page.getByLabel("lr", { exact: true }).click();
  await page.keyboard.press("Control+A");
  await page.keyboard.type("0.005");
  await page.getByText("would start at once").waitFor();
  await eventually(() => planned.at(-1)?.document.inputs.lr).toBe(0.005);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await eventually(() => new URL(page.url()).pathname).toBe("/ui/jobs/cifar-3");
  expect(started).toHaveLength(1);
  const [{ document, like, key }] = started;
  expect([like, document.inputs.lr, document.code, document.name]).toEqual(["cifar", 0.005, "src", undefined]);
  expect(key).toMatch(/^[0-9a-f]{32}$/);
  expect(await page.locator(".facts", { hasText: "run again from" }).locator("a", { hasText: /^cifar$/ }).getAttribute("href")).toBe("/ui/jobs/cifar");
});

test("a job continues from its last checkpoint with the code of another one, and both say so", async () => {
  server.answers["/jobs/cifar-3"] = { ...jobOf("cifar-3", { state: "queued", origin: "cifar", continues: { job: "cifar", step: 300 } }), story: [] };
  await open();
  await page.getByRole("button", { name: "Run again…" }).click();
  const starts = inDialog().getByLabel("Starts");
  await eventually(() => starts.locator("option").allTextContents()).toEqual(["from the beginning", "from its last checkpoint (step 300, 12 min before it ended)"]);
  await starts.selectOption("resume");
  await inDialog().getByLabel("Compute").selectOption("lab");
  await page.locator(".run-field", { hasText: "Compute" }).getByText("the nodes of lab don't see them").waitFor();
  expect(await page.getByRole("button", { name: "Run", exact: true }).isDisabled()).toBe(true);
  await inDialog().getByLabel("Compute").selectOption("local");
  await eventually(() => inDialog().getByLabel("Code").locator("option").allTextContents()).toEqual(["that of cifar", expect.stringMatching(/^that of cifar-2, /)]);
  await inDialog().getByLabel("Code").selectOption("b".repeat(64));
  await inDialog().getByText("drumbeat run --like cifar --code FOLDER").waitFor();
  await eventually(() => planned.at(-1)?.code).toBe("b".repeat(64));
  await page.getByText("would start at once").waitFor();
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await eventually(() => new URL(page.url()).pathname).toBe("/ui/jobs/cifar-3");
  expect(started.at(-1)).toMatchObject({ like: "cifar", resume: true, code: "b".repeat(64) });
  const fact = page.locator(".facts > div", { hasText: "continues" });
  expect(await fact.textContent()).toBe("continuescifar from its checkpoint at step 300");
  expect(await fact.locator("a").getAttribute("href")).toBe("/ui/jobs/cifar");
  expect(await page.locator(".facts", { hasText: "run again from" }).count()).toBe(0);
});

test("a job without a checkpoint and without other code has no such choice", async () => {
  server.answers["/jobs/cifar/checkpoint"] = { job: "cifar", step: null, saved_at: null, size: 0, is_certain: false, problem: "cifar has saved no checkpoint", fix: "" };
  server.answers["/jobs/cifar/snapshots"] = [{ digest: "a".repeat(64), job: "cifar", submitted_at: completed("cifar").submitted_at }];
  await open();
  await page.getByRole("button", { name: "Run again…" }).click();
  await page.getByText("would start at once").waitFor();
  expect(await inDialog().getByLabel("Starts").count()).toBe(0);
  expect(await inDialog().getByLabel("Code").count()).toBe(0);
});

test("the best trial of a sweep is started with ten times the epochs in three clicks", async () => {
  const job = jobOf("sweep", { type: "sweep", state: "completed" });
  const trial = { number: 3, job: "cifar", state: "completed", value: 0.9, parameters: { lr: 0.1 }, sentence: "" };
  server.answers["/jobs/sweep"] = { ...job, story: [] };
  server.answers["/sweeps/sweep"] = { name: "sweep", state: "completed", sentence: "", primary_metric: "accuracy", goal: "maximize", best: 3, trials: [trial], max_total_trials: 4, max_concurrent_trials: 1 };
  await page.goto(`${server.origin}/ui/jobs/sweep?tab=trials`);
  await page.getByRole("button", { name: "Run it again…" }).click();
  await page.getByLabel("lr", { exact: true }).click();
  await page.keyboard.press("Control+A");
  await page.keyboard.type("1");
  await page.getByText("would start at once").waitFor();
  await eventually(() => planned.at(-1)?.document.inputs.lr).toBe(1);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await eventually(() => started.at(-1)?.like).toBe("cifar");
});

test("what the server refuses stands beside its key, and nothing starts before it is mended", async () => {
  await open();
  await eventually(() => page.locator(".facts a", { hasText: "cifar-2" }).count()).toBe(1);
  await page.getByRole("button", { name: "Run again…" }).click();
  const nodes = inDialog().getByLabel("Nodes");
  await nodes.fill("0");
  await page.locator(".run-field", { hasText: "Nodes" }).getByText("expected a whole number").waitFor();
  expect(await nodes.getAttribute("aria-invalid")).toBe("true");
  expect(await page.getByRole("button", { name: "Run", exact: true }).isDisabled()).toBe(true);
  await nodes.fill("2");
  await page.getByText("would start at once").waitFor();
  expect(await page.getByRole("button", { name: "Run", exact: true }).isDisabled()).toBe(false);
  await inDialog().getByLabel("Compute").selectOption("lab");
  await inDialog().getByLabel("Priority").selectOption("high");
  await inDialog().getByLabel("Time limit, s").fill("60");
  await eventually(() => planned.at(-1).document.limits).toEqual({ timeout: 60 });
  expect(planned.at(-1).document).toMatchObject({ compute: "lab", resources: { instance_count: 2 }, queue_settings: { priority: "high" } });
  await page.getByRole("button", { name: "Back" }).click();
  expect(started).toEqual([]);
});

test("a number that is half typed stays so while the form changes elsewhere", async () => {
  await open();
  await page.getByRole("button", { name: "Run again…" }).click();
  const rate = page.getByLabel("lr", { exact: true });
  await rate.fill("0.");
  await inDialog().getByLabel("Nodes").fill("2");
  await eventually(() => planned.at(-1)?.document.resources?.instance_count).toBe(2);
  expect(await rate.inputValue()).toBe("0.");
  await rate.focus();
  await page.keyboard.press("End");
  await page.keyboard.type("05");
  await eventually(() => planned.at(-1)?.document.inputs.lr).toBe(0.05);
});

test("form and job file are the same text, and a text that can't be read is said at its line", async () => {
  await open();
  await page.getByRole("button", { name: "Run again…" }).click();
  await page.getByLabel("lr", { exact: true }).fill("0.3");
  await inDialog().locator("summary").click();
  const file = page.getByRole("textbox", { name: "Job file" });
  expect(await file.inputValue()).toContain("lr: 0.3");
  await file.fill((await file.inputValue()).replace("lr: 0.3", "lr: 0.4\n  epochs: 5"));
  await eventually(() => inDialog().getByLabel("epochs").inputValue()).toBe("5");
  expect(await page.getByLabel("lr", { exact: true }).inputValue()).toBe("0.4");
  await file.fill("inputs: [1,\n");
  await page.locator(".problems").getByText(/line \d/).waitFor();
  expect(await page.getByRole("button", { name: "Run", exact: true }).isDisabled()).toBe(true);
});

test("the dialog has no violation of axe, in light and dark, and fits a phone", async () => {
  for (const [width, height, colorScheme] of [[1280, 800, "light"], [390, 844, "dark"]]) {
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme });
    await open();
    await page.getByRole("button", { name: "Run again…" }).click();
    await page.getByText("would start at once").waitFor();
    expect(await violations("dialog")).toEqual([]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
    if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/again-${width}-${colorScheme}.png` });
  }
});

test("a reader sees no way to run it", async () => {
  server.answers["/page/session"] = { action_token: "", person: "eve", role: "reader" };
  await open();
  await eventually(() => server.count("/page/session")).toBeGreaterThan(0);
  await page.waitForTimeout(200);
  expect(await page.getByRole("button", { name: "Run again…" }).count()).toBe(0);
});
