/** When a waiting job may start, in Chromium over a scripted server: on its page, in the list, and never without a ground. */

import { expect } from "vitest";
import { eventually, open, page, server, test, useChromium, violations } from "./chromium-screens.mjs";
import { jobOf, logOf, storyLine } from "./scripted-server.mjs";

const GROUND = "starts in about 14 min, when live-2 ends, by its last 5 runs; at the latest in 40 min, by the time limits";
const UNKNOWN = "unknown: hang-gloo hangs and has no time limit";
const soon = (minutes) => new Date(Date.now() + minutes * 60_000).toISOString();
const startOf = (job, rest) => ({ job, compute: "lab", place: 1, waiting: 2, at: null, latest: null, sentence: UNKNOWN, ...rest });
const holderOf = (job, rest) => ({ job, person: "ada", nodes: 2, cpus: 8, gpus: 4, since: soon(-50), step: null, steps: null, deadline: null, ends_at: null, ground: "has no time limit and no earlier runs", is_hanging: false, ...rest });

useChromium({ width: 1280, height: 800, answers: () => ({ "/quotas/use": { uses: [] } }) });

function hasWaiting(name, start, rest = {}) {
  const job = jobOf(name, { state: "queued", reason: "waiting_for_slots", sentence: "needs 2 CPU slots on each of 4 nodes of lab; it is next", started_at: null, compute: "lab" });
  server.answers[`/jobs/${name}`] = { ...job, story: [storyLine(1, job.sentence, { state: "queued" })] };
  server.answers[`/jobs/${name}/logs`] = logOf([]);
  server.answers[`/jobs/${name}/outlook`] = { job: name, start, holders: [], fewer: "", own: null, ...rest };
  return job;
}

const hasSoon = () => hasWaiting("soon", startOf("soon", { at: soon(14.2), latest: soon(40), sentence: GROUND }), {
  fewer: "2 nodes would start now",
  holders: [
    holderOf("live-2", { step: 1200, steps: 2000, deadline: soon(40.5), ends_at: soon(14.2), ground: "by its last 5 runs" }),
    holderOf("hang-gloo", { person: "bob", is_hanging: true, ground: "hangs and has no time limit", gpus: 0 }),
  ],
});

test("a waiting job shows its place, its estimate with the ground, its holders, and what would start now", async () => {
  hasSoon();
  await open("/jobs/soon");
  const box = page.locator(".cause");
  await box.getByText("Number 1 of 2").waitFor();
  const text = await box.innerText();
  for (const said of [GROUND, "2 nodes would start now", "ada", "2 nodes, 8 CPU slots, 4 GPUs", "1,200 of 2,000 (60 %)", "50 min ago", "in about 14 min, by its last 5 runs", "unknown: hangs and has no time limit", "in 40 min"]) expect(text).toContain(said);
  expect(await box.locator("tbody tr").nth(1).innerText()).toContain("hanging");
});

test("the list has the estimate as a number with its ground, and none where there is no ground", async () => {
  const jobs = [hasSoon(), hasWaiting("stuck", startOf("stuck", { place: 2 })), hasWaiting("limited", startOf("limited", { place: 3 }))];
  const limit = soon(40.2);
  server.answers["/jobs"] = { jobs, after: null };
  server.answers["/starts"] = [startOf("soon", { at: soon(14.2), sentence: GROUND }), startOf("stuck", { place: 2 }), startOf("limited", { place: 3, at: limit, latest: limit, sentence: "starts in at most 40 min, when b ends, by its time limit" })];
  await open("/");
  const rows = page.locator("table.jobs tbody tr");
  await eventually(() => rows.nth(0).innerText()).toContain("≈ 14 min");
  expect(await rows.nth(0).getByText("≈ 14 min").getAttribute("title")).toBe(GROUND);
  expect(await rows.nth(1).innerText()).not.toMatch(/≈|≤/);
  expect(await rows.nth(2).innerText()).toContain("≤ 40 min");
});

test("a job whose start is unknown says why, and no number", async () => {
  hasWaiting("stuck", startOf("stuck"));
  await open("/jobs/stuck");
  await page.locator(".cause").getByText(`its start is ${UNKNOWN}`).waitFor();
  expect(await page.locator(".cause").innerText()).not.toMatch(/in about|≈/);
});

test("a running job tells how far it is and when it ends", async () => {
  const job = jobOf("live");
  server.answers["/jobs/live"] = { ...job, story: [storyLine(1, "training")] };
  server.answers["/jobs/live/logs"] = logOf([]);
  server.answers["/jobs/live/outlook"] = { job: "live", start: null, holders: [], fewer: "", own: holderOf("live", { step: 1200, steps: 2000, ends_at: soon(7.1), ground: "at step 1,200 of 2,000" }) };
  await open("/jobs/live?tab=logs");
  await page.getByText("step 1,200 of 2,000 (60 %); ends in about 7 min, at step 1,200 of 2,000").waitFor();
});

test.each([["light", 1280], ["dark", 1280], ["light", 390]])("a wait keeps to the rules of accessibility and to the width, %s at %i", async (scheme, width) => {
  await page.emulateMedia({ colorScheme: scheme });
  await page.setViewportSize({ width, height: 800 });
  hasSoon();
  await open("/jobs/soon");
  await page.locator(".cause").getByText("Number 1 of 2").waitFor();
  if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/wait-${scheme}-${width}.png` });
  expect(await violations("main")).toEqual([]);
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
});
