/** Runs of an experiment looked at together in Chromium, over a scripted server: the panels, what the address says, and thousands of runs. */

import { expect } from "vitest";
import { eventually, open, page, server, test, useChromium, violations } from "./chromium-screens.mjs";

useChromium({ width: 1280, height: 900 });

const START = Date.parse("2026-11-20T08:00:00Z");
const at = "/experiments/vision%2Fcifar";
const words = () => new URL(page.url()).searchParams;
const FIELDS = [
  ["state", "text"], ["submitted", "time"], ["started", "time"], ["ended", "time"], ["metric.val/acc", "number"], ["metric.loss", "number"],
  ["input.lr", "any"], ["input.width", "any"], ["param.optimizer", "any"], ["input.epochs", "any"],
];

/** Runs of lr, width and optimizer, one a minute; the newest first, as the server gives them. */
function hasRuns(count) {
  const rows = Array.from({ length: count }, (_, n) => {
    const [lr, width, optimizer] = [10 ** -(1 + (n % 4)), 8 * (1 + ((n * 7) % 5)), n % 2 ? "adam" : "sgd"];
    const accuracy = 0.9 + Math.log10(lr) * 0.1 + width * 0.0005 + (n % 11) * 0.001;
    const submitted = START + n * 60_000;
    return { job: `run-${n}`, of: { state: "completed", submitted, started: submitted + 1000, ended: submitted + 31_000, "metric.val/acc": accuracy, "metric.loss": 1 - accuracy, "input.lr": lr, "input.width": width, "param.optimizer": optimizer, "input.epochs": 3 } };
  }).reverse();
  server.answers[`${at}/runs`] = (asked) => {
    const fields = (asked.get("columns") || "state,metric.val/acc,input.lr").split(",");
    const [from, limit] = [Number(asked.get("offset") ?? 0), Number(asked.get("limit"))];
    const bare = (field) => field.replace(/^(?:min|max)\((.*)\)$/, "$1");
    const runs = rows.slice(from, from + limit).map(({ job, of }) => ({ job, title: job, experiment: "vision/cifar", state: "completed", reason: "", type: "command", is_archived: false, values: fields.map((field) => of[bare(field)] ?? null) }));
    return { columns: fields.map((field) => ({ field, unit: FIELDS.find(([name]) => name === bare(field))[1] })), runs, total: rows.length, groups: [] };
  };
  server.answers[`${at}/run-fields`] = FIELDS.map(([field, unit]) => ({
    field, unit, runs: count, values: field === "input.epochs" ? 1 : 4, is_default: field === "state", is_primary: field === "metric.val/acc",
    goal: field === "metric.val/acc" ? "maximize" : field === "metric.loss" ? "minimize" : null,
  }));
  server.answers[`${at}/views`] = [];
  return rows.reduce((best, one) => (one.of["metric.val/acc"] > best.of["metric.val/acc"] ? one : best)).job;
}

test("the runs of an experiment have a sweep's panels, by the metric that counts and its direction", async () => {
  const best = hasRuns(40);
  await open(at);
  await page.getByRole("tab", { name: "Analysis" }).click();
  await eventually(() => words().get("tab")).toBe("analysis");
  await page.getByText("best val/acc of 40 runs").waitFor();
  await page.getByRole("link", { name: best, exact: true }).first().waitFor();
  await page.getByRole("img", { name: "Parallel coordinates of lr, width, optimizer and val/acc; the table of runs has the same values" }).waitFor();
  await eventually(() => page.locator(".scatter circle").count()).toBe(40);
  const rows = page.locator(".importance tbody tr");
  await eventually(() => rows.count()).toBe(3);
  expect((await rows.allInnerTexts())[0]).toMatch(/lr[\s\S]*higher is better/);
  await page.getByText("In the order in which the runs were submitted", { exact: false }).waitFor();
  await eventually(() => page.getByRole("figure", { name: "When runs ran" }).locator("li").count()).toBe(40);
  expect(server.asked.some((one) => one.includes("max%28metric.val%2Facc%29"))).toBe(true);
  expect(await page.getByText("epochs").count()).toBe(0);
  for (const scheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: scheme });
    expect(await violations()).toEqual([]);
  }
  await page.goBack();
  await page.locator(".run-table").waitFor();
});

