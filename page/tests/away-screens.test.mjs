/** The page in Chromium while its server is away, and without a session: it goes on by itself, at the address that was asked for. */

import { expect } from "vitest";
import { eventually, open, page, server, test, useChromium } from "./chromium-screens.mjs";
import { completed, refusal } from "./scripted-server.mjs";

const LIVE_MS = 5000;
const CODE = "meta[name=code]";
const SESSION = { action_token: "t", person: "ada", role: "reader", server: "gpu-server", version: "0.3.0", idle_stop_s: 900 };

useChromium({ width: 1440, height: 700, answers: () => ({
  "/page/session": SESSION, "/jobs": { jobs: [completed("one")], after: null }, "/quotas/use": { uses: [] },
  "/jobs/one": { ...completed("one"), story: [] }, "/jobs/one/metrics": { job: "one", run: "r", experiment: "tests", status: "", series: [], params: {}, tags: {} },
  "/ledger": { by: "experiment", since: null, rows: [], total: { name: "", jobs: 0, wall_s: 0, seconds: {} } },
  "/experiments/tests/charts": [], "/jobs/one/files": [],
  "/jobs/one/overview": { job: "one", held_s: 1, slot_hours: 1, gpu_hours: 0, lost_s: 0, inputs: {}, parameters: {}, note: "", series: [], standing: null, use: {} },
}) });

const banner = () => page.getByRole("alert").filter({ hasText: "this page goes on by itself" });

function goDown() {
  server.isDown = true;
  server.endStreams();
}

test("a page whose server stops says so, and is live within five seconds of its return without a reload", async () => {
  await open("/");
  await page.getByText("connected", { exact: true }).waitFor();
  await page.evaluate(() => (globalThis.isSamePage = true));
  goDown();
  await banner().waitFor();
  expect(await banner().innerText()).toBe("The server does not answer. drumbeat ui starts it; this page goes on by itself.");
  expect(await page.getByRole("button", { name: "Reload" }).count()).toBe(0);
  server.answers["/jobs"] = { jobs: [completed("two"), completed("one")], after: null };
  const began = Date.now();
  server.isDown = false;
  await page.locator("table.jobs", { hasText: "two" }).waitFor();
  await eventually(() => banner().count()).toBe(0);
  expect(Date.now() - began).toBeLessThan(LIVE_MS);
  expect(await page.evaluate(() => globalThis.isSamePage)).toBe(true);
});

test("a page that was hidden for the server's idle time says why the server has stopped", async () => {
  await page.addInitScript(() => {
    const real = Date.now;
    globalThis.late = 0;
    Date.now = () => real() + globalThis.late;
  });
  await open("/");
  await page.getByText("connected", { exact: true }).waitFor();
  await eventually(() => server.count("/page/session")).toBeGreaterThan(0);
  await page.waitForTimeout(300);
  const hide = (isHidden) => page.evaluate((hidden) => {
    Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, isHidden);
  await hide(true);
  goDown();
  await page.evaluate(() => (globalThis.late = 901_000));
  await hide(false);
  await banner().waitFor();
  expect(await banner().innerText()).toContain("The server has stopped (idle for 15 min).");
});

test("the code of every screen is brought ahead, so that each can be opened while the server is away", async () => {
  await open("/");
  const files = (await page.locator(CODE).getAttribute("content")).split(" ");
  expect(files.length).toBeGreaterThan(10);
  const brought = () => page.evaluate(() => performance.getEntriesByType("resource").map((one) => new URL(one.name).pathname));
  await eventually(async () => {
    const here = await brought();
    return files.filter((file) => !here.includes(file));
  }).toEqual([]);
  goDown();
  await page.evaluate(() => (globalThis.isSamePage = true));
  for (const [name, heading] of [["Ledger", "Where the time went"], ["Computes", "Computes"], ["Experiments", "Experiments"]]) {
    await page.locator("nav").getByRole("link", { name }).click();
    await page.getByRole("heading", { level: 1, name: heading }).waitFor();
  }
  expect(await page.evaluate(() => globalThis.isSamePage)).toBe(true);
});

test("a screen whose code wasn't there yet opens by itself once the server is back", async () => {
  for (const [path, link, shown] of [["/", "Ledger", "Where the time went"], ["/jobs/one?tab=file", "Metrics", "Metrics"]]) {
    await open(path);
    await page.getByText("connected", { exact: true }).waitFor();
    await page.evaluate(() => (globalThis.isSamePage = true));
    goDown();
    const target = path === "/" ? page.locator("nav").getByRole("link", { name: link }) : page.getByRole("tab", { name: link });
    await target.click();
    await banner().waitFor();
    const began = Date.now();
    server.isDown = false;
    if (path === "/") await page.getByRole("heading", { level: 1, name: shown }).waitFor();
    else await page.getByText("It has logged no metrics.").waitFor();
    expect(Date.now() - began).toBeLessThan(LIVE_MS);
    expect(await page.evaluate(() => globalThis.isSamePage)).toBe(true);
  }
});

test("an unknown job leaves the page connected", async () => {
  server.answers["/jobs/gone"] = () => refusal(404, "there is no job gone");
  await open("/jobs/gone?tab=logs");
  await page.getByRole("heading", { level: 1, name: "gone" }).waitFor();
  await page.getByText("connected", { exact: true }).waitFor({ timeout: 1500 });
});

test("the bar says whose page it is, and of which server", async () => {
  await open("/");
  await page.getByText("ada · reader").waitFor();
  await page.getByText("gpu-server · 0.3.0").waitFor();
});

test("a browser without a session comes to the asked address by a token, and by a one-time link", async () => {
  const none = refusal(401, "no session");
  const kept = { ...server.answers };
  const lose = () => ["/events", "/page/session", "/jobs", "/jobs/one", "/job-counts"].forEach((path) => (server.answers[path] = none));
  const gain = () => {
    Object.assign(server.answers, kept);
    delete server.answers["/events"];
  };
  const asked = [];
  server.answers["/page/links"] = (_query, request) => {
    if (request.headers.authorization !== "Bearer good") return refusal(401, "no");
    return { path: "/ui/open/once", lifetime_s: 600 };
  };
  await page.route("**/ui/open/once?**", (route) => {
    const to = new URL(route.request().url()).searchParams.get("to");
    asked.push(to);
    gain();
    return route.fulfill({ status: 303, headers: { Location: to } });
  });
  lose();
  await open("/jobs/one?tab=metrics");
  const field = page.getByLabel("a token of yours");
  await field.fill("bad");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("this is no token of this server").waitFor();
  await field.fill("good");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("tab", { name: "Metrics", selected: true }).waitFor();
  expect(asked).toEqual(["/ui/jobs/one?tab=metrics"]);
  expect(page.url()).toBe(`${server.origin}/ui/jobs/one?tab=metrics`);
  lose();
  await open("/jobs/one?tab=story");
  await page.getByText("This browser has no session").waitFor();
  gain();
  await page.goto(`${server.origin}/ui/#opened`);
  await page.getByRole("tab", { name: "History", selected: true }).waitFor();
  expect(page.url()).toBe(`${server.origin}/ui/jobs/one?tab=story`);
  await page.goto(`${server.origin}/ui/ledger#opened`);
  await page.getByRole("heading", { level: 1, name: "Where the time went" }).waitFor();
  expect(page.url()).toBe(`${server.origin}/ui/ledger`);
});
