/** Screens in Chromium over a scripted server: what a slow, restarted or forgetful server must not do to them. */

import { expect } from "vitest";
import { browser, eventually, open, page, server, test, useChromium } from "./chromium-screens.mjs";
import { completed, held, jobOf, logOf, refusal, storyLine } from "./scripted-server.mjs";

useChromium({ width: 1200, height: 600 });

const seen = (text) => page.getByText(text, { exact: false }).first().waitFor();
const text = () => page.evaluate(() => document.querySelector("main").innerText);
const row = (name) => page.locator("table.jobs tbody tr", { hasText: name });
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

test("a server without jobs shows the commands to begin with, which can be copied", async () => {
  lists(() => []);
  await open("/");
  await seen("No jobs yet");
  const commands = page.locator(".first-steps code");
  await eventually(() => commands.allInnerTexts()).toEqual([
    "drumbeat run --procs 2 --set code=null -- 'echo \"rank $RANK of $WORLD_SIZE\"'", "drumbeat init train.py", "drumbeat run job.yml",
  ]);
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.locator(".first-steps button").nth(1).click();
  await seen("Copied");
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe("drumbeat init train.py");
  await open("/?text=nothing-like-it");
  await seen("No job matches");
});

test("the list shows a job as it is when a hidden tab is seen again", async () => {
  let jobs = [jobOf("one")];
  lists(() => jobs);
  await open("/");
  await streaming();
  await seen("one trains");
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
  const openLogs = async (name) => {
    await page.getByRole("link", { name }).click();
    await page.getByRole("tab", { name: "Logs" }).click();
  };
  await openLogs("first");
  await eventually(() => server.count("/jobs/first/logs")).toBe(1);
  await page.getByRole("link", { name: "drumbeat: all jobs" }).click();
  await openLogs("second");
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
  await open("/jobs/one?tab=logs");
  await seen("the server does not answer");
  await streaming("one");
  server.send("story", storyLine(2, "the ranks go on"), { job: "one", id: "0.2" });
  server.send("state", jobOf("one", { sentence: "still at work" }), { job: "one", id: "0.2" });
  await seen("still at work");
  const log = logOf(Array.from({ length: 260 }, (_, n) => `line ${n + 1}`));
  const end = { ...log, pieces: log.pieces.slice(50), first: 50 };
  let isBroken = false;
  server.answers["/jobs/one/logs"] = (words) => (words.has("tail") ? end : isBroken ? "break" : { ...log, pieces: log.pieces.slice(Number(words.get("after"))) });
  server.endStreams();
  await seen("line 260");
  await streaming("one");
  isBroken = true;
  await page.getByRole("searchbox").fill("line 1");
  await page.getByRole("button", { name: "Search all of it" }).click();
  await seen("the server does not answer");
  const last = log.pieces.at(-1);
  const piece = { ...last, position: 261, offset: last.offset + last.text.length, text: "line 261\n" };
  server.send("log", piece, { job: "one", id: "261.2" });
  await page.getByRole("searchbox").fill("");
  await page.getByRole("log").focus();
  await page.keyboard.press("G");
  await seen("line 261");
  isBroken = false;
  await page.getByRole("searchbox").fill("line 1");
  await page.getByRole("button", { name: "Search all of it" }).click();
  await eventually(text).toContain("261 lines");
  expect(await text()).not.toContain("does not answer");
});

test("a job that was deleted while its tab was hidden leads to the list", async () => {
  has(jobOf("one"));
  lists(() => [jobOf("two")]);
  await open("/jobs/one?tab=logs");
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
  await open("/jobs/one?tab=logs");
  await seen("the log of one");
  await streaming("one");
  const second = jobOf("one", { submitted_at: "2026-11-21T08:00:00Z", sentence: "the second one trains" });
  has(second, { story: [storyLine(1, "the second one is queued")], log: logOf(["the log of the second"]) });
  server.changed([second]);
  await seen("the log of the second");
  expect(await text()).not.toContain("the log of one");
  await page.getByRole("tab", { name: "History" }).click();
  await seen("the second one is queued");
  expect(await text()).not.toContain("the first one");
});

test("an event that comes while a job is read again wins over the older answer, and no line of its story is lost", async () => {
  has(jobOf("one"));
  await open("/jobs/one?tab=story");
  await streaming("one");
  const older = held({ ...jobOf("one"), story: [storyLine(1, "training")] });
  server.answers["/jobs/one/cancel"] = jobOf("one");
  server.answers["/jobs/one"] = () => older.answer;
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
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
  const before = server.count("/events");
  await page.waitForTimeout(2500);
  expect(server.count("/events")).toBe(before);
});

test("a browser without a session is offered the identity provider, which brings it back to the very address", async () => {
  server.answers["/events"] = server.answers["/page/session"] = server.answers["/jobs"] = server.answers["/job-counts"] = refusal(401, "no session");
  await page.route("**/ui/sign-in/provider", (route) => route.fulfill({ json: { name: "Example & Co" } }));
  const asked = [];
  await page.route("**/ui/sign-in?**", (route) => {
    asked.push(new URL(route.request().url()).searchParams.get("to"));
    return route.fulfill({ body: "the provider's page" });
  });
  await open("/?state=running&q=a%26b");
  await page.getByRole("link", { name: "Sign in with Example & Co" }).click();
  await seen("the provider's page");
  expect(asked).toEqual(["/ui/?state=running&q=a%26b"]);
});

test("a link to another screen begins at its top, and the way back leads to the place before", async () => {
  lists(() => Array.from({ length: 90 }, (_, n) => jobOf(`job-${n}`)));
  has(jobOf("job-70"), { story: Array.from({ length: 60 }, (_, n) => storyLine(n + 1, `line ${n + 1} of the story`)) });
  await open("/");
  await page.getByRole("link", { name: "job-70" }).scrollIntoViewIfNeeded();
  const place = await page.evaluate(() => scrollY);
  expect(place).toBeGreaterThan(500);
  await page.evaluate(() => (document.body.style.minHeight = "9000px"));
  await page.getByRole("link", { name: "job-70" }).click();
  await page.getByRole("heading", { name: "job-70" }).waitFor();
  expect(await page.evaluate(() => scrollY)).toBe(0);
  await page.evaluate(() => scrollTo(0, 300));
  await page.evaluate(() => document.getElementById("tab-story").click());
  await seen("line 60 of the story");
  expect(await page.evaluate(() => scrollY)).toBe(300);
  await page.evaluate(() => (document.body.style.minHeight = ""));
  await page.goBack();
  await page.goBack();
  await seen("job-70 trains");
  await eventually(() => page.evaluate(() => scrollY)).toBe(place);
});

test("a single-file output of a completed job is a link", async () => {
  const output = (name, type) => ({ name, type, place: "in_place", uri: "", asset: `${name}:1`, files: 1, size: 8, problem: "" });
  has(completed("one", { outputs: [output("table", "uri_file"), output("net", "custom_model")] }));
  server.answers["/jobs/one/files"] = [{ path: "outputs/net/weights.pt", size: 8 }, { path: "outputs/table", size: 8 }];
  await open("/jobs/one?tab=logs");
  await seen("Download weights.pt");
  const link = page.getByRole("link", { name: "Download table" });
  expect(await link.getAttribute("href")).toBe("/api/v1/jobs/one/files/outputs/table");
});

test("a job of 4,096 nodes shows the odd ones and folds the others, and a rank's log is opened by its number", async () => {
  const node = (number, fields = {}) => ({
    node: number, machine: `m${number}`, host: `h${number}`, address: "", phase: "running", detail: "", error: "", lost: false, exits: [], ...fields,
  });
  const nodes = Array.from({ length: 4096 }, (_, n) => node(n));
  nodes[4000] = node(4000, { error: "the disk is full" });
  has(jobOf("wide", { nodes, node_count: 4096, processes_per_node: 8, world_size: 32_768 }));
  server.answers["/jobs/wide/metrics"] = { series: [] };
  await open("/jobs/wide?tab=ranks");
  await seen("the disk is full");
  await seen("0–3999, 4001–4095");
  expect(await page.locator(".rank").count()).toBe(8);
  await page.getByRole("button", { name: "Show the first 32" }).click();
  await eventually(() => page.locator(".rank").count()).toBe(8 + 32 * 8);
  await open("/jobs/wide?tab=logs");
  const rank = page.getByRole("spinbutton", { name: "Rank" });
  await rank.fill("32767");
  await rank.press("Enter");
  await eventually(() => page.url()).toContain("rank=32767");
  expect(await page.getByRole("combobox", { name: "Whose log" }).locator("option").allTextContents()).toEqual(["all ranks", "rank 32767", "several ranks", "the nodes' own"]);
});

test("the first link of a screen leads past the bar to its content", async () => {
  lists(() => [jobOf("one")]);
  await open("/");
  await seen("one trains");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await eventually(() => page.evaluate(() => document.activeElement.id)).toBe("main");
});

