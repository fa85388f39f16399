/** Tables of runs and comparisons of many jobs in Chromium, over a scripted server: what is seen, typed, selected, and in the address. */

import { expect } from "vitest";
import { eventually, open, page, server, test, useChromium, violations } from "./chromium-screens.mjs";
import { completed, refusal } from "./scripted-server.mjs";

useChromium({ width: 1280, height: 700 });

const names = () => page.locator(".run-table tbody .row-link").allInnerTexts();
const words = () => new URL(page.url()).searchParams;
const at = "/experiments/vision%2Fcifar";

const COLUMNS = [["state", "text"], ["metric.val/acc", "number"], ["input.lr", "any"], ["duration", "duration"]].map(([field, unit]) => ({ field, unit }));
const ROWS = [
  ["one", "completed", 0.7, 0.1, 90], ["two", "completed", 0.9, 0.01, 61], ["three", "failed", "NaN", 0.1, 5], ["four", "completed", 0.8, 0.1, 62],
];
const runOf = ([job, ...values]) => ({ job, title: job, experiment: "vision/cifar", state: values[0], reason: "", type: "command", is_archived: false, values });

/** Answers like the server: the columns that are asked for, in the order of the rows. */
function hasRuns(rows = ROWS, columns = COLUMNS) {
  server.answers[`${at}/runs`] = (asked) => {
    const fields = (asked.get("columns") || columns.map((one) => one.field).join(",")).split(",");
    const places = fields.map((field) => columns.findIndex((one) => one.field === field));
    const [from, limit] = [Number(asked.get("offset") ?? 0), Number(asked.get("limit"))];
    const runs = rows.slice(from, from + limit).map(runOf).map((run) => ({ ...run, values: places.map((n) => run.values[n] ?? null) }));
    return { columns: places.map((n) => columns[n]), runs, total: rows.length, groups: [] };
  };
  server.answers[`${at}/run-fields`] = columns.map((one) => ({ ...one, runs: rows.length, values: 2, is_default: true }));
  server.answers[`${at}/views`] = [];
}

test("a click on a column sorts, another turns it round, Shift adds a second, and all stands in the address", async () => {
  hasRuns();
  await open(at);
  await eventually(names).toEqual(["one", "two", "three", "four"]);
  const head = (name) => page.locator(".run-table thead button", { hasText: name });
  await head("metric.val/acc").click();
  await eventually(names).toEqual(["two", "four", "one", "three"]);
  expect(words().get("sort")).toBe("metric.val/acc desc");
  await head("metric.val/acc").click();
  await eventually(names).toEqual(["one", "four", "two", "three"]);
  await head("input.lr").click();
  await head("duration").click({ modifiers: ["Shift"] });
  await eventually(names).toEqual(["two", "one", "four", "three"]);
  expect(words().get("sort")).toBe("input.lr, duration desc");
  await page.reload();
  await eventually(names).toEqual(["two", "one", "four", "three"]);
  await page.goBack();
  await eventually(() => words().get("sort")).toBe("input.lr");
});

test("columns are chosen in a dialog, and another order of those that are shown asks the server nothing", async () => {
  hasRuns(Array.from({ length: 150 }, (_, n) => [`run-${n}`, "completed", n / 150, 0.1, n]));
  await open(at);
  await page.getByRole("button", { name: "Columns" }).click();
  await page.getByRole("checkbox", { name: "lr", exact: true }).click();
  await page.getByRole("button", { name: "max of metric.val/acc" }).waitFor();
  await page.getByRole("button", { name: "Close" }).click();
  await eventually(() => page.locator(".run-table thead .head-name").allInnerTexts()).toEqual(["state", "metric.val/acc", "duration"]);
  expect(words().get("columns")).toBe("state,metric.val/acc,duration");
  await eventually(() => server.asked.filter((one) => one.includes("limit=2000")).length).toBeGreaterThan(0);
  await page.waitForTimeout(300);
  await page.locator(".run-table thead button", { hasText: "duration" }).click();
  await eventually(async () => (await names())[0]).toBe("run-149");
  expect(server.asked.filter((one) => one.includes("limit=2000") && one.includes("sort=")).length).toBe(0);
});

