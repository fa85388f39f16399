/** What a job's nodes and ranks use, in Chromium over a scripted server: the sentence, the strip of ranks, panels with their units. */

import { expect } from "vitest";
import { eventually, page, server, test, useChromium, violations } from "./chromium-screens.mjs";
import { completed, storyLine } from "./scripted-server.mjs";

useChromium({ width: 1280, height: 800 });

const PARTS = 120;
const ODD = 37;
const RANKS = 64;
const SENTENCE = `GPUs idle 62 % of the time: 51 % in training, 11 % while ranks start; while idle in training, each rank uses 1.0 CPU cores and reads 85.0 MiB/s from disks, most likely loading data; rank ${ODD} is idle: 2 % busy, the others 41 % busy`;

/** A measurement whose values swing a little. */
function one(name, rank, value) {
  const values = Array.from({ length: PARTS }, (_, n) => value * (1 + 0.1 * Math.sin(n / 3 + rank)));
  return { name, rank, values, last: value, highest: value * 1.1 };
}

function ofNode(node, gpus) {
  const rank = -1 - node;
  const parts = [["percent", 90], ["memory_mib", 61_440], ["memory_percent", 75], ["power_w", 410], ["temperature_c", 61]];
  return [
    one("cpu_percent", rank, 72), one("memory_mib", rank, 3276.8), one("memory_percent", rank, 13.617), one("disk_free_mib", rank, 9e5), one("disk_percent", rank, 40),
    one("network_received_mib_s", rank, 900), one("network_sent_mib_s", rank, 880),
    ...Array.from({ length: gpus }, (_, gpu) => parts.map(([what, value]) => one(`gpu_${gpu}_${what}`, rank, value))).flat(),
  ];
}

function ofRank(rank, hasGpu) {
  const isOdd = hasGpu && rank === ODD;
  return [
    one("cpu_cores", rank, 1), one("memory_mib", rank, 18.84), one("disk_read_mib_s", rank, 85), one("disk_written_mib_s", rank, 0.1),
    ...(hasGpu ? [one("gpu_memory_mib", rank, isOdd ? 500 : 60_000), one("gpu_percent", rank, isOdd ? 2 : 91)] : []),
  ];
}

function has(name, series, rest = {}) {
  const job = completed(name);
  server.answers[`/jobs/${name}`] = () => ({ ...job, story: [storyLine(1, "training")] });
  server.answers[`/jobs/${name}/files`] = [];
  server.answers[`/jobs/${name}/resources`] = { job: name, sentence: "", start: "2026-11-20T08:00:00Z", part_s: 30, parts: PARTS, series, idle: [], ...rest };
}

const hasMany = () => has("big", [...Array.from({ length: 8 }, (_, node) => ofNode(node, 8)), ...Array.from({ length: RANKS }, (_, rank) => ofRank(rank, true))].flat(), {
  sentence: SENTENCE, idle: [{ name: "gpu_percent", rank: ODD }],
});

const look = async (name, width = 1280) => {
  await page.setViewportSize({ width, height: 800 });
  await page.goto(`${server.origin}/ui/jobs/${name}?tab=resources`);
  await page.locator(".chart-card canvas").first().waitFor();
};

test("the idle one of 64 ranks on 8 × 8 GPUs is named at the top, and its stripe is pale", async () => {
  hasMany();
  await look("big");
  expect(await page.locator(".resource-sentence").innerText()).toBe(SENTENCE);
  const label = page.locator(".heat-labels .tone-wait");
  expect(await label.innerText()).toBe(`idle rank ${ODD}`);
  const box = await label.boundingBox();
  expect(box.y + box.height).toBeLessThanOrEqual(800);
  const strength = await page.locator(".heat canvas").evaluate((canvas, rows) => {
    const height = canvas.height / rows;
    const context = canvas.getContext("2d");
    return Array.from({ length: rows }, (_, n) => context.getImageData(Math.floor(canvas.width / 2), Math.floor((n + 0.5) * height), 1, 1).data[3]);
  }, RANKS);
  expect(strength.indexOf(Math.min(...strength))).toBe(ODD);
  expect(Math.min(...strength.filter((_, n) => n !== ODD))).toBeGreaterThan(4 * strength[ODD]);
  await page.getByText("Means, the least first").click();
  await page.locator(".heat-table a").first().click();
  expect(new URL(page.url()).searchParams.get("rank")).toBe(String(ODD));
});

test("64 ranks on 64 GPUs are drawn: each chart, and the stripes", async () => {
  hasMany();
  server.answers["/jobs/big/logs"] = { pieces: [], after: 0, end: 0, first: 0 };
  await page.goto(`${server.origin}/ui/jobs/big?tab=story`);
  await page.getByRole("tab", { name: "Resources" }).waitFor();
  const took = await page.evaluate(async () => {
    const start = performance.now();
    [...document.querySelectorAll('[role="tab"]')].find((tab) => tab.textContent === "Resources").click();
    const isDrawn = () => document.querySelectorAll(".chart-card canvas").length >= 14 && document.querySelector(".heat canvas")?.width > 300;
    while (!isDrawn()) await new Promise((frame) => requestAnimationFrame(frame));
    return performance.now() - start;
  });
  console.log(`64 ranks on 64 GPUs were drawn in ${Math.round(took)} ms`);
});

test("memory of a node is told of its whole, and shares have an axis from 0 to 100", async () => {
  has("live-gpt", [...ofNode(0, 0), ofRank(0, false), ofRank(1, false)].flat(), { sentence: "ranks use 2.0 of 2 CPU slots on average (100 %)" });
  await look("live-gpt");
  const panels = page.locator(".resource-panel");
  expect(await panels.locator("h2").allInnerTexts()).toEqual(["CPU", "Memory", "Disk", "Network"]);
  expect(await page.getByRole("region", { name: "Memory" }).locator(".resource-value strong").allInnerTexts()).toEqual(["3.2 GiB of 23.5 GiB", "mean 18.8 MiB"]);
  expect(await page.getByRole("region", { name: "CPU" }).locator(".chart-name").allInnerTexts()).toEqual(["CPU in use of nodes", "CPU cores in use of ranks"]);
  expect(await page.locator(".u-legend .u-label").allInnerTexts()).toContain("capacity");
  await page.locator(".heat-word").getByText("CPU cores: from none").waitFor();
  await page.locator(".heat canvas").hover({ position: { x: 200, y: 4 } });
  await eventually(() => page.locator(".heat-word").innerText()).toMatch(/^rank 0 at \d\d:\d\d:\d\d: [01]\.\d\d cores$/);
  await page.mouse.move(5, 5);
  await page.getByLabel("What of them").selectOption("memory");
  await page.locator(".heat-word").getByText("memory: from none").waitFor();
  expect(new URL(page.url()).searchParams.get("strip")).toBe("memory");
});

test("a job that was never measured says so", async () => {
  has("dark", []);
  await page.goto(`${server.origin}/ui/jobs/dark?tab=resources`);
  await page.getByText("is measured every 5 s").waitFor();
});

test.each([["light", 1280], ["dark", 1280], ["light", 390]])("resources keep to the rules of accessibility and to the width, %s at %i", async (scheme, width) => {
  await page.emulateMedia({ colorScheme: scheme });
  hasMany();
  await look("big", width);
  if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/resources-${scheme}-${width}.png`, fullPage: true });
  expect(await violations("main")).toEqual([]);
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
});