test("the bar says connected, however early the stream is opened", async () => {
  lists(() => [jobOf("one")]);
  // The browser paints seldom, as on a loaded machine: what follows a paint comes behind the stream.
  await page.addInitScript(() => {
    const wait = globalThis.setTimeout;
    globalThis.requestAnimationFrame = (action) => wait(action, 1000);
    globalThis.setTimeout = (action, time) => wait(action, time === 35 ? 1000 : time);
  });
  await open("/");
  await streaming();
  await seen("one trains");
  await page.waitForTimeout(1500);
  expect(await page.locator("header.bar [role=status]").innerText()).toBe("connected");
});

test("a model leads back to its job, code, data and environment by hash", async () => {
  const hash = (letter) => letter.repeat(64);
  const lineage = {
    job: { name: "trainer", plan: hash("a"), file: hash("b"), person: "ada", submitted_at: "2026-11-20T08:00:00Z" },
    code: { snapshot: hash("c") }, environment: { name: "current" },
    data: [{ input: "d", uri: "", kind: "data", name: "digits", version: "4", digest: hash("d") }], metrics: { loss: { value: 0.5, step: 3 } },
  };
  const model = { name: "net", version: "2", type: "mlflow_model", uri: "azureml://jobs/trainer/outputs/model/paths/", digest: hash("e"), created_at: "2026-11-20T08:00:00Z", made_by: "trainer", description: "", stage: "Production", aliases: ["champion"], tags: {}, files: 1, size: 1, statement: hash("f"), scan: "nothing known was found (picklescan 1.0.5)", problem: "", is_archived: false, lineage, used_by: [] };
  server.answers["/models"] = () => [{ ...model, lineage: {} }];
  server.answers["/models/net/versions/2"] = model;
  await open("/data?tab=models&name=net");
  for (const text of ["Production", "champion", "nothing known was found", "plan aaaaaaaaaaaa", "cccccccccccccccc", "dddddddddddd", "name current", "loss 0.5"]) await seen(text);
  expect(await page.getByRole("link", { name: "trainer" }).getAttribute("href")).toContain("/jobs/trainer");
  await page.getByRole("link", { name: "digits:4" }).waitFor();
});

test("a refused answer is shown in place of a chart, a version or an action's effect", async () => {
  const series = [{ name: "loss", rank: 0, count: 3, last: { step: 2, value: 1, at: "2026-11-20T08:00:00Z" }, min: null, max: null }];
  has(jobOf("one"));
  has(jobOf("two"));
  server.answers["/jobs/one/metrics"] = { series, params: {} };
  server.answers["/jobs/one/metrics/curves"] = refusal(500, "the curve can't be read");
  await open("/jobs/one?tab=metrics");
  await seen("the curve can't be read");
  server.answers["/compare"] = { jobs: ["one", "two"], differences: [], outcomes: [{ section: "metrics", key: "loss", values: [1, 2] }] };
  server.answers["/curves"] = refusal(500, "these curves can't be read");
  await open("/compare?job=one&job=two");
  await seen("these curves can't be read");
  const data = { name: "set", version: "1", type: "uri_file", kind: "uri_file", uri: "", digest: "", created_at: "2026-11-20T08:00:00Z", made_by: "", description: "", tags: {}, files: 1, size: 1, used_by: [], is_archived: false };
  server.answers["/data"] = (words) => (words.has("name") ? refusal(500, "the versions can't be read") : [data]);
  await open("/data?name=set");
  await seen("the versions can't be read");
  server.answers["/data"] = (words) => (words.has("name") ? [] : [data]);
  await open("/data?name=gone");
  await seen("no version");
  server.answers["/experiments"] = [{ id: "1", name: "tests", archived: false, created_at: null, jobs: 1, latest_at: null, tags: {}, names: ["tests"] }];
  server.answers["/experiments/archive"] = refusal(403, "only an owner may archive it");
  await open("/experiments");
  await page.getByRole("button", { name: "Archive" }).click();
  await seen("only an owner may archive it");
});

test("a reader is offered no actions", async () => {
  server.answers["/page/session"] = { action_token: "", person: "", role: "reader" };
  server.answers["/experiments"] = [{ id: "1", name: "tests", archived: false, created_at: null, jobs: 1, latest_at: null, tags: {}, names: ["tests"] }];
  server.answers["/notices"] = [{ name: "mine", type: "mail", jobs: "all", on: ["failed"], place: "a@b", receivers: [], description: "", problem: "" }];
  server.answers["/version"] = { version: "1", protocol: 1, boot_id: "", host: "lab", pid: 1, home: "/h" };
  for (const [path, word] of [["/experiments", "1 job"], ["/server", "mail at a@b"]]) {
    await open(path);
    await seen(word);
    await page.waitForTimeout(200);
    expect(await page.locator("main table button").count()).toBe(0);
  }
});

test("a text is copied also where the browser has no clipboard for scripts, as over plain http", async () => {
  has(completed("one", { outputs: [{ name: "net", type: "custom_model", place: "in_place", uri: "", asset: "net:1", files: 2, size: 8, problem: "" }] }));
  await page.addInitScript(() => Object.defineProperty(navigator, "clipboard", { value: undefined }));
  await open("/jobs/one?tab=logs");
  await page.getByRole("button", { name: "Copy" }).click();
  await seen("Copied");
});

test("no other trials are named than those chosen on an axis when one more has a value", async () => {
  const trial = (number, value) => ({ number, job: `trial-${number}`, state: "completed", sentence: "", parameters: { lr: number / 10 }, value, last: value, reports: 1, stopped: "" });
  let trials = [trial(1, null), trial(2, 0.2), trial(3, 0.9), trial(4, 0.8)];
  const sweep = () => ({ name: "tuned", state: "running", sentence: "", goal: "minimize", primary_metric: "loss", max_total_trials: 9, max_concurrent_trials: 3, trials, best: 2 });
  has(jobOf("tuned", { type: "sweep" }));
  server.answers["/sweeps/tuned"] = sweep;
  await page.setViewportSize({ width: 1200, height: 1000 });
  await open("/jobs/tuned?tab=settings");
  const box = await page.locator(".parallel canvas").boundingBox();
  await page.mouse.move(box.x + 14, box.y + box.height - 2);
  await page.mouse.down();
  await page.mouse.move(box.x + 14, box.y + box.height * 0.75, { steps: 4 });
  await page.mouse.up();
  await eventually(() => page.locator(".picked-trials").innerText()).toContain("trial-2");
  trials = [trial(1, 0.7), ...trials.slice(1)];
  server.changed([jobOf("trial-1", { parent: "tuned" })]);
  await eventually(() => page.locator(".picked-trials").count()).toBe(0);
});

test("a job whose name begins another one's can be told from it when jobs to compare are typed", async () => {
  const known = ["job-1", "job-10"];
  server.answers["/jobs"] = (words) => ({ jobs: known.filter((name) => name.includes(words.get("text"))).map((name) => jobOf(name)), after: null });
  await open("/compare");
  const field = page.getByRole("combobox", { name: "Add a job" });
  await field.pressSequentially("job-10", { delay: 150 });
  await field.press("Enter");
  await eventually(() => page.locator(".picked .chip").allInnerTexts()).toEqual([expect.stringContaining("job-10")]);
});

test("the place among the lines found stays within them when another rank is chosen", async () => {
  const log = logOf(Array.from({ length: 12 }, (_, n) => `found ${n}`));
  for (const piece of log.pieces.slice(0, 9)) piece.rank = 1;
  has(jobOf("one", { world_size: 2 }), { log });
  await open("/jobs/one?search=found");
  await seen("12 of 12");
  await page.getByRole("combobox", { name: "Whose log" }).selectOption("0");
  await seen("3 of 3");
});

/** Serves these pieces as a job's log; its end is what comes behind position `first`. Older ones are given by `older`. */
function hasLog(job, pieces, first, older = (page) => page) {
  has(job);
  server.answers[`/jobs/${job.name}/logs`] = (words) => {
    const after = words.has("tail") ? first : Number(words.get("after"));
    const answer = { pieces: pieces.slice(after), after: pieces.length, end: pieces.length, first: words.has("tail") ? first : 0 };
    return words.has("tail") ? answer : older(answer);
  };
}

/** The log of several ranks, in the order in which their lines arrived. */
function ranksOf(lines) {
  const offsets = {};
  return lines.map(([rank, line], n) => {
    const offset = offsets[rank] ?? 0;
    offsets[rank] = offset + line.length + 1;
    return { position: n + 1, attempt: 1, round: 1, node: 0, rank, offset, text: `${line}\n` };
  });
}

const of = (rank, lines) => lines.map((line) => [rank, line]);
const numbered = (count, word = "line") => Array.from({ length: count }, (_, n) => `${word} ${n + 1}`);
const marked = () => page.locator(".line.marked .line-text").innerText();
const scrollLog = (top) => page.evaluate((px) => (document.querySelector(".log").scrollTop = px), top);

/** The first line that is seen in the view of a log, and how far it is from the view's top. */
const firstSeen = () => page.evaluate(() => {
  const top = document.querySelector(".log").getBoundingClientRect().top;
  const line = [...document.querySelectorAll(".log .line")].find((one) => one.getBoundingClientRect().bottom > top + 1);
  return [line.querySelector(".line-text").innerText, Math.round(line.getBoundingClientRect().top - top)];
});