test("metric, direction, setting and filter stand in the address; another filter asks the server", async () => {
  hasRuns(40);
  await open(`${at}?tab=analysis&metric=loss&over=width&where=input.lr+%3E+0.001`);
  await page.getByText("best loss of 40 runs").waitFor();
  expect(server.asked.some((one) => one.includes("min%28metric.loss%29") && one.includes("where=input.lr"))).toBe(true);
  await page.getByText("loss over width").waitFor();
  await page.getByRole("combobox", { name: /^Values/ }).selectOption("none");
  await eventually(() => words().get("goal")).toBe("none");
  await eventually(() => page.getByText(/^Best loss/).count()).toBe(0);
  await page.getByText(/more of it, lower values/).first().waitFor();
  await page.getByRole("combobox", { name: /^Metric/ }).selectOption("val/acc");
  await page.getByText("best val/acc of 40 runs").waitFor();
  await page.reload();
  await page.getByText("val/acc over width").waitFor();
  expect(words().get("where")).toBe("input.lr > 0.001");
});

test("the selected runs alone are looked at, few are said to be too few, and all are a click away", async () => {
  hasRuns(40);
  const selected = Array.from({ length: 8 }, (_, n) => `sel=run-${n}`).join("&");
  await open(`${at}?tab=analysis&${selected}`);
  await page.getByText("best val/acc of 8 runs").waitFor();
  await page.getByText("8 runs are too few to tell lr, width from optimizer: that takes 30.").waitFor();
  await page.getByLabel("only the 8 selected").click();
  await page.getByText("best val/acc of 40 runs").waitFor();
  expect(words().get("all")).toBe("1");
});

test("of more runs than fit, the newest are drawn and the page says so; the pointer names one of two thousand points", async () => {
  hasRuns(2500);
  await open(`${at}?tab=analysis`);
  await page.getByText("The newest 2,000 of 2,500 runs").waitFor();
  await page.locator(".scatter-dots").waitFor();
  expect(await page.locator(".scatter a").count()).toBe(1);
  await eventually(() => page.locator(".importance tbody tr").count()).toBe(3);
  expect(await page.locator(".timeline li").count()).toBe(100);
  await page.locator(".scatter").scrollIntoViewIfNeeded();
  const [x, y] = await page.locator(".scatter-dots").evaluate((path) => /^M([\d.]+) ([\d.]+)/.exec(path.getAttribute("d")).slice(1).map(Number));
  const { x: left, y: top } = await page.locator(".scatter svg").boundingBox();
  await page.mouse.move(left + x, top + y);
  const name = (await page.locator(".near-text").textContent()).split(":")[0];
  expect(name).toMatch(/^run-\d+$/);
  await page.mouse.click(left + x, top + y);
  await eventually(() => page.url()).toContain(`/jobs/${name}`);
});

test("without a metric or a difference the page says so, and the panels fit a phone", async () => {
  hasRuns(12);
  await page.setViewportSize({ width: 390, height: 844 });
  await open(`${at}?tab=analysis`);
  await page.locator(".scatter circle").first().waitFor();
  await page.locator(".importance tbody tr").first().waitFor();
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390);
  expect(await violations()).toEqual([]);
  server.answers[`${at}/run-fields`] = server.answers[`${at}/run-fields`].filter((one) => !/^(input|param)/.test(one.field));
  await open(`${at}?tab=analysis`);
  await page.getByText("No input or parameter differs between these runs.").waitFor();
  server.answers[`${at}/run-fields`] = server.answers[`${at}/run-fields`].filter((one) => !one.field.startsWith("metric"));
  await open(`${at}?tab=analysis`);
  await page.getByText("No run has logged a metric yet.").waitFor();
});
