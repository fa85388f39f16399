/** Charts of an experiment, pins, full screen and the legend in Chromium, over a scripted server. */

import { expect } from "vitest";
import { eventually, page, server, test, useChromium, violations } from "./chromium-screens.mjs";
import { completed } from "./scripted-server.mjs";

let charts, sizes;
const CHARTS = "/experiments/tests/charts";
const SIZES = "/experiments/tests/card-sizes";
const NAMES = ["train/loss", "val/loss", "speed"];
const at = "2026-11-20T08:00:01Z";
const pointsOf = (name) => [0, 1, 2, 3].map((step) => ({ step, at, value: (NAMES.indexOf(name) + 1) * (step + 1) }));

useChromium({ width: 1280, height: 800, answers: () => {
  charts = [];
  sizes = {};
  const series = NAMES.flatMap((name) => [0, 1].map((rank) => {
    const points = pointsOf(name);
    return { name, rank, count: points.length, last: points.at(-1), min: points[0], max: points.at(-1) };
  }));
  const curves = (query) => query.getAll("metric").flatMap((name) => [0, 1].map((rank) => ({ name, rank, points: pointsOf(name).map((one) => ({ ...one, value: one.value + rank })) })));
  const answers = {
    "/page/session": { action_token: "t", person: "ada", role: "owner" },
    [CHARTS]: () => charts,
    [SIZES]: (_query, request, body) => {
      if (request.method === "PUT") sizes[body.card] = body.size;
      return sizes;
    },
  };
  for (const job of ["one", "two"]) {
    answers[`/jobs/${job}`] = { ...completed(job), story: [] };
    answers[`/jobs/${job}/metrics`] = { job, run: "r", experiment: "tests", status: "FINISHED", series, params: {}, tags: {}, nested: [] };
    answers[`/jobs/${job}/metrics/curves`] = curves;
  }
  return answers;
} });

/** The server keeps the charts. */
function keeps(name) {
  server.answers[`${CHARTS}/${encodeURIComponent(name)}`] = (_query, request, body) => {
    charts = charts.filter((one) => one.name !== name);
    if (request.method === "PUT") charts.push({ name, x: "", ...body, person: "ada", saved_at: at });
    return request.method === "PUT" ? charts.at(-1) : {};
  };
}

const open = async (job = "one", query = "") => {
  await page.goto(`${server.origin}/ui/jobs/${job}?tab=metrics${query}`);
  await page.locator(".chart-card canvas").first().waitFor();
};
const own = () => page.locator(".own-charts .chart-card");

test("a chart that is made is drawn for every job of the experiment, until it is deleted", async () => {
  keeps("trade-off");
  await open();
  await page.getByRole("button", { name: "Make a chart…" }).click();
  const dialog = page.locator("dialog");
  await dialog.getByLabel("Name").fill("trade-off");
  await dialog.getByLabel("Kind").selectOption("scatter");
  await dialog.getByLabel(/^Over/).selectOption("speed");
  await dialog.getByRole("checkbox", { name: "val/loss" }).check();
  expect(await violations("dialog")).toEqual([]);
  await dialog.getByRole("button", { name: "Save" }).click();
  await eventually(() => own().count()).toBe(1);
  expect(charts).toMatchObject([{ name: "trade-off", kind: "scatter", metrics: ["val/loss"], x: "speed" }]);
  await open("two");
  await eventually(() => own().locator(".chart-name").allInnerTexts()).toEqual(["trade-off"]);
  // Of each rank, the points at the steps that both metrics have.
  await eventually(() => own().locator(".chart").getAttribute("data-points")).toBe("4");
  await page.getByRole("button", { name: "Delete the chart trade-off" }).click();
  await eventually(() => own().count()).toBe(0);
  expect(charts).toEqual([]);
});

test("bars show the last value of each rank", async () => {
  charts = [{ name: "speeds", kind: "bars", metrics: ["speed", "gone"], x: "", person: "bob", saved_at: at }];
  await open();
  await eventually(() => own().locator(".bars > div").allInnerTexts()).toEqual(["rank 0\n12", "rank 1\n12"]);
  expect(await own().locator("svg").first().evaluate((bar) => bar.getBoundingClientRect().width)).toBeGreaterThan(100);
});