test("a rank or node that has printed only before the end of the log is found, and isn't called silent meanwhile", async () => {
  const pieces = ranksOf([[1, "rank one has begun"], [-1, "the node is ready"], ...of(0, numbered(300))]);
  const answer = held();
  hasLog(jobOf("one", { world_size: 2 }), pieces, 250, (page) => answer.answer.then(() => page));
  await open("/jobs/one?rank=1");
  await seen("Looking for lines of rank 1");
  expect(await text()).not.toContain("printed nothing");
  answer.give();
  await seen("rank one has begun");
  await page.getByRole("link", { name: "Download", exact: true }).waitFor();
  await open("/jobs/one?rank=node&node=0");
  await seen("the node is ready");
});

test("where older lines of a rank can't be read, the log says what wasn't searched, and can be asked again", async () => {
  let isBroken = true;
  hasLog(jobOf("one", { world_size: 2 }), ranksOf([[1, "rank one has begun"], ...of(0, numbered(300))]), 250, (page) => (isBroken ? "break" : page));
  await open("/jobs/one?rank=1");
  await seen("Rank 1 has printed nothing in the last 51 lines of this job's log. Older lines haven't been searched.");
  isBroken = false;
  await page.getByRole("button", { name: "Search older lines" }).click();
  await seen("rank one has begun");
});

test("lines before an end that is one progress bar are shown", async () => {
  const log = logOf(numbered(300));
  let { position, offset } = log.pieces.at(-1);
  offset += log.pieces.at(-1).text.length;
  for (let n = 0; n < 500; n += 1) {
    const text = `${n} of 500 batches\r`;
    log.pieces.push({ ...log.pieces[0], position: (position += 1), offset, text });
    offset += text.length;
  }
  hasLog(jobOf("one"), log.pieces, 400);
  await open("/jobs/one?tab=logs");
  await seen("line 300");
  await seen("499 of 500 batches");
  await eventually(text).toContain("301 lines");
});

test("older lines come until some of the chosen rank do, also where the reader can't scroll any higher", async () => {
  const pieces = ranksOf([...of(1, numbered(200, "early")), ...of(0, numbered(2800, "x".repeat(1000))), ...of(1, numbered(200, "late"))]);
  hasLog(jobOf("one", { world_size: 2 }), pieces, pieces.length - 250);
  server.answers["/jobs/one/logs"] = ((all) => (words) => {
    const page = all(words);
    return words.has("tail") ? page : { ...page, pieces: page.pieces.slice(0, 1000), after: Number(words.get("after")) + Math.min(1000, page.pieces.length) };
  })(server.answers["/jobs/one/logs"]);
  await open("/jobs/one?rank=1");
  await seen("late 200");
  await scrollLog(0);
  await eventually(() => page.locator(".log").innerText()).toContain("early 200");
});

test("a search of the whole log stays at the line that was found at its end", async () => {
  hasLog(jobOf("one"), logOf(numbered(5000).map((line, n) => (n % 100 === 99 ? `${line} is wanted` : line))).pieces, 4000);
  await open("/jobs/one?search=wanted");
  await seen("10 of 10");
  await page.getByRole("button", { name: "The line found before" }).click();
  await seen("9 of 10");
  const before = [await marked(), ...(await firstSeen())];
  expect(before[0]).toBe("line 4900 is wanted");
  await page.getByRole("button", { name: "Search all of it" }).click();
  await seen("49 of 50");
  await eventually(async () => [await marked(), ...(await firstSeen())]).toEqual(before);
});

test("who reads upwards from a line stays where they are as older lines come, newer ones, and as the window changes", async () => {
  const pieces = logOf(numbered(3000)).pieces;
  const answer = held();
  hasLog(jobOf("one"), pieces, 2000, (page) => answer.answer.then(() => page));
  await open(`/jobs/one?at=1.1.0.0.${pieces[2099].offset}`);
  await eventually(marked).toBe("line 2100");
  await streaming("one");
  await page.setViewportSize({ width: 1200, height: 640 });
  await scrollLog(24);
  await eventually(async () => (await firstSeen())[0]).toBe("line 2002");
  const before = await firstSeen();
  let { position, offset } = pieces.at(-1);
  for (let n = 0; n < 40; n += 1) {
    offset += pieces.at(-1).text.length;
    server.send("log", { ...pieces.at(-1), position: (position += 1), offset }, { job: "one", id: `${position}.1` });
  }
  await page.waitForTimeout(300);
  answer.give();
  await eventually(text).toContain("3,040 lines");
  await eventually(firstSeen).toEqual(before);
  await page.setViewportSize({ width: 1200, height: 700 });
  await page.waitForTimeout(300);
  expect(await firstSeen()).toEqual(before);
});

test("a line that is found unasked doesn't pull away who reads elsewhere", async () => {
  const pieces = logOf(numbered(600)).pieces;
  hasLog(jobOf("one"), pieces, 0);
  await open("/jobs/one?search=wanted");
  await seen("none");
  await streaming("one");
  await scrollLog(909);
  await eventually(async () => (await firstSeen())[0]).toBe("line 51");
  const before = await firstSeen();
  const last = pieces.at(-1);
  server.send("log", { ...last, position: 601, offset: last.offset + last.text.length, text: "the wanted one\n" }, { job: "one", id: "601.1" });
  await seen("1 of 1");
  await page.waitForTimeout(200);
  expect(await firstSeen()).toEqual(before);
  await page.getByRole("searchbox").press("Enter");
  await eventually(marked).toBe("the wanted one");
  await eventually(async () => (await firstSeen())[0]).not.toBe(before[0]);
});

test("an output with more files than are listed says so, and an empty picture is no error", async () => {
  has(completed("one"));
  const files = Array.from({ length: 620 }, (_, n) => ({ path: `outputs/default/file-${String(n).padStart(3, "0")}.txt`, size: 1 }));
  server.answers["/jobs/one/files"] = [...files, { path: "outputs/default/zero.png", size: 0 }];
  server.answers["/jobs/one/files/outputs/default/zero.png"] = refusal(416, "no such range");
  await open("/jobs/one?tab=outputs");
  await seen("The first 500 of 621 files");
  await open("/jobs/one?tab=outputs&file=outputs/default/zero.png");
  await seen("It is empty.");
});

test("schedules show their runs and problems, and are disabled and enabled", async () => {
  const nightly = { name: "nightly", user: "ada", is_enabled: true, title: "cron 30 3 * * *, Europe/Berlin", next_run: "2027-01-02T02:30:00Z", last_run: "2026-11-20T02:30:00Z", last_job: "nightly-20261120T023000Z", problem: "", display_name: "" };
  const stopped = { ...nightly, name: "stopped", is_enabled: false, next_run: null, last_job: "", last_run: null, problem: "stopped: bob, whose schedule stopped is, has no token here any more" };
  const all = [nightly, stopped];
  server.answers["/schedules"] = () => all;
  for (const [word, is_enabled] of [["disable", false], ["enable", true]]) {
    server.answers[`/schedules/nightly/${word}`] = () => (all[0] = { ...nightly, is_enabled, next_run: is_enabled ? nightly.next_run : null });
  }
  await open("/schedules");
  await seen("cron 30 3 * * *, Europe/Berlin");
  await seen("has no token here any more");
  await eventually(() => page.locator("a", { hasText: "nightly-20261120T023000Z" }).count()).toBe(1);
  await page.getByRole("button", { name: "Disable nightly" }).click();
  await page.getByRole("button", { name: "Enable nightly" }).click();
  await page.getByRole("button", { name: "Disable nightly" }).waitFor();
  server.answers["/schedules/stopped/enable"] = refusal(400, "bob, whose schedule stopped is, has no token here any more");
  await page.getByRole("button", { name: "Enable stopped" }).click();
  await eventually(() => page.getByRole("alert").count()).toBe(1);
});

test("the server's screen says when it was last backed up", async () => {
  lists(() => []);
  const status = { uptime_s: 1, unfinished: [], idle_s: 0, idle_stop_s: 900, publishing: [], doors: [], others: [], retain_s: 0 };
  server.answers["/version"] = { version: "1", host: "h", pid: 1, home: "/home" };
  server.answers["/status"] = { ...status, backup_at: null };
  await open("/server");
  await page.getByText("never, by drumbeat server backup").waitFor();
  server.answers["/status"] = { ...status, backup_at: "2026-01-02T03:04:05Z" };
  await open("/server");
  await page.getByText(/^2026-01-0\d \d\d:04:05$/).waitFor();
});

test("a hidden page asks the server for nothing, so that an idle server can stop", async () => {
  server.answers["/computes"] = [];
  lists(() => []);
  server.answers["/status"] = { uptime_s: 1, unfinished: [], idle_s: 0, idle_stop_s: 900, publishing: [], doors: [], others: [], retain_s: 0 };
  await page.clock.install();
  for (const path of ["/computes", "/server"]) {
    await open(path);
    await eventually(() => server.streams.size).toBe(1);
    await hide(true);
    await page.clock.runFor(8000);
    await page.waitForTimeout(300);
    const before = server.asked.length;
    await page.clock.runFor(30_000);
    await page.waitForTimeout(200);
    expect(server.asked.slice(before)).toEqual([]);
    await hide(false);
  }
});

