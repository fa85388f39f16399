/** A job is run again with changes, in Chromium over a scripted server: form, job file, live checks, links. */

import { expect } from "vitest";
import { eventually, page, server, test, useChromium, violations } from "./chromium-screens.mjs";
import { completed, jobOf } from "./scripted-server.mjs";

let planned, started;
const TEXT = "name: cifar\ncommand: python train.py --lr ${{inputs.lr}}\ncode: src\ninputs:\n  lr: 0.1\n  data:\n    type: uri_folder\n    path: data\n";

useChromium({ width: 1280, height: 800, answers: () => {
  planned = [];
  started = [];
  return {
    "/page/session": { action_token: "t", person: "ada", role: "owner" },
    "/computes": [{ name: "local" }, { name: "lab" }],
    "/jobs/cifar": { ...completed("cifar", { state: "failed", reason: "rank_failed", successors: ["cifar-2"] }), story: [] },
    "/jobs/cifar/definition": { document: {}, text: TEXT, plan: {} },
    "/jobs/cifar/log": { pieces: [], after: 0, end: 0, first: 0 },
    "/plan": (_query, _request, body) => {
      planned.push(body);
      const { instance_count: nodes } = body.document.resources ?? {};
      if (nodes !== undefined && !(nodes > 0)) return { refused: 422, what: "expected a whole number of 1 or more", where: "job.resources.instance_count" };
      return { queue: "compute local: would start at once", notes: [], never: false };
    },
    "/jobs": (_query, _request, body) => {
      started.push(body);
      return jobOf("cifar-3", { state: "queued" });
    },
    "/jobs/cifar-3": { ...jobOf("cifar-3", { state: "queued", origin: "cifar" }), story: [] },
  };
} });

const inDialog = () => page.locator("dialog");
const open = async () => {
  await page.goto(`${server.origin}/ui/jobs/cifar`);
  await page.getByRole("heading", { level: 1 }).waitFor();
};

test("a failed run is started with another rate in four clicks", async () => {
  await open();
  await page.getByRole("button", { name: "Run again…" }).click();
  await page.getByLabel("lr", { exact: true }).click();
  await page.keyboard.press("Control+A");
  await page.keyboard.type("0.005");
  await page.getByText("would start at once").waitFor();
  await eventually(() => planned.at(-1)?.document.inputs.lr).toBe(0.005);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await eventually(() => new URL(page.url()).pathname).toBe("/ui/jobs/cifar-3");
  expect(started).toHaveLength(1);
  const [{ document, like, key }] = started;
  expect([like, document.inputs.lr, document.code, document.name]).toEqual(["cifar", 0.005, "src", undefined]);
  expect(key).toMatch(/^[0-9a-f]{32}$/);
  expect(await page.locator(".facts", { hasText: "run again from" }).locator("a", { hasText: /^cifar$/ }).getAttribute("href")).toBe("/ui/jobs/cifar");
});

test("what the server refuses stands beside its key, and nothing starts before it is mended", async () => {
  await open();
  await eventually(() => page.locator(".facts a", { hasText: "cifar-2" }).count()).toBe(1);
  await page.getByRole("button", { name: "Run again…" }).click();
  const nodes = inDialog().getByLabel("Nodes");
  await nodes.fill("0");
  await page.locator(".run-field", { hasText: "Nodes" }).getByText("expected a whole number").waitFor();
  expect(await nodes.getAttribute("aria-invalid")).toBe("true");
  expect(await page.getByRole("button", { name: "Run", exact: true }).isDisabled()).toBe(true);
  await nodes.fill("2");
  await page.getByText("would start at once").waitFor();
  expect(await page.getByRole("button", { name: "Run", exact: true }).isDisabled()).toBe(false);
  await inDialog().getByLabel("Compute").selectOption("lab");
  await inDialog().getByLabel("Priority").selectOption("high");
  await inDialog().getByLabel("Time limit, s").fill("60");
  await eventually(() => planned.at(-1).document.limits).toEqual({ timeout: 60 });
  expect(planned.at(-1).document).toMatchObject({ compute: "lab", resources: { instance_count: 2 }, queue_settings: { priority: "high" } });
  await page.getByRole("button", { name: "Back" }).click();
  expect(started).toEqual([]);
});

test("form and job file are the same text, and a text that can't be read is said at its line", async () => {
  await open();
  await page.getByRole("button", { name: "Run again…" }).click();
  await page.getByLabel("lr", { exact: true }).fill("0.3");
  await inDialog().locator("summary").click();
  const file = page.getByRole("textbox", { name: "Job file" });
  expect(await file.inputValue()).toContain("lr: 0.3");
  await file.fill((await file.inputValue()).replace("lr: 0.3", "lr: 0.4\n  epochs: 5"));
  await eventually(() => inDialog().getByLabel("epochs").inputValue()).toBe("5");
  expect(await page.getByLabel("lr", { exact: true }).inputValue()).toBe("0.4");
  await file.fill("inputs: [1,\n");
  await page.locator(".problems").getByText(/line \d/).waitFor();
  expect(await page.getByRole("button", { name: "Run", exact: true }).isDisabled()).toBe(true);
});

test("the dialog has no violation of axe, in light and dark, and fits a phone", async () => {
  for (const [width, height, colorScheme] of [[1280, 800, "light"], [390, 844, "dark"]]) {
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme });
    await open();
    await page.getByRole("button", { name: "Run again…" }).click();
    await page.getByText("would start at once").waitFor();
    expect(await violations("dialog")).toEqual([]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
    if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/again-${width}-${colorScheme}.png` });
  }
});

test("a reader sees no way to run it", async () => {
  server.answers["/page/session"] = { action_token: "", person: "eve", role: "reader" };
  await open();
  await eventually(() => server.count("/page/session")).toBeGreaterThan(0);
  await page.waitForTimeout(200);
  expect(await page.getByRole("button", { name: "Run again…" }).count()).toBe(0);
});
