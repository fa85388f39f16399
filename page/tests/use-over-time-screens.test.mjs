/** Computes and ledger over time in Chromium: who held how much, what was idle, and what is free. */

import { expect } from "vitest";
import { eventually, open, page, server, test, useChromium, violations } from "./chromium-screens.mjs";
import { jobOf } from "./scripted-server.mjs";

const PERSONS = ["ada", "bob", "cleo", "dan"];
const HOUR = 3600;

/** A history of what was held, as the server has it for these words. */
function history(words) {
  const since = new Date(words.get("since") ?? Date.now() - 7 * 86_400_000);
  const width = words.get("step") === "hour" || Date.now() - since < 2 * 86_400_000 ? HOUR : 6 * HOUR;
  const count = Math.ceil((Date.now() - since) / 1000 / width);
  const each = (value) => Array.from({ length: count }, (_, n) => value(n));
  const series = PERSONS.map((name, at) => ({ name, gpu_s: each((n) => width * Math.max(0, 6 - 2 * at + 3 * Math.sin(n / 3 + at))), slot_s: each((n) => width * Math.max(0, 24 - 6 * at + 9 * Math.sin(n / 3 + at))) }));
  const sum = (key) => series.flatMap((one) => one[key]).reduce((total, one) => total + one, 0);
  return {
    since: since.toISOString(), until: new Date().toISOString(), by: words.get("by") ?? "person", step: "6h", compute: words.get("compute") ?? "",
    starts: each((n) => new Date(+since + n * width * 1000).toISOString()), lengths_s: each(() => width), series, gpu_s: sum("gpu_s"), slot_s: sum("slot_s"),
    work_slot_s: each((n) => 30 * width * (0.7 + 0.2 * Math.sin(n))), busy_gpu_s: each((n) => 8 * width * (0.6 + 0.2 * Math.sin(n))), waiting: each((n) => n % 5),
    waits: { jobs: 41, p50_s: 95, p95_s: 3900 }, slots: each(() => 128), gpus: each((n) => (n < count / 2 ? 16 : 24)),
    idle: [{ job: "train-7", person: "ada", gpu_s: 40 * HOUR, idle_gpu_s: 35 * HOUR, slot_s: 160 * HOUR, idle_slot_s: 9 * HOUR }],
  };
}

const row = (name, gpu, busy) => ({
  name, jobs: 7, wall_s: gpu * HOUR, seconds: { queue: 0.2 * gpu * HOUR, train: 0.8 * gpu * HOUR }, slot_s: 4 * gpu * HOUR, gpu_s: gpu * HOUR, busy_gpu_s: busy * HOUR, cost: 1.8 * gpu,
  slot_seconds: { stage: 0.3 * gpu * HOUR, train: 3.7 * gpu * HOUR }, gpu_seconds: { queue: 0, stage: 0.1 * gpu * HOUR, train: 0.7 * gpu * HOUR, lost: 0.2 * gpu * HOUR },
});
const ledger = (words) => ({ by: words.get("by"), since: words.get("since"), until: null, currency: "EUR", rows: [row("ada", 312, 180), row("bob", 104, 99), row("cleo", 16, 2)], total: row("", 432, 281) });
const machine = (name) => ({ name, cpus: 32, gpus: ["0", "1", "2", "3"], memory_mib: 131_072, state: "running", word: "", unusable: "" });
const compute = {
  name: "lab", engine: "ssh", machines: [machine("gpu-1"), machine("gpu-2")], waiting: 1, trouble: "", spec: {},
  held: [{ job: "train-7", attempt: 1, node: 0, machine: "gpu-1", cpus: 8, gpus: ["0", "1", "2"], person: "ada", since: new Date(Date.now() - 5 * HOUR * 1000).toISOString() }],
};

useChromium({
  width: 1366, height: 768,
  answers: () => ({ "/use": history, "/ledger": ledger, "/computes": [compute], "/jobs": { jobs: [jobOf("train-7")], after: null } }),
});

const text = () => page.evaluate(() => document.querySelector("main").innerText);