test("a logarithmic chart stands zeros, negative values, NaN and infinity", async () => {
  const values = [0, -1, "NaN", 5, "Infinity", "-Infinity", 1e-300, 1e300, 3];
  const at = (n) => `2026-11-20T08:00:0${n}Z`;
  const names = { mixed: values, zeros: [0, 0, 0], nothing: ["NaN", "NaN"], negative: [-3, -2, -1] };
  const point = (value, n) => ({ step: n, value, at: at(n) });
  has(jobOf("one"));
  server.answers["/jobs/one/metrics"] = { params: {}, series: Object.entries(names).map(([name, all]) => ({ name, rank: 0, count: all.length, last: point(all.at(-1), all.length - 1), min: null, max: null })) };
  server.answers["/jobs/one/resources"] = () => ({ job: "one", sentence: "", start: at, part_s: 5, parts: count, idle: [], series: [{ name: "cpu_cores", rank: 0, values: Array(count).fill(1), last: 1, highest: 1 }] });
  server.answers["/jobs/one/metrics/curves"] = (words) => [{ name: words.get("metric"), rank: 0, points: names[words.get("metric")].map(point) }];
  const reports = [];
  page.on("pageerror", (error) => reports.push(String(error)));
  for (const query of ["", "&log=1", "&log=1&smooth=0.9", "&axis=time&log=1"]) {
    await open(`/jobs/one?tab=metrics${query}`);
    await eventually(() => page.locator(".chart-card canvas").count()).toBe(4);
    await eventually(() => page.locator(".chart[data-points='9']").count()).toBe(1);
    await page.mouse.move(400, 400);
    expect(reports).toEqual([]);
  }
});

test("a job that hangs is hanging in the list, in the queue's table and on computes, and shows its stacks when asked", async () => {
  const job = jobOf("stuck", { reason: "hanging", sentence: "the job hangs: rank 1 on node 0 sleeps, while rank 0 waits for it" });
  const waiting = jobOf("next", { state: "queued", reason: "waiting-for-slots", sentence: "needs 2 CPU slots" });
  lists(() => [job, waiting]);
  server.answers["/job-counts"] = (words) => (words.get("reason") ? { running: 1 } : { running: 1, queued: 1 });
  const held = { job: "stuck", attempt: 1, node: 0, machine: "m", cpus: 2, gpus: [], is_hanging: true };
  server.answers["/computes"] = [{ name: "local", engine: "local", machines: [{ name: "m", cpus: 2, gpus: [], memory_mib: 0, state: "running", word: "", unusable: "" }], held: [held], waiting: 1, trouble: "", spec: {} }];
  has(job, { story: [storyLine(1, job.sentence)] });
  has(waiting);
  const holder = { job: "stuck", person: "", nodes: 1, cpus: 2, gpus: 0, since: at, step: null, steps: null, deadline: null, ends_at: null, ground: "hangs and has no time limit", is_hanging: true };
  server.answers["/jobs/next/outlook"] = { job: "next", start: { job: "next", compute: "local", place: 1, waiting: 1, at: null, latest: null, sentence: "unknown: stuck hangs and has no time limit" }, holders: [holder], fewer: "", own: null };
  const stack = (rank, line) => ({ rank, doing: "sleeps", processes: [{ is_helper: false, threads: [{ frames: [{ function: "step", file: "train.py", line }] }] }] });
  server.answers["/jobs/stuck/stacks"] = [{ node: 0, host: "m", error: "", ranks: [stack(0, 5), stack(1, 9)] }];
  await open("/");
  await eventually(() => row("stuck").innerText()).toContain("hanging");
  await page.getByRole("button", { name: /^hanging ?1/ }).waitFor();
  await open("/computes");
  await seen("hangs; node 0");
  await open("/jobs/stuck?tab=logs");
  await page.getByRole("button", { name: "Stacks now" }).click();
  await seen("1 rank (0) sleeps");
  await seen("step (train.py:5)");
});

/** A job with one metric of these ranks, each with these values. */
function hasMetric(job, name, ranks) {
  const point = (value, n) => ({ step: n, value, at: new Date(Date.UTC(2026, 10, 20, 8, 0, n)).toISOString() });
  has(job);
  server.answers[`/jobs/${job.name}/metrics`] = { params: {}, series: ranks.map((values, rank) => ({ name, rank, count: values.length, last: point(values.at(-1), values.length - 1), min: null, max: null })) };
  server.answers[`/jobs/${job.name}/metrics/curves`] = ranks.map((values, rank) => ({ name, rank, points: values.map(point) }));
}

const falling = Array.from({ length: 120 }, (_, n) => 2 - n / 100);

test("a chart over time has its times and the day within its own height", async () => {
  hasMetric(jobOf("one"), "loss", [falling]);
  await open("/jobs/one?tab=metrics&axis=time");
  await page.locator(".chart-card canvas").waitFor();
  const rows = () => page.evaluate(() => {
    const canvas = document.querySelector(".chart-card canvas");
    const { width, height } = canvas;
    const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
    return Array.from({ length: height }, (_, y) => data.slice(y * width * 4, (y + 1) * width * 4).some((value, n) => n % 4 === 3 && value > 0));
  });
  await eventually(async () => (await rows()).some(Boolean)).toBe(true);
  const drawn = await rows();
  expect(drawn.slice(-2)).toEqual([false, false]);
  // Two lines of text below the plot.
  expect(drawn.slice(-38).filter(Boolean).length).toBeGreaterThan(12);
});

test("a curve with a spike uses the chart's height, names the spike and shows it when asked", async () => {
  hasMetric(jobOf("one"), "loss", [falling.map((value, n) => (n === 60 ? 3e4 : n > 100 ? "NaN" : value))]);
  await open("/jobs/one?tab=metrics");
  await seen("1 point of 30000 at step 60 is above");
  await seen("NaN at 19 points, first at step 101");
  expect(await page.locator(".chart[role=img]").getAttribute("aria-label")).toContain("is above; NaN at 19 points");
  await page.getByRole("button", { name: "Show all" }).click();
  await page.getByRole("button", { name: "Leave outliers out" }).waitFor();
});

test("ranks that agree are one line, and each can be chosen", async () => {
  hasMetric(jobOf("one"), "loss", [0, 1, 2, 3].map(() => falling));
  await open("/jobs/one?tab=metrics");
  await seen("4 ranks agree");
  expect(await page.locator(".u-legend .u-series").count()).toBe(0);
  await page.getByLabel("Of which rank").selectOption("each");
  await eventually(() => page.locator(".u-legend .u-series").count()).toBe(5);
});

/** What a job has logged, and its overview. */
function hasOverview(job, curves, overview = {}) {
  const at = (n) => new Date(Date.UTC(2026, 10, 20, 8, 0, n)).toISOString();
  const point = (value, n) => ({ step: n, value, at: at(n) });
  const series = Object.entries(curves).map(([name, values]) => ({ name, rank: 0, count: values.length, last: point(values.at(-1), values.length - 1), min: null, max: null }));
  const use = { peak_memory_mib: 2048, cpu_cores: 1.5, gpu_percent: null, peak_gpu_memory_mib: null };
  has(job);
  server.answers[`/jobs/${job.name}/files`] = [];
  server.answers[`/jobs/${job.name}/metrics`] = { params: {}, series };
  server.answers[`/jobs/${job.name}/overview`] = { job: job.name, held_s: 7200, slot_hours: 4, gpu_hours: 0, lost_s: 0.1, inputs: { lr: "0.01" }, parameters: { optimizer: "adamw" }, note: "warm-up helped", series, use, standing: null, ...overview };
  server.answers[`/jobs/${job.name}/metrics/curves`] = (words) => words.getAll("metric").map((name) => ({ name, rank: 0, points: curves[name].map(point) }));
}

const primary = { name: "val/accuracy", value: 0.75, step: 110, goal: "maximize", best: 0.8, best_step: 90, source: "guess" };

test("a completed job opens with its metric, its curves in pairs, its settings and where it was recovered", async () => {
  const failure = { attempt: 1, round: 1, at: "2026-11-20T08:01:00.500Z", verdict: { reason: "exit", sentence: "rank 0 on node 0 stopped with exit code 1: RuntimeError: NCCL error: reset" } };
  const job = completed("one", { sentence: "1 rank ended with exit code 0", primary, failures: [failure] });
  const standing = { metric: "val/accuracy", goal: "maximize", value: 0.8, step: 90, rank: 3, of: 22, best: { job: "top", value: 0.85 }, before: { job: "earlier", value: 0.7 } };
  hasOverview(job, { "train/loss": falling, "val/loss": falling, "val/accuracy": falling, lr: falling }, { standing });
  await page.setViewportSize({ width: 1280, height: 800 });
  await open("/jobs/one");
  await eventually(async () => (await page.locator(".cause-sentence").innerText()).trim()).toBe("val/accuracy 0.75 at step 110; best 0.8 at step 90");
  for (const said of ["3rd of 22; best 0.85, top", "+0.1, better than 0.7 of earlier", "recovered once from RuntimeError: NCCL error: reset, 0.1 s lost", "adamw", "4.00 slot-hours", "2.0 GiB at most in a rank", "warm-up helped", "guessed by its name"]) await seen(said);
  await eventually(() => page.locator(".chart-card .chart-name").allInnerTexts()).toEqual(["val/accuracy", "loss", "lr"]);
  const marked = await page.locator(".chart[role=img]").nth(1).getAttribute("aria-label");
  expect(marked).toContain("began again at step 60");
  for (const shown of [page.locator(".overview-value"), page.getByText("optimizer"), page.locator(".chart-card canvas").nth(1)]) {
    const box = await shown.boundingBox();
    expect(box.y + box.height).toBeLessThanOrEqual(800);
  }
  expect(server.count("/jobs/one/logs")).toBe(0);
});

