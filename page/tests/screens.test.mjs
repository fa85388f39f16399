/** Screens in Chromium over a scripted server: what a slow, restarted or forgetful server must not do to them. */

import { chromium as browsers } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test as every, vi } from "vitest";
import { builtPage, chromium, completed, held, jobOf, logOf, refusal, ScriptedServer, storyLine } from "./scripted-server.mjs";

const test = every.skipIf(!chromium);
if (!chromium) console.warn("the screens aren't tested: apt-get install chromium");
const PATIENCE_MS = 20_000;
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

let built, browser, server, page;

beforeAll(async () => {
  if (!chromium) return;
  built = await builtPage();
  browser = await browsers.launch({ executablePath: chromium, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
});
afterAll(async () => {
  await browser?.close();
  built?.remove();
});
beforeEach(async () => {
  if (!chromium) return;
  server = await new ScriptedServer(built.folder).start();
  server.answers = { "/page/session": { action_token: "", person: "", role: "owner" }, "/experiments": [], "/job-counts": {}, "/curves": [] };
  page = await browser.newPage({ viewport: { width: 1200, height: 600 } });
  page.setDefaultTimeout(PATIENCE_MS);
});
afterEach(async () => {
  await page?.close();
  await server?.close();
});

const open = (path) => page.goto(`${server.origin}/ui${path}`);
const seen = (text) => page.getByText(text, { exact: false }).first().waitFor();
const text = () => page.evaluate(() => document.querySelector("main").innerText);
const row = (name) => page.locator("table.jobs tbody tr", { hasText: name });
const eventually = (read) => expect.poll(read, { timeout: PATIENCE_MS, interval: 50 });
const streaming = (job = null) => eventually(() => [...server.streams].map((one) => one.words.get("job"))).toEqual([job]);
const lists = (jobs) => (server.answers["/jobs"] = () => ({ jobs: jobs(), after: null }));

/** Hides the tab, or shows it, as a browser does. */
const hide = (isHidden) => page.evaluate((hidden) => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}, isHidden);

/** A job with its story and its log. */
function has(job, { story = [storyLine(1, "training")], log = logOf([`the log of ${job.name}`]) } = {}) {
  server.answers[`/jobs/${job.name}`] = () => ({ ...job, story });
  server.answers[`/jobs/${job.name}/logs`] = () => log;
}

test("the list shows a job as it is when a hidden tab is seen again", async () => {
  let jobs = [jobOf("one")];
  lists(() => jobs);
  await open("/");
  await streaming();
  server.changed([jobOf("one", { sentence: "half way" })]);
  await seen("half way");
  await hide(true);
  await eventually(() => server.streams.size).toBe(0);
  jobs = [completed("one")];
  await hide(false);
  await eventually(() => row("one").innerText()).toContain("completed");
});

test("an event that comes while the list is read again wins over the older answer", async () => {
  lists(() => [jobOf("one")]);
  await open("/");
  await streaming();
  await seen("one trains");
  const answer = held({ jobs: [jobOf("one"), jobOf("two")], after: null });
  server.answers["/jobs"] = () => answer.answer;
  const before = server.count("/jobs");
  server.changed([jobOf("two")]);
  await eventually(() => server.count("/jobs")).toBe(before + 1);
  server.changed([completed("one")]);
  await eventually(() => row("one").innerText()).toContain("completed");
  answer.give();
  await eventually(() => row("two").count()).toBe(1);
  expect(await row("one").innerText()).toContain("completed");
});

test("a job that is submitted again under the name of a deleted one is listed", async () => {
  let jobs = [jobOf("one"), jobOf("two")];
  lists(() => jobs);
  await open("/");
  await streaming();
  await seen("one trains");
  server.changed([], { removed: ["one"] });
  await eventually(() => row("one").count()).toBe(0);
  await hide(true);
  jobs = [jobOf("one", { sentence: "the second of its name" }), jobOf("two")];
  await hide(false);
  await seen("the second of its name");
});

test("a tab that is opened in the background has the present list when it is first seen", async () => {
  let jobs = [jobOf("one")];
  lists(() => jobs);
  await page.addInitScript(() => Object.defineProperty(document, "hidden", { value: true, configurable: true }));
  await open("/");
  await seen("one trains");
  jobs = [completed("one")];
  await hide(false);
  await eventually(() => row("one").innerText()).toContain("completed");
});

test("older jobs that are shown stay listed once each while new ones come, and are read again with the others", async () => {
  const all = Array.from({ length: 230 }, (_, n) => jobOf(`job-${230 - n}`));
  server.answers["/jobs"] = (words) => {
    const from = words.get("after") ? all.findIndex((job) => job.name === words.get("after")) + 1 : 0;
    const jobs = all.slice(from, from + Number(words.get("limit")));
    return { jobs, after: jobs.length === Number(words.get("limit")) ? jobs.at(-1).name : null };
  };
  const names = () => page.locator("table.jobs .row-link").allInnerTexts();
  await open("/");
  await streaming();
  await page.getByRole("button", { name: "Show older jobs" }).click();
  await eventually(async () => (await names()).length).toBe(200);
  all.unshift(jobOf("job-232"), jobOf("job-231"));
  server.changed(all.slice(0, 2));
  await eventually(async () => (await names())[0]).toBe("job-232");
  await eventually(names).toEqual(all.slice(0, 200).map((job) => job.name));
  await hide(true);
  all[150] = completed(all[150].name);
  await hide(false);
  await eventually(() => row(all[150].name).innerText()).toContain("completed");
});

test("a job's screen follows its own job, also when the one opened before answers late", async () => {
  has(jobOf("first"));
  has(jobOf("second"));
  lists(() => [jobOf("first"), jobOf("second")]);
  const late = held(logOf(["the log of first"]));
  server.answers["/jobs/first/logs"] = () => late.answer;
  await open("/");
  await page.getByRole("link", { name: "first" }).click();
  await eventually(() => server.count("/jobs/first/logs")).toBe(1);
  await page.getByRole("link", { name: "drumbeat: all jobs" }).click();
  await page.getByRole("link", { name: "second" }).click();
  await seen("the log of second");
  await streaming("second");
  late.give();
  await page.waitForTimeout(300);
  await streaming("second");
  server.send("state", jobOf("second", { sentence: "second goes on" }), { job: "second", id: "1.1" });
  await seen("second goes on");
  expect(await text()).not.toContain("first");
});

test("the log goes on after its end or older lines could not be read", async () => {
  has(jobOf("one"), { log: "break" });
  await open("/jobs/one");
  await seen("the server does not answer");
  await streaming("one");
  server.send("story", storyLine(2, "the ranks go on"), { job: "one", id: "0.2" });
  server.send("state", jobOf("one", { sentence: "still at work" }), { job: "one", id: "0.2" });
  await seen("still at work");
  const log = logOf(Array.from({ length: 60 }, (_, n) => `line ${n + 1}`));
  const end = { ...log, pieces: log.pieces.slice(50), first: 50 };
  let isBroken = false;
  server.answers["/jobs/one/logs"] = (words) => (words.has("tail") ? end : isBroken ? "break" : { ...log, pieces: log.pieces.slice(Number(words.get("after"))) });
  server.endStreams();
  await seen("line 60");
  await streaming("one");
  isBroken = true;
  await page.getByRole("searchbox").fill("line 1");
  await page.getByRole("button", { name: "Search all of it" }).click();
  await seen("the server does not answer");
  const piece = { ...log.pieces[59], position: 61, offset: log.pieces[59].offset + 8, text: "line 61\n" };
  server.send("log", piece, { job: "one", id: "61.2" });
  await page.getByRole("searchbox").fill("");
  await seen("line 61");
  isBroken = false;
  await page.getByRole("searchbox").fill("line 1");
  await page.getByRole("button", { name: "Search all of it" }).click();
  await eventually(text).toContain("61 lines");
  expect(await text()).not.toContain("does not answer");
});

test("a job that was deleted while its tab was hidden leads to the list", async () => {
  has(jobOf("one"));
  lists(() => [jobOf("two")]);
  await open("/jobs/one");
  await streaming("one");
  await hide(true);
  server.answers["/jobs/one"] = refusal(404, "No job named 'one'");
  server.answers["/events"] = (words) => (words.has("job") ? refusal(404, "No job named 'one'") : undefined);
  await hide(false);
  await seen("two trains");
  await streaming();
  await seen("connected");
});

test("a job that is submitted again under the name of the one on the screen takes its place, story and log", async () => {
  has(jobOf("one"), { story: [storyLine(1, "queued"), storyLine(2, "the first one trains")] });
  await open("/jobs/one");
  await seen("the log of one");
  await streaming("one");
  const second = jobOf("one", { submitted_at: "2026-11-21T08:00:00Z", sentence: "the second one trains" });
  has(second, { story: [storyLine(1, "the second one is queued")], log: logOf(["the log of the second"]) });
  server.changed([second]);
  await seen("the log of the second");
  expect(await text()).not.toContain("the log of one");
  await page.getByRole("tab", { name: "Story" }).click();
  await seen("the second one is queued");
  expect(await text()).not.toContain("the first one");
});

test("an event that comes while a job is read again wins over the older answer, and no line of its story is lost", async () => {
  has(jobOf("one"));
  await open("/jobs/one?tab=story");
  await streaming("one");
  const older = held({ ...jobOf("one"), story: [storyLine(1, "training")] });
  server.answers["/jobs/one/archive"] = jobOf("one");
  server.answers["/jobs/one"] = () => older.answer;
  await page.getByRole("button", { name: "Archive" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Archive" }).click();
  await eventually(() => server.count("/jobs/one")).toBe(2);
  const options = { job: "one", id: "0.2" };
  server.send("story", storyLine(2, "1 rank ended with exit code 0", { state: "completed" }), options);
  server.send("state", completed("one"), options);
  await eventually(() => page.locator(".job-title").innerText()).toContain("completed");
  older.give();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.waitForTimeout(300);
  expect(await page.locator(".job-title").innerText()).toContain("completed");
  expect(await page.locator("ol.story li").count()).toBe(2);
});

test("a session that ends while the page is open is said", async () => {
  lists(() => [jobOf("one")]);
  await open("/");
  await streaming();
  await seen("one trains");
  server.answers["/events"] = server.answers["/page/session"] = refusal(401, "no session");
  server.endStreams();
  await seen("This browser has no session");
});

test("a link to another screen begins at its top, and the way back leads to the place before", async () => {
  lists(() => Array.from({ length: 90 }, (_, n) => jobOf(`job-${n}`)));
  has(jobOf("job-70"), { story: Array.from({ length: 60 }, (_, n) => storyLine(n + 1, `line ${n + 1} of the story`)) });
  await open("/");
  await page.getByRole("link", { name: "job-70" }).scrollIntoViewIfNeeded();
  const place = await page.evaluate(() => scrollY);
  expect(place).toBeGreaterThan(500);
  // The browser restores the place at once, before the list has come: without room it would be cut.
  await page.evaluate(() => (document.body.style.minHeight = "9000px"));
  await page.getByRole("link", { name: "job-70" }).click();
  await seen("the log of job-70");
  expect(await page.evaluate(() => scrollY)).toBe(0);
  await page.evaluate(() => scrollTo(0, 300));
  await page.evaluate(() => document.getElementById("tab-story").click());
  await seen("line 60 of the story");
  expect(await page.evaluate(() => scrollY)).toBe(300);
  await page.goBack();
  await page.goBack();
  await seen("job-70 trains");
  await eventually(() => page.evaluate(() => scrollY)).toBe(place);
});

test("a single-file output of a completed job is a link", async () => {
  const output = (name, type) => ({ name, type, place: "in_place", uri: "", asset: `${name}:1`, files: 1, size: 8, problem: "" });
  has(completed("one", { outputs: [output("table", "uri_file"), output("net", "custom_model")] }));
  server.answers["/jobs/one/files"] = [{ path: "outputs/net/weights.pt", size: 8 }, { path: "outputs/table", size: 8 }];
  await open("/jobs/one");
  await seen("Download weights.pt");
  const link = page.getByRole("link", { name: "Download table" });
  expect(await link.getAttribute("href")).toBe("/api/v1/jobs/one/files/outputs/table");
});