test("the filter line offers what may follow, applies with Enter, and shows where the server can't read it", async () => {
  hasRuns();
  const answer = server.answers[`${at}/runs`];
  server.answers[`${at}/runs`] = (asked) => (asked.get("where") === "state = faild" ? { refused: 422, what: "'faild' is no state" } : answer(asked));
  await open(at);
  await eventually(names).toHaveLength(4);
  const line = page.getByRole("combobox", { name: "Filter runs" });
  await line.focus();
  await page.getByRole("listbox", { name: "What may follow" }).getByRole("option", { name: "metric.val/acc" }).waitFor();
  await line.pressSequentially("st");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.getByRole("option", { name: "ILIKE" }).waitFor();
  await line.pressSequentially("= fai");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Tab");
  expect(await line.inputValue()).toBe("state = failed ");
  await page.keyboard.press("Enter");
  await eventually(() => words().get("where")).toBe("state = failed");
  await eventually(() => server.asked.some((one) => one.includes("where=state+%3D+failed"))).toBe(true);
  await line.fill("state = faild");
  await page.keyboard.press("Enter");
  await page.getByText("'faild' is no state").waitFor();
});

test("groups show mean and deviation, and open to their runs", async () => {
  hasRuns();
  await open(`${at}?group=input.lr`);
  const row = page.locator(".group-row", { hasText: "0.1" });
  await eventually(() => row.innerText()).toMatch(/3 runs[\s\S]*0\.75 ± 0\.071/);
  await row.getByRole("button").click();
  await eventually(async () => (await names()).map((name) => name.trim()).filter((name) => /^[a-z]/.test(name))).toEqual(["one", "three", "four"]);
});

test("a selection by range is in the address, survives Back, and leads to the comparison", async () => {
  hasRuns();
  server.answers["/jobs/two"] = { ...completed("two"), story: [] };
  server.answers["/jobs/two/logs"] = { pieces: [], after: 0, end: 0, first: 0 };
  await open(at);
  await page.getByRole("checkbox", { name: "Select two" }).click();
  await page.getByRole("checkbox", { name: "Select four" }).click({ modifiers: ["Shift"] });
  await page.getByText("3 jobs selected").waitFor();
  expect(words().getAll("sel")).toEqual(["two", "three", "four"]);
  await page.getByRole("link", { name: "two" }).click();
  await page.locator("h1", { hasText: "two" }).waitFor();
  await page.goBack();
  await page.getByText("3 jobs selected").waitFor();
  expect(await page.getByRole("link", { name: "Compare", exact: true }).last().getAttribute("href")).toBe("/ui/compare?job=two&job=three&job=four");
});

test("of 201 selected runs the bar says how many Compare takes", async () => {
  hasRuns(Array.from({ length: 201 }, (_, n) => [`run-${n}`, "completed", n, 0.1, n]));
  await open(at);
  await eventually(() => server.asked.filter((one) => one.includes("limit=2000")).length).toBeGreaterThan(0);
  await page.getByText("201 runs").waitFor();
  await page.waitForTimeout(300);
  await page.getByRole("checkbox", { name: "Select all runs" }).click();
  await page.getByText("Compare takes at most 200").waitFor();
});

test("of 2,000 runs with 30 columns only those that are seen are drawn, and keys reach the others", async () => {
  const columns = [COLUMNS[0], ...Array.from({ length: 29 }, (_, n) => ({ field: `metric.m${n}`, unit: "number" }))];
  hasRuns(Array.from({ length: 2000 }, (_, n) => [`run-${n}`, "completed", ...Array.from({ length: 29 }, (_, m) => (n * 7919 + m) % 997)]), columns);
  await open(at);
  await page.getByText("2,000 runs").waitFor();
  const scroll = page.locator(".run-scroll");
  await eventually(() => scroll.evaluate((one) => one.scrollHeight)).toBeGreaterThan(60_000);
  expect(await page.locator(".run-table tbody tr").count()).toBeLessThan(60);
  await scroll.evaluate((one) => (one.scrollTop = 32 * 1500));
  await eventually(names).toContain("run-1505");
  expect(await page.locator(".run-table tbody tr").count()).toBeLessThan(60);
  await page.keyboard.press("j");
  await eventually(() => page.evaluate(() => document.activeElement.textContent)).toBe("run-1500");
  for (let n = 0; n < 20; n += 1) await page.keyboard.press("j");
  await eventually(() => page.evaluate(() => document.activeElement.textContent)).toMatch(/run-15\d\d/);
  await page.keyboard.press("x");
  await page.getByText("1 job selected").waitFor();
});