test("a failed or waiting job opens with its log, and a job that ends doesn't change the tab", async () => {
  has(completed("bad", { state: "failed" }));
  has(jobOf("soon", { state: "queued", reason: "waiting-for-slots" }));
  for (const name of ["bad", "soon"]) {
    await open(`/jobs/${name}`);
    await eventually(() => page.getByRole("tab", { selected: true }).innerText()).toBe("Logs");
  }
  await streaming("soon");
  server.send("state", jobOf("soon"), { job: "soon", id: "1.1" });
  await seen("running");
  expect(await page.getByRole("tab", { selected: true }).innerText()).toBe("Logs");
});

test("a star makes a metric count for the experiment, and one that was chosen gives it back", async () => {
  const job = completed("one", { primary });
  hasOverview(job, { loss: falling, "val/accuracy": falling });
  server.answers["/experiments/primary"] = {};
  await open("/jobs/one?tab=metrics");
  await page.getByRole("button", { name: "Let loss count in all jobs" }).click();
  await eventually(() => server.asked.at(-1)).toBe(`/experiments/primary?name=${job.experiment}&metric=loss`);
  expect(server.acted).toEqual(["PUT /experiments/primary"]);
  const chosen = { ...primary, name: "loss", source: "experiment" };
  server.changed([completed("one", { primary: chosen })]);
  await page.getByRole("button", { name: "It counts in all jobs" }).click();
  await eventually(() => server.acted).toEqual(["PUT /experiments/primary", "DELETE /experiments/primary"]);
});

test("of 87 metrics one is found by typing, sections fold, and a zoom stands in the address and is undone", async () => {
  const curves = Object.fromEntries([...Array.from({ length: 81 }, (_, n) => `grad/layer${n}`), "perf/step_s", "train/loss", "val/loss", "loss", "lr", "epoch"].map((name) => [name, falling]));
  hasOverview(completed("one"), curves);
  await open("/jobs/one?tab=metrics");
  await seen("87 metrics");
  const titles = () => page.locator(".chart-card .chart-name").allInnerTexts();
  await page.getByRole("button", { name: /grad 81 charts/ }).click();
  await eventually(titles).toEqual(["perf/step_s", "loss", "lr", "epoch"]);
  await page.getByRole("searchbox", { name: /Find metrics/ }).fill("layer7$");
  await eventually(titles).toEqual(["grad/layer7"]);
  expect(page.url()).toContain("find=layer7%24");
  const surface = page.locator(".chart-card .u-over");
  let box;
  await eventually(async () => (box = await surface.boundingBox())?.width ?? 0).toBeGreaterThan(100);
  await page.mouse.move(box.x + box.width * 0.25, box.y + 40);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.5, box.y + 40, { steps: 4 });
  await page.mouse.up();
  await page.getByRole("button", { name: /Reset zoom/ }).waitFor();
  const [low, high] = new URL(page.url()).searchParams.get("zoom").split("_").map(Number);
  expect([Math.round(low), Math.round(high)]).toEqual([expect.closeTo(30, -1), expect.closeTo(60, -1)]);
  await page.reload();
  await page.getByRole("button", { name: /Reset zoom/ }).click();
  await eventually(() => page.url()).not.toContain("zoom");
  const saved = page.waitForEvent("download");
  await page.getByRole("button", { name: "grad/layer7 as csv" }).click();
  expect((await saved).suggestedFilename()).toBe("one-grad-layer7.csv");
  const picture = page.waitForEvent("download");
  await page.getByRole("button", { name: "grad/layer7 as png" }).click();
  expect((await picture).suggestedFilename()).toBe("one-grad-layer7.png");
  await page.getByLabel("over").selectOption("relative");
  await page.getByLabel("over").selectOption("m:lr");
  await eventually(() => server.asked.some((one) => one.includes("metric=lr&max_points=5000"))).toBe(true);
});

test("a job whose metric is no number any more says so in the list and on its page", async () => {
  const job = completed("one", { not_finite: { name: "train/loss", value: "NaN", since_step: 91 } });
  lists(() => [job]);
  has(job);
  await open("/");
  await seen("train/loss is NaN since step 91");
  await open("/jobs/one?tab=logs");
  await seen("train/loss is NaN since step 91");
});

test("times are counted by the server's clock where the browser's is wrong", async () => {
  const start = new Date(Date.now() - 60_000).toISOString();
  has(jobOf("one", { submitted_at: start, started_at: start }));
  lists(() => [jobOf("one", { submitted_at: start, started_at: start })]);
  await page.addInitScript(() => {
    const now = Date.now;
    Date.now = () => now() + 3_600_000;
  });
  await open("/");
  await eventually(() => row("one").innerText()).toContain("1 min ago");
});

