/** Chromium over a scripted server, for the tests of screens: one browser for a file, a server and a page for each test. */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium as browsers } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test as every, vi } from "vitest";
import { builtPage, chromium, ScriptedServer } from "./scripted-server.mjs";

export const PATIENCE_MS = 30_000;
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
export const test = every.skipIf(!chromium);
export const eventually = (read) => expect.poll(read, { timeout: PATIENCE_MS, interval: 50 });
export const open = (path) => page.goto(`${server.origin}/ui${path}`);

/** The browser of the file, and server and page of the test that runs. */
export let browser, server, page;

/** What axe finds on the page, or in a part of it: WCAG 2.2 AA and its best practices. */
export async function violations(part = "html") {
  await page.evaluate(AXE);
  const found = await page.evaluate((where) => globalThis.axe.run(where, { resultTypes: ["violations"], runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }), part);
  return found.violations.map((one) => `${one.id}: ${one.nodes[0].html.slice(0, 160)}`);
}

/** Has each test of a file start with a page of this size and these answers. answers: called anew for each test. */
export function useChromium({ width, height, answers }) {
  if (!chromium) console.warn("the screens aren't tested: apt-get install chromium");
  vi.setConfig({ testTimeout: 180_000, hookTimeout: 180_000 });
  let built;
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
    server.answers = { "/page/session": { action_token: "", person: "", role: "owner" }, "/experiments": [], "/job-counts": {}, "/curves": [], ...answers?.() };
    page = await browser.newPage({ viewport: { width, height } });
    page.setDefaultTimeout(PATIENCE_MS);
  });
  afterEach(async () => {
    await page?.close();
    await server?.close();
  });
}