test("the ledger names who held the most of the week and what was idle, with bars as long as the amounts", async () => {
  await open("/ledger");
  await eventually(text).toContain("ada has the most: 312 of 432 GPU-hours (72 %), of which 42 % idle; 35 % of all idle while held; 777.60 EUR.");
  await eventually(text).toContain("35.0 of 40.0 GPU-hours of ada's train-7");
  const widths = await page.evaluate(() => [...document.querySelectorAll(".ledger-bar")].map((bar) => Math.round([...bar.querySelectorAll("rect")].reduce((sum, one) => sum + Number(one.getAttribute("width")), 0))));
  expect(widths).toEqual([1000, 333, 51, 1000]);
  await page.getByLabel("Unit").selectOption("wall time");
  await eventually(text).toContain("of which 20 % idle");
  expect(new URL(page.url()).searchParams.get("unit")).toBe("wall");
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: "csv" }).click();
  expect((await download).suggestedFilename()).toBe("ledger-by-person.csv");
  expect(server.asked.filter((one) => one.startsWith("/ledger") && !one.includes("limit"))).toHaveLength(1);
});

test("computes show what is free, who holds each machine since when, and use over 24 hours, 7 or 30 days", async () => {
  await open("/computes");
  await eventually(text).toContain("Free now: 5 of 8 GPUs, 56 of 64 CPU slots; 1 job waiting");
  await eventually(text).toContain("ada's, since 5 h");
  await eventually(text).toContain("41 jobs waited: half of them at most 1 min 35 s, 19 of 20 at most 1 h 05 min");
  expect(await page.locator("figure.use").count()).toBe(2);
  await page.getByRole("button", { name: "24 hours" }).click();
  await eventually(() => page.locator("figure.use").first().locator("g").count()).toBeLessThanOrEqual(24);
  expect(new URL(page.url()).searchParams.get("span")).toBe("24h");
  await page.getByRole("button", { name: "As a table" }).first().click();
  await eventually(() => page.locator(".chart-rows tbody tr").count()).toBeGreaterThan(20);
  await page.getByRole("link", { name: "bob" }).first().click();
  expect(new URL(page.url()).searchParams.get("person")).toBe("bob");
});

test("the server's screen shows shares and quotas, and what a prune would delete before it does", async () => {
  server.answers["/quotas/use"] = { half_life_s: 604_800, uses: [{ kind: "person", name: "ada", slots: 8, gpus: 3, waiting: 1, recent_use: 75 }, { kind: "person", name: "bob", slots: 0, gpus: 0, waiting: 0, recent_use: 25 }] };
  server.answers["/quotas"] = [{ kind: "person", name: "ada", slots: 64, gpus: null, waiting: 10 }];
  server.answers["/version"] = { version: "1", protocol: 1, boot_id: "", host: "h", pid: 1, home: "/h" };
  server.answers["/notices"] = [];
  server.answers["/usage"] = { items: [{ kind: "snapshot", name: "ab".repeat(32), size: 3 << 20, used_at: null, note: "nothing needs it" }], totals: { snapshot: 3 << 20 }, total: 3 << 20, free: 9, retain_s: 0 };
  const bodies = [];
  server.answers["/prune"] = (_, __, content) => (bodies.push(content), { items: [{ kind: "snapshot", name: "ab".repeat(32), size: 3 << 20, note: "", parts: {} }], kept: [], total: 3 << 20, is_dry: content.dry_run });
  await open("/server");
  await eventually(text).toContain("75.0 (75 %)");
  expect(await text()).toContain("at most 64 slots, 10 jobs in the queue");
  await page.getByRole("button", { name: "Prune snapshots…" }).click();
  await eventually(() => page.locator("dialog").innerText()).toContain("1 snapshot of code and data that no job and no version needs: 3.0 MiB");
  expect(bodies).toEqual([{ older_than_s: 0, dry_run: true, only: "snapshot" }]);
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await eventually(() => bodies.length).toBe(2);
  expect(bodies[1].dry_run).toBe(false);
  server.answers["/page/session"] = { action_token: "", person: "ada", role: "reader" };
  await open("/server");
  await eventually(text).toContain("75.0 (75 %)");
  expect(await page.getByRole("button", { name: "Prune snapshots…" }).count()).toBe(0);
});

for (const scheme of ["light", "dark"]) {
  test(`computes and ledger fit a phone and have nothing that axe finds, ${scheme}`, async () => {
    await page.emulateMedia({ colorScheme: scheme });
    for (const size of [{ width: 390, height: 844 }, { width: 1366, height: 768 }]) {
      await page.setViewportSize(size);
      for (const path of ["/computes", "/ledger"]) {
        await open(path);
        await page.locator("figure.use").first().waitFor();
        await page.waitForTimeout(200);
        expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(size.width);
        expect(await violations()).toEqual([]);
        if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/pb-${path.slice(1)}-${scheme}-${size.width}.png`, fullPage: true });
      }
    }
  });
}