test("of several tabs with desktop notices, one keeps a connection in the background", async () => {
  lists(() => [jobOf("one")]);
  const context = await browser.newContext({ permissions: ["notifications"] });
  const tabs = [await context.newPage(), await context.newPage(), await context.newPage()];
  for (const tab of tabs) {
    await tab.goto(`${server.origin}/ui/`);
    await tab.evaluate(() => localStorage.setItem("drumbeat-desktop-notices", "on"));
    await tab.reload();
    await tab.locator("header.bar").getByText("connected", { exact: true }).waitFor();
    await tab.evaluate(() => {
      Object.defineProperty(document, "hidden", { value: true, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    });
    await eventually(() => server.streams.size).toBe(1);
  }
  const [first] = server.streams;
  await tabs[0].close();
  await eventually(() => [server.streams.size, server.streams.has(first)]).toEqual([1, false]);
  await context.close();
});

test("a chart keeps its newest points when the colours of the system change", async () => {
  let count = 3;
  const point = (n) => ({ step: n, value: n, at: "2026-11-20T08:00:00Z" });
  has(jobOf("one", { world_size: 2 }));
  server.answers["/jobs/one/metrics"] = () => ({ params: {}, series: [0, 1].map((rank) => ({ name: "loss", rank, count, last: point(count), min: null, max: null })) });
  server.answers["/jobs/one/metrics/curves"] = () => [0, 1].map((rank) => ({ name: "loss", rank, points: Array.from({ length: count }, (_, n) => point(n)) }));
  await open("/jobs/one?tab=metrics");
  await streaming("one");
  await page.locator(".chart[data-points='3']").waitFor();
  count = 60;
  server.changed([jobOf("one")]);
  await page.locator(".chart[data-points='60']").waitFor();
  await page.emulateMedia({ colorScheme: "dark" });
  let moves = 0;
  await eventually(async () => {
    const box = await page.locator(".u-over").boundingBox();
    if (box) await page.mouse.move(box.x + box.width - 2 - (moves++ % 2), box.y + 20);
    return page.locator(".u-legend").innerText();
  }).toContain("59");
});

test("a click between the words of a question doesn't close it, one beside it does", async () => {
  has(jobOf("one"));
  await open("/jobs/one?tab=logs");
  await page.getByRole("button", { name: "Cancel" }).click();
  const box = await page.getByRole("dialog").boundingBox();
  await page.mouse.click(box.x + 8, box.y + 8);
  expect(await page.getByRole("dialog").count()).toBe(1);
  await page.mouse.click(box.x - 20, box.y + 8);
  await page.getByRole("dialog").waitFor({ state: "detached" });
});

test("an experiment whose first job comes while the list is open can be chosen", async () => {
  let names = ["tests"];
  server.answers["/experiments"] = () => names.map((name) => ({ id: name, name, archived: false, created_at: null, jobs: 1, latest_at: null, tags: {}, names: [name] }));
  lists(() => [jobOf("one")]);
  await open("/");
  await streaming();
  await seen("one trains");
  await eventually(() => page.locator("option", { hasText: "tests" }).count()).toBe(1);
  names = ["tests", "fresh"];
  server.changed([jobOf("two", { experiment: "fresh" })]);
  await eventually(() => page.locator("option", { hasText: "fresh" }).count()).toBe(1);
});

test("a job that takes the name of a selected one isn't selected", async () => {
  let jobs = [completed("one"), completed("two")];
  lists(() => jobs);
  await open("/");
  await streaming();
  await page.getByRole("checkbox", { name: "Select one" }).check();
  await seen("1 job selected");
  jobs = [completed("one", { submitted_at: "2026-11-21T08:00:00Z", sentence: "the second of its name" }), completed("two")];
  server.changed([jobs[0]]);
  await seen("the second of its name");
  expect(await page.getByRole("checkbox", { name: "Select one" }).isChecked()).toBe(false);
  expect(await text()).not.toContain("selected");
});

test("the small curves of a list stay while those of one more job are asked for", async () => {
  const primary = { name: "loss", value: 1, step: 2 };
  const curve = (job) => ({ job, name: "loss", rank: 0, steps: [0, 1, 2], values: [3, 2, 1] });
  lists(() => [jobOf("one", { primary }), jobOf("two")]);
  const late = held([curve("one"), curve("two")]);
  server.answers["/curves"] = (words) => (words.getAll("job").length > 1 ? late.answer : [curve("one")]);
  await open("/");
  await streaming();
  await row("one").locator(".sparkline path").waitFor();
  server.changed([jobOf("two", { primary })]);
  await row("two").getByText("loss").first().waitFor();
  expect(await row("one").locator(".sparkline path").count()).toBe(1);
  late.give();
  await row("two").locator(".sparkline path").waitFor();
});

test("the curves of a sweep say why they can't be shown, and stay when they can't be read again", async () => {
  has(jobOf("tuned", { type: "sweep" }));
  server.answers["/curves"] = [];
  server.answers["/sweeps/tuned"] = refusal(500, "the sweep can't be read");
  await open("/jobs/tuned?tab=curves");
  await seen("the sweep can't be read");
  const trial = { number: 1, job: "trial-1", state: "running", sentence: "", parameters: {}, value: null, last: 1, reports: 1, stopped: "" };
  server.answers["/sweeps/tuned"] = () => ({ name: "tuned", state: "running", sentence: "", goal: "minimize", primary_metric: "loss", max_total_trials: 9, max_concurrent_trials: 3, trials: [trial], best: null });
  server.answers["/curves"] = [{ job: "trial-1", name: "loss", rank: 0, steps: [0, 1, 2], values: [3, 2, 1] }];
  await page.reload();
  await seen("loss of 1 trial by step");
  await streaming("tuned");
  server.answers["/curves"] = refusal(500, "the curves can't be read");
  const before = server.count("/curves");
  server.changed([jobOf("trial-1", { parent: "tuned" })]);
  await eventually(() => server.count("/curves")).toBeGreaterThan(before);
  await page.waitForTimeout(200);
  expect(await text()).toContain("loss of 1 trial by step");
});

/** Jobs that are listed as the server lists them: by their states, and whether they are archived. */
const listsChosen = (jobs) => (server.answers["/jobs"] = (words) => {
  const [states, isArchived] = [words.getAll("state"), words.get("archived") === "true"];
  return { jobs: jobs().filter((job) => job.archived === isArchived && (!states.length || states.includes(job.state))), after: null };
});

/** Lets the page's clock run, and gives answers that are on their way time to come. */
async function runFor(time) {
  await page.clock.runFor(time);
  await page.waitForTimeout(200);
}

const at = "2026-11-20T08:00:00Z";
const point = (step, value = step) => ({ step, value, at: new Date(Date.parse(at) + step * 1000).toISOString() });
const seriesOf = (name, rank, count, value = count) => ({ name, rank, count, last: point(count, value), min: null, max: null });
const confirm = async (action) => {
  await page.getByRole("button", { name: action, exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: action, exact: true }).click();
};

test("what a running job logs and uses is read again without an event, but not in a hidden tab nor after its end", async () => {
  let count = 3;
  const node = { node: 0, machine: "", host: "lab", address: "", phase: "running", detail: "", error: "", lost: false, exits: [] };
  has(jobOf("one", { nodes: [node] }));
  server.answers["/jobs/one/metrics"] = () => ({ params: {}, series: [seriesOf("n_params", 0, 1), seriesOf("loss", 0, count), seriesOf("system/cpu_cores", 0, count)] });
  server.answers["/jobs/one/resources"] = () => ({ job: "one", sentence: "", start: at, part_s: 5, parts: count, idle: [], series: [{ name: "cpu_cores", rank: 0, values: Array(count).fill(1), last: 1, highest: 1 }] });
  server.answers["/jobs/one/metrics/curves"] = (words) => [{ name: words.get("metric"), rank: 0, points: Array.from({ length: words.get("metric") === "n_params" ? 1 : count }, (_, n) => point(n)) }];
  await page.clock.install();
  const drawn = (points) => () => page.locator(`.chart[data-points='${points}']`).count();
  const rank = () => page.locator(".rank").innerText();
  for (const [tab, before, after] of [["metrics", drawn(3), drawn(40)], ["resources", drawn(3), drawn(40)], ["ranks", rank, rank]]) {
    count = 3;
    await open(`/jobs/one?tab=${tab}`);
    await streaming("one");
    await eventually(before).toEqual(tab === "ranks" ? expect.stringContaining("step 3") : 1);
    count = 40;
    await runFor(6000);
    await eventually(after).toEqual(tab === "ranks" ? expect.stringContaining("step 40") : 1);
  }
  const rests = async () => {
    await runFor(6000);
    const before = server.count("/jobs/one/metrics");
    await runFor(12_000);
    expect(server.count("/jobs/one/metrics")).toBe(before);
  };
  await open("/jobs/one?tab=metrics");
  await streaming("one");
  await hide(true);
  await rests();
  has(completed("one", { nodes: [node] }));
  await hide(false);
  await streaming("one");
  server.send("state", completed("one", { nodes: [node] }), { job: "one", id: "0.2" });
  await eventually(() => page.locator(".job-title").innerText()).toContain("completed");
  await rests();
});

test("a node's tile says what it does, but not how its kernel confines the ranks", async () => {
  const nodeOf = (node, detail) => ({ node, machine: "", host: `lab-${node}`, address: "", phase: "running", detail, error: "", lost: false, exits: [] });
  has(jobOf("one", { nodes: [nodeOf(0, "ranks held by: PID namespace"), nodeOf(1, "brings input data")] }));
  server.answers["/jobs/one/metrics"] = { params: {}, series: [] };
  await open("/jobs/one?tab=ranks");
  await seen("brings input data");
  expect(await text()).not.toContain("held by");
});

test("a rank that becomes slow is marked in the list though no event comes", async () => {
  let value = 0.5;
  lists(() => [jobOf("one", { world_size: 2 })]);
  server.answers["/jobs/one/metrics"] = () => ({ params: {}, series: [seriesOf("system/cpu_cores", 0, 9, 0.5), seriesOf("system/cpu_cores", 1, 9, value)] });
  await page.clock.install();
  await open("/");
  await streaming();
  await eventually(() => server.count("/jobs/one/metrics")).toBe(1);
  value = 4;
  await runFor(6000);
  await seen("rank 1 looks slow");
});

test("a running job isn't offered to be archived, one that has ended is", async () => {
  has(jobOf("one"));
  has(completed("two"));
  const offered = () => page.locator(".job-title button").allInnerTexts();
  await open("/jobs/one?tab=logs");
  await eventually(offered).toEqual(["Run again…", "Cancel"]);
  await open("/jobs/two?tab=logs");
  await eventually(offered).toEqual(["Run again…", "Archive", "Delete"]);
});

test("one job that can't be deleted keeps no other one, and is named with the reason", async () => {
  let jobs = ["one", "two", "three"].map((name) => completed(name));
  lists(() => jobs);
  for (const { name } of jobs) {
    server.answers[`/jobs/${name}`] = () => {
      if (name === "one") return refusal(409, "job one holds the data set scans:1");
      jobs = jobs.filter((job) => job.name !== name);
      return {};
    };
  }
  const item = (name) => ({ kind: "job", name, size: 10, note: "", parts: {} });
  server.answers["/deletion-plan"] = { items: [item("two"), item("three")], kept: [{ what: "job one", why: "its output is data scans:1", fix: "", asset: "" }], total: 20 };
  await open("/");
  await streaming();
  for (const name of ["one", "two", "three"]) await page.getByRole("checkbox", { name: `Select ${name}` }).check();
  await confirm("Delete");
  await seen("1 of 3 jobs was not deleted");
  expect(server.acted).toEqual(["DELETE /jobs/one", "DELETE /jobs/two", "DELETE /jobs/three"]);
  expect(await page.getByRole("dialog").innerText()).toContain("one: job one holds the data set scans:1");
  await eventually(() => page.locator("table.jobs .row-link").allInnerTexts()).toEqual(["one"]);
  await page.getByRole("button", { name: "Back" }).click();
  await seen("1 job selected");
});

test("a deletion says beforehand what goes, and takes the model along where that is chosen", async () => {
  has(completed("cifar-model"));
  const kept = { what: "job cifar-model", why: "its output model is data cifar-resnet:1", fix: "Delete that first", asset: "data cifar-resnet:1" };
  const size = { kind: "job", name: "cifar-model", size: 3 << 20, note: "completed", parts: { outputs: 2 << 20, logs: 1 << 20, checkpoints: 0 } };
  const trial = { ...size, name: "cifar-model-1", size: 0, parts: {} };
  server.answers["/deletion-plan"] = { items: [size, trial], kept: [kept], total: 3 << 20 };
  server.answers["/data/cifar-resnet/versions/1"] = {};
  server.answers["/jobs"] = { jobs: [], after: null };
  await open("/jobs/cifar-model");
  await page.locator(".job-title button", { hasText: "Delete" }).click();
  await seen("3.0 MiB: outputs 2.0 MiB, logs 1.0 MiB, with 1 part");
  await seen("job cifar-model stays: its output model is data cifar-resnet:1");
  expect(server.acted).toEqual([]);
  await page.getByRole("checkbox", { name: "delete data cifar-resnet:1 too" }).check();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await eventually(() => server.acted).toEqual(["DELETE /data/cifar-resnet/versions/1", "DELETE /jobs/cifar-model"]);
});

test("an unknown job has a heading and a way to the list, and a reader is told that they are one", async () => {
  server.answers["/page/session"] = { action_token: "", person: "ada", role: "reader" };
  server.answers["/jobs/gone"] = () => refusal(404, "there is no job gone");
  await open("/jobs/gone?tab=logs");
  await page.getByRole("heading", { level: 1, name: "gone" }).waitFor();
  await seen("there is no job gone");
  await page.getByRole("link", { name: "All jobs", exact: true }).waitFor();
  await seen("ada · reader");
});

test("the present item of the bar is in sight on a phone", async () => {
  await page.setViewportSize({ width: 390, height: 844 });
  server.answers["/usage"] = refusal(503, "not now");
  for (const path of ["/experiments", "/computes", "/schedules", "/ledger", "/server"]) {
    await open(path);
    const item = page.locator("nav [aria-current]");
    await item.waitFor();
    await eventually(async () => {
      const box = await item.boundingBox();
      return box.x >= 0 && box.x + box.width <= 390;
    }).toBe(true);
  }
});

test("more jobs than Compare takes are told so", async () => {
  const jobs = Array.from({ length: 201 }, (_, n) => completed(`job-${n}`));
  lists(() => jobs);
  await open("/");
  await streaming();
  await row("job-200").waitFor();
  await page.evaluate(() => document.querySelectorAll("table.jobs tbody input[type=checkbox]").forEach((box) => box.click()));
  await seen("Compare takes at most 200");
  await page.keyboard.press("c");
  expect(page.url()).not.toContain("/compare");
});

test("a job that can't be deleted isn't offered to be", async () => {
  has(completed("kept"));
  server.answers["/deletion-plan"] = { items: [], kept: [{ what: "job kept", why: "its output default is input train of job later", fix: "Delete that job first", asset: "" }], total: 0 };
  await open("/jobs/kept?tab=logs");
  await page.locator(".job-title button", { hasText: "Delete" }).click();
  await seen("job kept stays: its output default is input train of job later. Delete that job first");
  expect(await page.getByRole("dialog").getByRole("button", { name: "Delete" }).isDisabled()).toBe(true);
});

test("the counts of the filters are right after a deletion, a large batch of changes and an action", async () => {
  let states = { completed: 4 };
  lists(() => [completed("one"), completed("two")]);
  server.answers["/job-counts"] = () => states;
  server.answers["/jobs/one/archive"] = () => {
    states = { completed: 1 };
    return completed("one", { archived: true });
  };
  const count = () => page.getByRole("button", { name: "completed" }).locator(".count").innerText();
  await open("/");
  await streaming();
  await eventually(count).toBe("4");
  await page.waitForTimeout(2000);
  states = { completed: 3 };
  server.changed([], { removed: ["gone"] });
  await eventually(count).toBe("3");
  states = { completed: 2 };
  server.changed([], { is_partial: true });
  await eventually(count).toBe("2");
  await page.getByRole("checkbox", { name: "Select one" }).check();
  await confirm("Archive");
  await eventually(count).toBe("1");
});

test("the counts of a sweep's trials follow its trials", async () => {
  let states = { running: 2 };
  lists(() => [jobOf("tuned_1", { parent: "tuned" })]);
  server.answers["/job-counts"] = () => states;
  const count = () => page.getByRole("button", { name: "running" }).locator(".count").innerText();
  await open("/?parent=tuned");
  await streaming();
  await eventually(count).toBe("2");
  await page.waitForTimeout(2000);
  states = { running: 1, completed: 1 };
  server.changed([completed("tuned_1", { parent: "tuned" })]);
  await eventually(count).toBe("1");
});

test("a job that leaves the chosen state, or is archived or restored, leaves the list", async () => {
  let jobs = [jobOf("one"), jobOf("two")];
  listsChosen(() => jobs);
  const names = () => page.locator("table.jobs .row-link").allInnerTexts();
  const changes = async (job) => {
    await streaming();
    jobs = jobs.map((one) => (one.name === job.name ? job : one));
    server.changed([job]);
  };
  await open("/?state=running");
  await eventually(names).toEqual(["one", "two"]);
  await changes(completed("one"));
  await eventually(names).toEqual(["two"]);
  await open("/");
  await eventually(names).toEqual(["one", "two"]);
  await changes(completed("one", { archived: true }));
  await eventually(names).toEqual(["two"]);
  await open("/?archived=1");
  await eventually(names).toEqual(["one"]);
  await changes(completed("one"));
  await eventually(names).toEqual([]);
});

test("compared jobs are followed: by their events, after a break, and while one of them goes on", async () => {
  let value = 1;
  let state = "running";
  server.answers["/compare"] = () => ({ jobs: ["one", "two"], differences: [], outcomes: [{ section: "outcome", key: "state", values: [state, "completed"] }, { section: "metrics", key: "loss", values: [value, 0.5] }, { section: "metrics", key: "accuracy", values: [value, 0.5] }] });
  server.answers["/curves"] = (words) => ["one", "two"].map((job) => ({ job, name: words.get("metric") || "loss", rank: 0, steps: Array.from({ length: value }, (_, n) => n), values: Array.from({ length: value }, (_, n) => n) }));
  const shows = async () => {
    await eventually(() => page.getByRole("region", { name: "What came of them" }).getByRole("cell", { name: String(value), exact: true }).count()).toBe(2);
    await eventually(() => page.locator(`.chart[data-points='${value}']`).count()).toBe(2);
  };
  await page.clock.install();
  await open("/compare?job=one&job=two");
  await streaming();
  await runFor(4000);
  await shows();
  value = 12;
  server.changed([jobOf("one")]);
  await runFor(3000);
  await shows();
  value = 21;
  await runFor(6000);
  await shows();
  state = "completed";
  value = 34;
  server.changed([completed("one")]);
  await runFor(3000);
  await shows();
  const before = server.count("/compare");
  server.changed([jobOf("other")]);
  await runFor(20_000);
  expect(server.count("/compare")).toBe(before);
  value = 55;
  await hide(true);
  await hide(false);
  await streaming();
  await runFor(3000);
  await shows();
});

test("files that a running job writes are listed while it runs, and a file that grows stays where it is looked at", async () => {
  let files = [];
  let content = "one line\n";
  has(jobOf("one"));
  server.answers["/jobs/one/files"] = () => files;
  server.answers["/jobs/one/files/outputs/default/train.json"] = () => content;
  await page.clock.install();
  await open("/jobs/one?tab=outputs&file=outputs/default/train.json");
  await seen("There is no file yet.");
  files = [{ path: "outputs/default/train.json", size: 9 }];
  await runFor(6000);
  await seen("one line");
  await page.locator(".preview pre").evaluate((pre) => (pre.dataset.isFirst = "yes"));
  content = "one line, and another";
  files = [{ path: "outputs/default/train.json", size: 21 }];
  await runFor(6000);
  await seen("and another");
  expect(await page.locator(".preview pre").getAttribute("data-is-first")).toBe("yes");
  has(completed("one"));
  server.send("state", completed("one"), { job: "one", id: "0.2" });
  await eventually(() => page.locator(".job-title").innerText()).toContain("completed");
  await runFor(6000);
  const before = server.count("/jobs/one/files");
  await runFor(12_000);
  expect(server.count("/jobs/one/files")).toBe(before);
});

test("an action works in a tab whose session was replaced by that of another link, and is refused once otherwise", async () => {
  let token = "old";
  server.answers["/page/session"] = () => ({ action_token: token, person: "", role: "owner" });
  let jobs = [jobOf("one")];
  listsChosen(() => jobs);
  server.answers["/jobs/one/cancel"] = (_, request) => {
    if (request.headers["drumbeat-action"] !== "new") return refusal(403, "an action of the page needs its session's action token");
    jobs = [completed("one")];
    return jobs[0];
  };
  await open("/");
  await streaming();
  await page.getByRole("checkbox", { name: "Select one" }).check();
  await confirm("Cancel");
  await page.getByRole("dialog").getByText("an action of the page needs its session's action token").waitFor();
  expect(server.acted.length).toBe(1);
  await page.getByRole("button", { name: "Back" }).click();
  token = "new";
  await confirm("Cancel");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  expect(server.acted.length).toBe(3);
  expect(await text()).not.toContain("not canceled");
});

test("a page without a session goes on once another link was opened in its browser", async () => {
  lists(() => [jobOf("one")]);
  const lose = async (notice) => {
    await open("/");
    await streaming();
    await seen("one trains");
    server.answers["/events"] = server.answers["/page/session"] = server.answers["/job-counts"] = refusal(401, "no session");
    notice();
    await seen("This browser has no session");
    await page.waitForTimeout(300);
    delete server.answers["/events"];
    server.answers["/job-counts"] = {};
    server.answers["/page/session"] = { action_token: "", person: "", role: "owner" };
  };
  await lose(() => server.endStreams());
  await hide(true);
  await hide(false);
  await seen("one trains");
  await seen("connected");
  await lose(() => server.changed([jobOf("one")]));
  await page.evaluate(() => window.dispatchEvent(new Event("focus")));
  await seen("one trains");
  await page.getByRole("checkbox", { name: "Select one" }).check();
  await page.getByRole("button", { name: "Cancel", exact: true }).waitFor();
});

test("a test of a notice target is offered to owners only", async () => {
  server.answers["/notices"] = [{ name: "mine", type: "mail", jobs: "all", on: ["failed"], place: "a@b", receivers: [], description: "", problem: "" }];
  server.answers["/version"] = { version: "1", protocol: 1, boot_id: "", host: "lab", pid: 1, home: "/h" };
  for (const [role, offers] of [["owner", 1], ["contributor", 0], ["reader", 0]]) {
    server.answers["/page/session"] = { action_token: "", person: "", role };
    await open("/server");
    await seen("mail at a@b");
    await page.waitForTimeout(300);
    await eventually(() => page.getByRole("button", { name: "Send a test" }).count()).toBe(offers);
  }
});

test("the times of a sweep's trials are shown of hundreds, and of a trial that has just begun", async () => {
  const trial = (number, state) => ({ number, job: `tuned_${number}`, state, sentence: "", parameters: { lr: number }, value: state === "completed" ? number : null, last: null, reports: 1, stopped: "" });
  let trials = Array.from({ length: 150 }, (_, n) => trial(n + 1, n < 149 ? "completed" : "queued"));
  const jobs = () => trials.map(({ job, state }) => jobOf(job, { state, started_at: state === "queued" ? null : at, ended_at: state === "completed" ? "2026-11-20T08:02:00Z" : null }));
  has(jobOf("tuned", { type: "sweep" }));
  server.answers["/jobs"] = (words) => ({ jobs: jobs().reverse().slice(0, Number(words.get("limit"))), after: null });
  server.answers["/sweeps/tuned"] = () => ({ name: "tuned", state: "running", sentence: "", goal: "minimize", primary_metric: "loss", max_total_trials: 200, max_concurrent_trials: 3, trials, best: 1 });
  await open("/jobs/tuned?sort=number");
  const took = (number) => page.locator("table.trials tbody tr", { has: page.getByRole("link", { name: `tuned_${number}`, exact: true }) }).locator("td").last().innerText();
  await eventually(() => took(1)).toBe("2 min 00 s");
  await page.getByRole("button", { name: "Show more trials" }).click();
  expect(await took(150)).toBe("–");
  await streaming("tuned");
  trials = [...trials.slice(0, 149), trial(150, "running")];
  server.changed([jobOf("tuned_150", { parent: "tuned" })]);
  await eventually(() => took(150)).toContain("d ");
});

/** Elements that widen the page, each without those around it. */
function tooWide() {
  if (document.documentElement.scrollWidth <= innerWidth + 1) return [];
  const isWide = (one) => one.getBoundingClientRect().right > innerWidth + 1;
  const scrolls = (one) => one && (["auto", "scroll", "hidden"].includes(getComputedStyle(one).overflowX) || scrolls(one.parentElement));
  const wide = [...document.querySelectorAll("main *, header *")].filter((one) => isWide(one) && !scrolls(one) && ![...one.children].some(isWide));
  return wide.map((one) => `${one.parentElement.className || one.parentElement.tagName} > ${one.tagName}.${one.className} ${one.textContent.slice(0, 12)}`);
}

test("names without a place to break them don't widen the page", async () => {
  const long = (word) => `${word}${"x".repeat(110)}`;
  const node = { node: 0, machine: long("machine"), host: long("host"), address: "10.0.0.1", phase: "running", detail: long("detail"), error: "", lost: false, exits: [] };
  const output = { name: long("output"), type: "custom_model", place: "in_place", uri: long("s3://bucket/"), asset: `${long("asset")}:1`, files: 2, size: 8, problem: "" };
  const job = completed(long("job"), {
    experiment: long("experiment"), person: long("person"), compute: long("compute"), sentence: long("sentence"), display_name: long("display"), description: long("description"),
    tags: { [long("tag")]: long("value") }, nodes: [node], outputs: [output], primary: { name: long("metric"), value: 1, step: 1 },
  });
  has(job, { story: [storyLine(1, long("story"))], log: logOf([long("line")]) });
  lists(() => [job, { ...jobOf("other"), person: "b" }]);
  const own = `/jobs/${job.name}`;
  server.answers[`${own}/files`] = [{ path: `outputs/${long("folder")}/${long("file")}.txt`, size: 3 }, { path: "outputs/other/b", size: 3 }];
  server.answers[`${own}/metrics`] = { params: { [long("parameter")]: long("value") }, series: [{ name: long("metric"), rank: 0, count: 1, last: { step: 1, value: 1, at: "2026-11-20T08:00:00Z" }, min: null, max: null }] };
  server.answers[`${own}/metrics/curves`] = [];
  server.answers[`${own}/definition`] = { document: {}, text: long("command: "), plan: { [long("key")]: long("value") } };
  server.answers["/experiments"] = [{ id: "1", name: long("experiment"), archived: false, created_at: null, jobs: 1, latest_at: null, tags: {}, names: [long("experiment"), long("before")] }];
  server.answers["/computes"] = [{ name: long("compute"), engine: "local", machines: [{ name: long("machine"), cpus: 2, gpus: [], memory_mib: 1, state: "unusable", word: long("word"), unusable: long("why") }], held: [{ job: job.name, attempt: 1, node: 0, machine: long("machine"), cpus: 1, gpus: [] }], waiting: 0, trouble: long("trouble"), spec: {} }];
  server.answers["/data"] = (words) => [{ name: words.get("name") ?? long("asset"), version: "1", type: "uri_folder", kind: "uri_folder", uri: long("s3://bucket/"), digest: "", created_at: "2026-11-20T08:00:00Z", made_by: job.name, description: long("description"), tags: {}, files: 1, size: 1, used_by: [{ job: job.name, role: "input" }] }];
  server.answers[`/data/${long("asset")}/versions/1`] = () => server.answers["/data"](new URLSearchParams())[0];
  server.answers["/ledger"] = { by: "job", since: null, rows: [{ name: job.name, jobs: 1, wall_s: 9, seconds: { train: 9 } }, { name: "b", jobs: 1, wall_s: 9, seconds: { train: 9 } }], total: { name: "", jobs: 2, wall_s: 18, seconds: { train: 18 } } };
  server.answers["/compare"] = { jobs: [job.name, "other"], differences: [{ section: "job file", key: long("key"), values: [long("value"), long("other")] }], outcomes: [] };
  server.answers["/schedules"] = [{ name: long("schedule"), user: long("user"), is_enabled: true, title: long("cron"), next_run: "2026-11-20T08:00:00Z", last_run: "2026-11-20T08:00:00Z", last_job: job.name, problem: long("problem"), display_name: "" }];
  server.answers["/version"] = { version: "1", protocol: 1, boot_id: "", host: long("host"), pid: 1, home: long("/home/") };
  server.answers["/status"] = { uptime_s: 1, unfinished: [job.name], idle_s: 0, idle_stop_s: 0, publishing: [], doors: [], others: [long("other")], retain_s: 0 };
  server.answers["/notices"] = [{ name: long("target"), type: "mail", jobs: "all", on: ["failed"], place: long("place"), receivers: [], description: "", problem: long("problem") }];
  server.answers["/usage"] = { items: [{ kind: "job", name: job.name, size: 9, used_at: null, note: long("note") }], totals: { job: 9 }, total: 9, free: 9, retain_s: 0 };
  const paths = ["/", own, `${own}?tab=metrics`, `${own}?tab=ranks`, `${own}?tab=outputs`, `${own}?tab=story`, `${own}?tab=file`, "/experiments", "/computes", `/data?name=${long("asset")}`, "/ledger", `/compare?job=${job.name}&job=other`, "/schedules", "/server"];
  const wide = [];
  for (const size of [{ width: 390, height: 844 }, { width: 1366, height: 768 }]) {
    await page.setViewportSize(size);
    for (const path of paths) {
      await open(path);
      await page.waitForFunction(() => [...document.querySelectorAll("main *:not(option)")].some((one) => one.checkVisibility() && [...one.childNodes].some((child) => child.nodeType === 3 && child.data.includes("xxxx"))));
      await page.waitForTimeout(200);
      const over = await page.evaluate(tooWide);
      if (over.length) wide.push(`${path.slice(0, 12)} ${path.split("?tab=")[1] ?? ""} at ${size.width}: ${over.join(", ")}`);
    }
  }
  expect(wide).toEqual([]);
});
