/** What jobs leave, looked at in Chromium over a scripted server: galleries under a slider, tables, histograms, files of each kind. */

import { deflateSync, crc32 } from "node:zlib";
import { expect } from "vitest";
import { eventually, open, page, server, test, useChromium, violations } from "./chromium-screens.mjs";
import { completed } from "./scripted-server.mjs";

const [STEPS, IMAGES, ROWS] = [100, 8, 100_000];
const RUN = "outputs/mlflow-artifacts/0123456789abcdef0123456789abcdef";
let files;

/** An image of one colour, which tells its step. */
function png(grey, side = 48) {
  const chunk = (name, data) => {
    const content = Buffer.concat([Buffer.from(name), data]);
    const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
    length.writeUInt32BE(data.length);
    sum.writeUInt32BE(crc32(content));
    return Buffer.concat([length, content, sum]);
  };
  const head = Buffer.alloc(13);
  head.writeUInt32BE(side, 0);
  head.writeUInt32BE(side, 4);
  head[8] = 8;
  const row = Buffer.alloc(side + 1, grey);
  row[0] = 0;
  const rows = Buffer.concat(Array.from({ length: side }, () => row));
  return Buffer.concat([Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), chunk("IHDR", head), chunk("IDAT", deflateSync(rows)), chunk("IEND", Buffer.alloc(0))]);
}

const stepFile = (kind, name, step, id, ending) => `${RUN}/${kind}/${name}+step+${step}+timestamp+1795877508045+${id}.${ending}`;

function has(path, content, job = "one") {
  files[job] ??= [];
  files[job].push({ path, size: content.length });
  server.answers[`/jobs/${job}/files/${path.split("/").map(encodeURIComponent).join("/")}`] = Buffer.from(content);
}

useChromium({ width: 1280, height: 800, answers: () => {
  files = {};
  const answers = { "/page/session": { action_token: "t", person: "ada", role: "owner" } };
  for (const job of ["one", "two"]) {
    answers[`/jobs/${job}`] = { ...completed(job), story: [] };
    answers[`/jobs/${job}/files`] = () => files[job] ?? [];
  }
  return answers;
} });

const shown = () => page.locator(".step-image img").evaluateAll((all) => all.filter((one) => one.complete && one.naturalWidth > 0).map((one) => one.dataset.path));
const isOf = (step) => async () => (await shown()).filter((path) => path.includes(`+step+${step}+`)).length;
const outside = () => server.asked.filter((one) => one.includes("/evil"));