test("a pin keeps a card for all jobs of the experiment, and a second click takes it away", async () => {
  keeps("loss");
  await open();
  await page.getByRole("button", { name: "Pin loss" }).click();
  await eventually(() => own().locator(".chart-name").allInnerTexts()).toEqual(["loss"]);
  expect(charts).toMatchObject([{ kind: "lines", metrics: ["train/loss", "val/loss"] }]);
  await page.getByRole("button", { name: "Pin loss" }).click();
  await eventually(() => own().count()).toBe(0);
});

test("a card is shown in full and closed by Escape", async () => {
  await open();
  await page.getByRole("button", { name: "speed in full" }).click();
  await eventually(() => page.locator("dialog canvas").evaluate((one) => one.getBoundingClientRect().height)).toBeGreaterThan(400);
  await page.keyboard.press("Escape");
  await eventually(() => page.locator("dialog").count()).toBe(0);
});

test("a card is made wide and tall for every job of the experiment, and as others again", async () => {
  await open();
  const card = () => page.locator(".chart-card", { has: page.locator(".chart-name", { hasText: /^speed$/ }) });
  const measure = async (what) => (await card().locator(what).first().boundingBox());
  const before = [(await card().boundingBox()).width, (await measure("canvas")).height];
  const wide = page.getByRole("button", { name: "speed: the whole row" });
  await wide.click();
  await eventually(async () => (await card().boundingBox()).width).toBeGreaterThan(1.9 * before[0]);
  await eventually(async () => (await measure("canvas")).width).toBeGreaterThan(1.8 * before[0]);
  await page.getByRole("button", { name: "speed: twice as high" }).click();
  await eventually(async () => (await measure("canvas")).height).toBeGreaterThan(1.9 * before[1]);
  await eventually(() => sizes).toEqual({ speed: "large" });
  expect(await violations("main")).toEqual([]);
  await open("two");
  await eventually(() => wide.getAttribute("aria-pressed")).toBe("true");
  await eventually(async () => (await card().boundingBox()).width).toBeGreaterThan(1.9 * before[0]);
  if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/sizes.png`, fullPage: true });
  await wide.click();
  await page.getByRole("button", { name: "speed: twice as high" }).click();
  await eventually(() => sizes).toEqual({ speed: "normal" });
  await eventually(async () => Math.abs((await card().boundingBox()).width - before[0])).toBeLessThan(2);
});

test("a size that the server refuses is taken back, with its reason", async () => {
  await open();
  server.answers[SIZES] = { refused: 403, what: "the card size speed is bob's" };
  const wide = page.getByRole("button", { name: "speed: the whole row" });
  await wide.click();
  await page.getByText("the card size speed is bob's").waitFor();
  expect(await wide.getAttribute("aria-pressed")).toBe("false");
});

test("a line is hidden in all cards by its button in the legend, with the keyboard too, and stands in the address", async () => {
  await open("one", "&of=each");
  const buttons = page.locator(".chart-card").last().getByRole("button", { name: "rank 1", exact: true });
  await buttons.focus();
  await page.keyboard.press("Space");
  await eventually(() => new URL(page.url()).searchParams.getAll("hide")).toEqual(["rank 1"]);
  const pressed = () => page.locator(".u-label[role=button]", { hasText: /^rank 1$/ }).evaluateAll((all) => all.map((one) => one.getAttribute("aria-pressed")));
  await eventually(pressed).toEqual(["false"]);
  expect(await page.locator(".u-series.u-off").count()).toBe(1);
  await page.reload();
  await eventually(pressed).toEqual(["false"]);
  await page.locator(".u-label[role=button]", { hasText: /^rank 1$/ }).click();
  await eventually(() => new URL(page.url()).searchParams.has("hide")).toBe(false);
  await eventually(pressed).toEqual(["true"]);
  expect(await page.locator(".u-series.u-off").count()).toBe(0);
  expect(await violations("main")).toEqual([]);
  if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/charts.png` });
});

test("a reader sees the charts, and no way to change them", async () => {
  server.answers["/page/session"] = { action_token: "", person: "eve", role: "reader" };
  charts = [{ name: "losses", kind: "lines", metrics: ["train/loss"], x: "", person: "bob", saved_at: at }];
  await open();
  await eventually(() => own().count()).toBe(1);
  for (const name of ["Make a chart…", "Pin loss", "Delete the chart losses", "speed: the whole row"]) expect(await page.getByRole("button", { name }).count()).toBe(0);
});
