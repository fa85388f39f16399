/**
 * Drives Chromium through the page, for the tests of Python and for the pictures of the docs.
 *
 * Standard input: {playwright, axe, chromium, link, shots, steps: [{name, path, scheme, size, wait, click, type, key, shot,
 * checks, looks}]}. Standard output: for each step what the browser reported, what axe found, and the text that a person sees.
 * looks: [{scheme, size}] in which the screen, opened once, is checked one after the other.
 *
 * A step that is measured has `until: {css, text}`, an element that makes its screen usable: it gets a browser with an
 * empty cache, and `watch`, milliseconds for which its long tasks are observed afterwards. `url` leads elsewhere than to
 * the page. `drag: {steps, images}` goes through a gallery's steps: milliseconds until all images of each are shown.
 */

import { readFileSync } from "node:fs";

const SIZES = { laptop: { width: 1366, height: 768 }, phone: { width: 390, height: 844 }, wide: { width: 2560, height: 1440 } };
const job = JSON.parse(readFileSync(0, "utf8"));
const TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
const SETTLED_MS = 150;
const PATIENCE_MS = job.patience_ms ?? 30_000;
const { chromium } = await import(job.playwright);
const browser = await chromium.launch({ executablePath: job.chromium, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
const contexts = new Map();
const results = [];
try {
  for (const step of job.steps) {
    // A step that fails is a report like any other: the steps behind it are still made.
    results.push(await stepped(step).catch((error) => ({ name: step.name, reports: [String(error)], violations: [], text: "" })));
  }
} finally {
  await browser.close();
}
process.stdout.write(JSON.stringify(results));

/** One browser for each colour scheme and size; all have the session of the first. */
async function contextOf(step) {
  const key = `${step.scheme ?? "light"} ${step.size ?? "laptop"}`;
  const known = contexts.get(key);
  if (known) return known;
  const first = contexts.values().next().value;
  const context = await browser.newContext({
    viewport: SIZES[step.size ?? "laptop"], colorScheme: step.scheme ?? "light", deviceScaleFactor: step.scale ?? 1,
    ...(first ? { storageState: await first.storageState() } : {}),
  });
  contexts.set(key, context);
  if (!first) {
    const page = await context.newPage();
    await page.goto(job.link);
    await page.close();
  }
  return context;
}

/** Waits for a text that a person sees: the title of a drawing, which has it too, may come first. */
async function shown(page, text) {
  await page.getByText(text, { exact: false }).filter({ visible: true }).first().waitFor({ timeout: PATIENCE_MS });
}

async function stepped(step) {
  const context = await contextOf(step);
  if (step.until) return measured(step, await context.storageState());
  const page = await context.newPage();
  try {
    return await visited(step, page);
  } finally {
    await page.close(); // Its stream holds one of the six connections that a browser has to a server.
  }
}

async function visited(step, page) {
  const reports = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && reports.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => reports.push(`exception: ${error.message}`));
  page.on("dialog", (dialog) => {
    reports.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`));
  });
  const began = Date.now();
  await page.goto(new URL(`/ui${step.path}`, job.link).href);
  for (const text of [step.wait ?? []].flat()) await shown(page, text);
  const ready = Date.now() - began;
  if (step.click) for (const name of [step.click].flat()) await page.getByRole("button", { name, exact: true }).first().click();
  if (step.type) await page.getByRole("searchbox").first().fill(step.type);
  if (step.key) await page.keyboard.press(step.key);
  if (step.then) await shown(page, step.then);
  if (step.asks) await page.waitForFunction(hasAnswers, step.asks, { timeout: PATIENCE_MS }).catch(() => undefined);
  await page.waitForTimeout(step.pause ?? 150);
  if (step.shot) await page.screenshot({ path: step.shot, animations: "disabled" });
  let [violations, wide] = [[], false];
  for (const look of step.looks ?? [{}]) {
    if (look.size) await page.setViewportSize(SIZES[look.size]);
    if (look.scheme) await page.emulateMedia({ colorScheme: look.scheme });
    if (step.looks) await page.waitForTimeout(SETTLED_MS);
    if (job.axe && step.checks !== false) violations.push(...(await axe(page)).map((one) => `${Object.values(look).join(" ")} ${one}`.trim()));
    wide ||= await page.evaluate(() => document.documentElement.scrollWidth > innerWidth + 1);
  }
  const state = await page.evaluate(() => ({
    text: document.body.innerText,
    foreign: [...document.querySelectorAll("main b, main i, main script, main iframe, main object")].length,
    first: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? null,
    asked: performance.getEntriesByType("resource").map((one) => one.name.replace(location.origin, "")).filter((path) => path.startsWith("/api/v1/")),
    transferred: performance.getEntriesByType("resource").reduce((sum, one) => sum + (one.initiatorType === "fetch" || one.name.includes("/api/v1/") ? 0 : one.transferSize), 0),
  }));
  return { name: step.name, reports, violations, wide, ready, url: page.url(), ...state };
}

/** Opens a screen with an empty cache: when it was painted and usable, what it transferred, and its long tasks. */
async function measured(step, storageState) {
  const context = await browser.newContext({ viewport: SIZES[step.size ?? "laptop"], storageState });
  try {
    const page = await context.newPage();
    const reports = [];
    page.on("pageerror", (error) => reports.push(`exception: ${error.message}`));
    await page.addInitScript(observe, step.until);
    await page.goto(step.url ?? new URL(`/ui${step.path}`, job.link).href, { waitUntil: "commit" });
    await page.waitForFunction(() => globalThis.seen.usable !== null, undefined, { timeout: PATIENCE_MS });
    const opened = await page.evaluate(() => ({ ready: globalThis.seen.usable, tasks: globalThis.seen.tasks.splice(0) }));
    const dragged = step.drag ? await page.evaluate(drag, step.drag) : [];
    if (step.watch) await page.waitForTimeout(step.watch);
    const after = await page.evaluate(() => ({
      live: globalThis.seen.tasks,
      first: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? null,
      transferred: [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
        .reduce((sum, one) => sum + one.transferSize, 0),
    }));
    if (step.shot) await page.screenshot({ path: step.shot });
    return { name: step.name, reports, violations: [], text: "", dragged, ...opened, ...after };
  } finally {
    await context.close();
  }
}

/** Runs in the page: each step as soon as the one before is shown, far from it. */
async function drag({ steps, images }) {
  const slider = document.querySelector(".step-slider input");
  const times = [];
  for (let n = 0; n < steps; n += 1) {
    const step = (n * 7) % steps;
    const begun = performance.now();
    slider.value = String(step);
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    const shown = () => [...document.querySelectorAll(".step-image img")].filter((one) => one.dataset.path.includes(`+step+${step}+`) && one.complete);
    while (shown().length < images) await new Promise((resolve) => requestAnimationFrame(resolve));
    times.push(performance.now() - begun);
  }
  return times;
}

/** Runs in the page before its own script does. */
function observe({ css, text }) {
  const seen = { usable: null, tasks: [] };
  globalThis.seen = seen;
  new PerformanceObserver((list) => seen.tasks.push(...list.getEntries().map((one) => one.duration)))
    .observe({ type: "longtask", buffered: true });
  const watch = new MutationObserver(() => {
    if (![...document.querySelectorAll(css)].some((one) => one.textContent.includes(text ?? ""))) return;
    watch.disconnect();
    // A task behind the next frame: what was found has been painted.
    requestAnimationFrame(() => setTimeout(() => (seen.usable = performance.now())));
  });
  watch.observe(document, { childList: true, subtree: true, attributes: true, characterData: true });
}

/** Whether the page has answers from all of these paths. */
function hasAnswers(paths) {
  const seen = performance.getEntriesByType("resource").map((one) => new URL(one.name).pathname);
  return paths.every((path) => seen.includes(path));
}

async function axe(page) {
  // By the debugger's own way in: the page's policy lets no script in but its own.
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(readFileSync(job.axe, "utf8"));
  const found = await page.evaluate((tags) => globalThis.axe.run(document, { resultTypes: ["violations"], runOnly: tags }), TAGS);
  return found.violations.map((one) => `${one.id}: ${one.help} (${one.nodes.length}): ${one.nodes[0].html.slice(0, 160)} ${one.nodes[0].failureSummary?.slice(0, 300) ?? ""}`);
}