test("8 images of 100 steps follow the slider, and come many at a time", async () => {
  for (let step = 0; step < STEPS; step += 1) {
    const content = png(2 * step);
    for (let n = 0; n < IMAGES; n += 1) has(stepFile("images", "val~samples", step, `0-${n}`, "png"), content);
    has(stepFile("images", "val~samples", step, "0-0", "captions.json"), JSON.stringify(Array.from({ length: IMAGES }, (_, n) => `digit ${n} of ${step}`)));
  }
  await open("/jobs/one?tab=outputs");
  await eventually(isOf(STEPS - 1)).toBe(IMAGES);
  expect(await page.locator(".step-card figcaption").innerText()).toBe("val/samples");
  await eventually(() => page.locator(".step-caption").first().innerText()).toBe("digit 0 of 99");
  // As one who drags, each step as soon as the one before is shown: first through what isn't there yet, then again.
  const drag = () => page.evaluate(async ([steps, count]) => {
    const slider = document.querySelector("input[type=range]");
    const times = [];
    for (let n = 0; n < 120; n += 1) {
      const step = (n * 7) % steps;
      const begun = performance.now();
      slider.value = String(step);
      slider.dispatchEvent(new Event("input", { bubbles: true }));
      const isShown = () => [...document.querySelectorAll(".step-image img")].filter((one) => one.dataset.path.includes(`+step+${step}+`) && one.complete).length === count;
      while (!isShown()) await new Promise((resolve) => requestAnimationFrame(resolve));
      times.push(performance.now() - begun);
    }
    return times.sort((one, other) => one - other);
  }, [STEPS, IMAGES]);
  const first = await drag();
  // 800 images and 100 lists of captions: images come many at a time, and none alone.
  expect(server.asked.filter((one) => one.startsWith("/jobs/one/file")).length).toBeLessThan(250);
  expect(server.asked.filter((one) => one.startsWith("/jobs/one/files/") && one.endsWith(".png"))).toEqual([]);
  const took = await drag();
  const p95Of = (times) => times[Math.floor(times.length * 0.95)];
  const p95 = p95Of(took);
  console.log(`slider: median ${took[60].toFixed(0)} ms, p95 ${p95.toFixed(0)} ms; at first ${first[60].toFixed(0)} and ${p95Of(first).toFixed(0)} ms`);
  await eventually(() => new URL(page.url()).searchParams.get("step")).toBe(String((119 * 7) % STEPS));
  await page.reload();
  await eventually(isOf((119 * 7) % STEPS)).toBe(IMAGES);
  await page.getByRole("slider").focus();
  await page.keyboard.press("End");
  await eventually(isOf(STEPS - 1)).toBe(IMAGES);
  await page.locator(".step-image").nth(2).click();
  await eventually(() => page.locator("dialog img").getAttribute("data-path")).toContain("+0-2.png");
  await page.keyboard.press("Escape");
  await eventually(() => page.locator("dialog").count()).toBe(0);
  expect(await violations("main")).toEqual([]);
  if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/gallery.png` });
});

test("images of MLflow are one with their copies, and of no file of the list twice", async () => {
  const uuid = "9648b8e5-1111-2222-3333-444444444444";
  has(stepFile("images", "dogs", 3, uuid, "png"), png(10));
  has(stepFile("images", "dogs", 3, `${uuid}+compressed`, "webp"), png(20));
  await open("/jobs/one?tab=outputs");
  await eventually(() => page.locator(".step-image").count()).toBe(1);
  expect(await page.locator(".step-slider").count()).toBe(0);
  expect(await page.locator(".step-image img").getAttribute("data-path")).toContain("+compressed.webp");
  await page.locator(".step-image").click();
  await eventually(() => page.locator("dialog img").getAttribute("data-path")).toContain(`${uuid}.png`);
});

test("histograms are a heat map whose columns choose the step; texts and tables follow", async () => {
  for (let step = 0; step < 40; step += 1) {
    const edges = Array.from({ length: 33 }, (_, n) => n - 16 + step / 10);
    has(stepFile("histograms", "fc.weight", step * 10, "0-0", "json"), JSON.stringify({ edges, counts: edges.slice(1).map((edge) => Math.round(100 * Math.exp(-((edge - step / 10) ** 2) / 20))) }));
    has(stepFile("texts", "said", step * 10, "0-0", "txt"), `at step ${step * 10} <b onclick=alert(1)>x</b>`);
    has(stepFile("tables", "worst", step * 10, "0-0", "json"), JSON.stringify({ columns: ["name", "loss"], data: [["cat", step], ["dog", 0.5]] }));
  }
  await open("/jobs/one?tab=outputs");
  await eventually(() => page.getByRole("img", { name: /^fc.weight: values from -16 to 19.9 at 40 steps/ }).count()).toBe(1);
  expect(await page.locator(".step-text").innerText()).toBe("at step 390 <b onclick=alert(1)>x</b>");
  await page.locator(".heat-map canvas").click({ position: { x: 3, y: 40 } });
  await eventually(() => page.locator(".step-text").innerText()).toContain("at step 0 ");
  await eventually(() => page.locator(".of-tables tbody td").allInnerTexts()).toEqual(["cat", "0", "dog", "0.5"]);
  await eventually(() => page.locator(".step-bars figcaption").innerText()).toContain("step 0: -16 to 16");
  expect(await violations("main")).toEqual([]);
  if (process.env.SHOTS) {
    await page.screenshot({ path: `${process.env.SHOTS}/steps.png`, fullPage: true });
    await page.emulateMedia({ colorScheme: "dark" });
    await page.reload();
    await eventually(() => page.locator(".step-bars").count()).toBe(1);
    await page.screenshot({ path: `${process.env.SHOTS}/steps-dark.png`, fullPage: true });
    await page.setViewportSize({ width: 390, height: 844 });
    await page.screenshot({ path: `${process.env.SHOTS}/steps-phone.png`, fullPage: true });
  }
});

test("compared jobs stand side by side at the same step, also one that has logged less", async () => {
  for (const [job, steps] of [["one", [0, 5, 10]], ["two", [0, 10]]]) {
    for (const step of steps) has(stepFile("images", "samples", step, "0-0", "png"), png(10 * step), job);
  }
  has(stepFile("texts", "said", 7, "0-0", "txt"), "words", "one");
  server.answers["/compare"] = { jobs: ["one", "two"], differences: [], outcomes: [] };
  for (const job of ["one", "two"]) server.answers[`/jobs/${job}/definition`] = { document: {}, text: "command: x", plan: {} };
  await open("/compare?job=one&job=two");
  await page.getByRole("button", { name: /^Compare images/ }).click();
  await eventually(isOf(10)).toBe(2);
  await page.getByRole("slider").focus();
  await page.keyboard.press("Home");
  await page.keyboard.press("ArrowRight");
  await eventually(() => shown().then((all) => all.map((path) => /step\+(\d+)/.exec(path)[1]))).toEqual(["5", "0"]);
  expect(await page.locator(".step-images, .step-job > p").allInnerTexts()).toContain("of step 0");
  await eventually(() => page.locator(".of-texts .step-job").allInnerTexts()).toEqual(["one\n\nnothing before step 7", "two\n\nnothing by this name"]);
  if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/compared.png`, fullPage: true });
});

