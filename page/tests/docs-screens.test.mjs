/** The documentation in Chromium, over a scripted server that has the clone's own pages. */

import { expect } from "vitest";
import { eventually, open, page, server, test, useChromium, violations } from "./chromium-screens.mjs";

useChromium({ width: 1280, height: 800 });

test("the bar leads to the documentation, whose pages lead to each other, with their pictures and headings", async () => {
  const outside = [];
  page.on("request", (request) => request.url().startsWith(server.origin) || outside.push(request.url()));
  await open("/computes");
  await page.getByRole("link", { name: "Docs" }).click();
  await eventually(() => page.locator(".docs img").evaluate((one) => one.naturalWidth)).toBeGreaterThan(0);
  await page.getByRole("link", { name: "web page", exact: true }).last().click();
  await page.locator(".docs h1").waitFor();
  await eventually(() => page.url()).toBe(`${server.origin}/ui/docs/page`);
  await eventually(() => page.locator(".docs img").evaluateAll((all) => all.length > 1 && all.every((one) => one.naturalWidth > 0))).toBe(true);
  await page.getByRole("link", { name: "one line", exact: true }).click();
  await page.locator("#which-run-is-best").waitFor();
  await eventually(() => page.evaluate(() => scrollY)).toBeGreaterThan(0);
  expect(page.url()).toBe(`${server.origin}/ui/docs/metrics#which-run-is-best`);
  expect(outside).toEqual([]);
  for (const scheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: scheme });
    expect(await violations()).toEqual([]);
  }
});

test("a page that isn't there leads to the others, and a phone doesn't scroll sideways", async () => {
  await page.setViewportSize({ width: 390, height: 844 });
  await open("/docs/no-such-page");
  await page.getByRole("heading", { name: "There is no such page" }).waitFor();
  await page.getByRole("link", { name: "The documentation" }).click();
  await page.locator(".docs table").first().waitFor();
  expect(await violations()).toEqual([]);
  await open("/docs/sweeps");
  await page.locator(".docs h2").first().waitFor();
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390);
  expect(await violations()).toEqual([]);
});