test("a view is saved with what is shown, and its address opens it", async () => {
  hasRuns();
  let saved;
  server.answers[`${at}/views`] = () => (saved ? [saved] : []);
  server.answers[`${at}/views/best%20ones`] = (_query, _request, body) => {
    saved = { name: "best ones", person: "ada", saved_at: "2026-11-29T10:00:00Z", ...body };
    return saved;
  };
  await open(`${at}?sort=metric.val/acc desc&columns=state,metric.val/acc`);
  await page.getByRole("button", { name: "Save view" }).click();
  await page.getByRole("textbox", { name: "Name of the view" }).fill("best ones");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await eventually(() => [...words()]).toEqual([["view", "best ones"]]);
  expect(saved).toMatchObject({ columns: "state,metric.val/acc", sort: "metric.val/acc desc", where: "", group_by: "" });
  await page.reload();
  await eventually(names).toEqual(["two", "four", "one", "three"]);
  expect(await page.locator(".run-table thead .head-name").allInnerTexts()).toEqual(["state", "metric.val/acc"]);
});

test("the table, its filter and its dialog have no violation of accessibility", async () => {
  hasRuns();
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await open(`${at}?sel=two&group=input.lr`);
    await page.getByText("1 job selected").waitFor();
    expect(await violations()).toEqual([]);
    await open(at);
    await eventually(names).toHaveLength(4);
    await page.getByRole("combobox", { name: "Filter runs" }).focus();
    await page.getByRole("listbox", { name: "What may follow" }).getByRole("option", { name: "input.lr" }).waitFor();
    expect(await violations()).toEqual([]);
    await page.getByRole("button", { name: "Columns" }).click();
    await page.getByRole("dialog").waitFor();
    expect(await violations()).toEqual([]);
  }
});

/** Comparisons of so many jobs, with a curve each that lies at its own height. */
function hasComparison(count) {
  const jobs = Array.from({ length: count }, (_, n) => `job-${n}`);
  server.answers["/compare"] = {
    jobs, differences: [{ section: "inputs", key: "lr", values: jobs.map((_, n) => n + 1) }],
    outcomes: [{ section: "outcome", key: "state", values: jobs.map(() => "completed") }, { section: "metrics", key: "loss", values: jobs.map((_, n) => n) }],
  };
  server.answers["/curves"] = jobs.map((job, n) => ({ job, name: "loss", rank: 0, steps: [0, 1, 2, 3, 4], values: [n, n, n, n, n] }));
  return `/compare?${jobs.map((job) => `job=${job}`).join("&")}`;
}

test("over 40 curves the pointer names the nearest one among its neighbours, and a click keeps it", async () => {
  await open(hasComparison(40));
  const over = page.locator(".u-over").first();
  await over.scrollIntoViewIfNeeded();
  const box = await over.boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  const nearest = page.locator(".line-row.nearest");
  await nearest.waitFor();
  const name = await nearest.locator(".line-name").innerText();
  // The axis of values from 0 to 39 has some room above.
  expect(name).toMatch(/^job-(19|2[0-3])$/);
  expect(await nearest.innerText()).toContain(`lr ${Number(name.slice(4)) + 1}`);
  const values = (await page.locator(".line-row .number").allInnerTexts()).map(Number);
  expect(values).toEqual([...values].sort((a, b) => b - a));
  await page.mouse.down();
  await page.mouse.up();
  await eventually(() => words().get("pin")).toBe(name);
});

test("many compared jobs are rows, their chips fold, and colours follow a parameter", async () => {
  await open(hasComparison(40));
  await page.getByRole("button", { name: "and 20 more" }).waitFor();
  expect(await page.locator(".picked .chip a").count()).toBe(20);
  expect(await page.locator(".compared-jobs tbody tr").count()).toBe(80);
  await page.getByRole("combobox", { name: "Colour by" }).selectOption("lr");
  await eventually(() => words().get("colour")).toBe("lr");
  expect(await violations()).toEqual([]);
});

test("201 jobs aren't compared, and the page says so in its own words", async () => {
  server.answers["/compare"] = refusal(422, "the request can't be read: query.job");
  await open(hasComparison(201));
  await page.getByText("Compare takes at most 200 jobs, and these are 201").waitFor();
  expect(await page.evaluate(() => document.body.innerText)).not.toContain("query.");
  expect(server.count("/compare")).toBe(0);
});