test("a table of 100,000 rows is scrolled, sorted and filtered, and the page stays within two screens", async () => {
  const lines = Array.from({ length: ROWS }, (_, n) => `row ${n},${(n * 7919) % ROWS},"a, b"`);
  has("outputs/default/rows.csv", `name,rank,note\n${lines.join("\n")}\n`);
  await open("/jobs/one?tab=outputs&file=outputs/default/rows.csv");
  await eventually(() => page.locator(".data-table [role=status]").innerText()).toBe("100,000 rows");
  const box = page.getByRole("region", { name: "Rows of rows.csv" });
  expect(await box.locator("tbody tr").count()).toBeLessThan(60);
  await box.evaluate((one) => (one.scrollTop = one.scrollHeight));
  await eventually(() => box.locator("tbody tr:not(.beyond)").last().innerText()).toContain("row 99999");
  const longest = await box.evaluate(async (one) => {
    let most = 0;
    for (let n = 0; n < 60; n += 1) {
      const begun = performance.now();
      one.scrollTop = (n * 48_271 * 29) % one.scrollHeight;
      await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
      most = Math.max(most, performance.now() - begun);
    }
    return most;
  });
  console.log(`scrolling: at most ${longest.toFixed(0)} ms a leap`);
  await box.getByRole("button", { name: "rank" }).click();
  await eventually(() => box.locator("tbody tr:not(.beyond)").first().innerText()).toMatch(/^row 0\t0\ta, b$/);
  await box.getByRole("button", { name: "rank" }).click();
  await eventually(() => box.locator("tbody tr:not(.beyond) td:nth-child(2)").first().innerText()).toBe("99999");
  await page.getByRole("searchbox", { name: "Filter the rows of rows.csv" }).fill("rank<3 row");
  await eventually(() => page.locator(".data-table [role=status]").innerText()).toBe("3 of 100,000 rows");
  expect(await page.evaluate(() => document.documentElement.scrollHeight)).toBeLessThanOrEqual(1600);
  expect(await violations("main")).toEqual([]);
  if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/table.png`, fullPage: true });
});

test("no preview makes the page higher than two screens", async () => {
  const long = Array.from({ length: 3000 }, (_, n) => `line ${n}`);
  has("outputs/default/log.txt", long.join("\n"));
  has("outputs/default/notes.md", long.map((one) => `# ${one}`).join("\n\n"));
  has("outputs/default/deep.json", JSON.stringify({ long }));
  has("outputs/default/rows.tsv", ["name\tx", ...long.map((one) => `${one}\t1`)].join("\n"));
  has("outputs/default/page.html", long.map((one) => `<h1>${one}</h1>`).join(""));
  has("outputs/default/tall.png", png(9, 2000));
  for (let n = 0; n < 300; n += 1) has(`outputs/default/z-${n}.bin`, "\0");
  for (const { path } of files.one.slice(0, 6)) {
    await open(`/jobs/one?tab=outputs&file=${path}`);
    await page.locator(".preview .block, .preview-markdown h3, .preview-html, .preview img, .data-rows").first().waitFor();
    expect([path, await page.evaluate(() => document.documentElement.scrollHeight <= 2 * innerHeight)]).toEqual([path, true]);
  }
});

test("markdown, svg and tables of a job run nothing and ask for nothing", async () => {
  const evil = `${server.origin}/api/v1/evil`;
  const script = `<script>fetch("${evil}?script")</script><img src="${evil}?img" onerror="fetch('${evil}?error')">`;
  has("outputs/default/a.md", `# Title\n\n${script}\n\n![x](${evil}?image) [click](javascript:fetch('${evil}'))\n\n<iframe src="${evil}?frame"></iframe>`);
  has("outputs/default/a.svg", `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="9" height="9"><script>fetch("${evil}?svg")</script><image xlink:href="${evil}?inner" width="9" height="9"/></svg>`);
  has("outputs/default/a.csv", `name\n"${script.replaceAll('"', '""')}"\n`);
  has(stepFile("texts", "said", 1, "0-0", "txt"), script);
  has(stepFile("tables", "rows", 1, "0-0", "json"), JSON.stringify({ columns: [script], data: [[script]] }));
  await open("/jobs/one?tab=outputs&file=outputs/default/a.md");
  await page.locator(".preview-markdown h3", { hasText: "Title" }).waitFor();
  expect(await page.locator(".preview-markdown").evaluate((one) => [...one.querySelectorAll("script, img, iframe, [onerror], a[href^=javascript]")].length)).toBe(0);
  await open("/jobs/one?tab=outputs&file=outputs/default/a.svg");
  await eventually(() => page.locator(".preview img").evaluate((one) => one.complete && one.naturalWidth)).toBe(9);
  await open("/jobs/one?tab=outputs&file=outputs/default/a.csv");
  await eventually(() => page.locator(".preview td").innerText()).toContain("<script>");
  expect(outside()).toEqual([]);
});

test("html stands in a frame without any permission", async () => {
  has("outputs/default/a.html", "<h1>x</h1>");
  await open("/jobs/one?tab=outputs&file=outputs/default/a.html");
  const frame = page.locator("iframe");
  await frame.waitFor();
  expect(await frame.getAttribute("sandbox")).toBe("");
  expect(await frame.getAttribute("src")).toBe("/api/v1/jobs/one/files/outputs/default/a.html?preview=html");
  expect(await page.getByRole("button", { name: /script/i }).count()).toBe(0);
});

test("headers of tensors are tables, and a broken file says so", async () => {
  const header = '{"fc.weight":{"dtype":"BF16","shape":[10,20],"data_offsets":[0,400]}}';
  const length = Buffer.alloc(8);
  length.writeUInt32LE(header.length);
  has("outputs/default/model.safetensors", Buffer.concat([length, Buffer.from(header), Buffer.alloc(400)]));
  has("outputs/default/broken.npz", "no zip");
  await open("/jobs/one?tab=outputs&file=outputs/default/model.safetensors");
  await eventually(() => page.locator(".preview td").allInnerTexts()).toEqual(["fc.weight", "BF16", "10 × 20"]);
  await open("/jobs/one?tab=outputs&file=outputs/default/broken.npz");
  await eventually(() => page.getByRole("alert").innerText()).toContain("the file can't be shown: it has no directory of a zip file");
});
