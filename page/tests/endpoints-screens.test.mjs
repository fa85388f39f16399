/** The screens of online endpoints in Chromium, over a scripted server: states, reasons, curves, and requests that are tried. */

import { expect } from "vitest";
import { open, page, server, test, useChromium, violations } from "./chromium-screens.mjs";

const ADDRESS = "http://127.0.0.1:4000/endpoints/ships/score";

useChromium({ width: 1280, height: 900, answers: () => ({ "/page/session": { action_token: "t", person: "ada", role: "owner" } }) });

const seen = (text) => page.getByText(text).first().waitFor();

const endpoint = {
  definition: { name: "ships", auth_mode: "key", traffic: { blue: 100 }, mirror_traffic: { green: 10 }, description: "", tags: {} },
  state: "ready", scoring_uri: ADDRESS, created_at: "2026-11-20T08:00:00Z", sentence: "", deployments: ["blue", "green"],
};
const rates = (requests_per_s, errors_per_s = 0) => ({ requests_per_s, errors_per_s, p50_ms: 12.5, p95_ms: 40 });
const deploymentOf = (name, changes = {}, rest = {}) => ({
  deployment: {
    definition: { name, endpoint_name: "ships" }, state: "ready", created_at: "2026-11-20T08:00:00Z", generation: 1, job: `ships-${name}`,
    ready: 2, wanted: 2, sentence: "2 of 2 replicas ready", ...changes,
  },
  model: "azureml:boats:3", now: rates(38, 1.5), requests: 100, errors: 2, running: 1, waiting: 0,
  replicas: [{ job: `ships-${name}_0`, state: "running", generation: 1, is_ready: true, sentence: "", running: 1 }],
  curve: { times: [1_764_000_000, 1_764_000_005, 1_764_000_010], rates: [rates(1), rates(2), rates(3)] }, ...rest,
});
const WAITS = "0 of 1 replica ready; a replica waits: the slots are held by live";

function hasShips() {
  const both = [
    deploymentOf("blue"),
    deploymentOf("green", { state: "creating", ready: 0, wanted: 1, sentence: WAITS }, { curve: { times: [], rates: [] }, replicas: [] }),
  ];
  server.answers["/online-endpoints"] = [endpoint];
  server.answers["/online-endpoints/ships"] = endpoint;
  server.answers["/endpoint-requests"] = both;
}

test("without an endpoint the screen has the commands that make one", async () => {
  server.answers["/online-endpoints"] = [];
  server.answers["/endpoint-requests"] = [];
  await open("/endpoints");
  await seen("drumbeat online-endpoint create digits");
  expect(await violations()).toEqual([]);
});

test("a deployment shows traffic, requests, latency and errors, and one without replicas says why", async () => {
  hasShips();
  await open("/endpoints");
  const row = page.getByRole("row", { name: /^blue/ });
  await row.waitFor();
  expect((await row.getByRole("cell").allInnerTexts()).map((text) => text.trim())).toEqual(
    ["blue\nboats:3", "ready", "2 of 2", "100 %", "38", "13 ms", "40 ms", "1.5"]);
  expect(await row.getByRole("link", { name: "boats:3" }).getAttribute("href")).toBe("/ui/data?tab=models&name=boats&version=3");
  const waiting = page.getByRole("row", { name: /^green/ });
  expect(await waiting.innerText()).toContain(WAITS);
  expect(await waiting.innerText()).toContain("copies of 10 %");
  expect(await waiting.getByRole("link", { name: "live" }).getAttribute("href")).toBe("/ui/jobs/live");
  await page.getByRole("link", { name: "ships" }).click();
  await page.locator("h1", { hasText: "ships" }).waitFor();
});

test("one endpoint has curves of its deployments and a request is tried with its answer, status and time", async () => {
  hasShips();
  let sent;
  server.answers["/online-endpoints/ships/requests"] = (_query, _request, body) => {
    sent = body;
    return { status: 424, seconds: 0.0861, body: '{"message":"no such key"}', content_type: "application/json", deployment: "green", is_whole: true };
  };
  server.answers["/online-endpoints/ships/keys"] = { primary: "key-one", secondary: "key-two" };
  await open("/endpoints/ships");
  await page.getByRole("img", { name: /^Requests per second/ }).waitFor();
  expect(await page.getByRole("img", { name: /over the last hour/ }).count()).toBe(3);
  await page.getByRole("textbox").fill("{");
  await seen("This is no JSON");
  await page.getByRole("textbox").fill('{"data": 1}');
  await page.getByRole("combobox").selectOption("green");
  await page.getByRole("button", { name: "Send" }).click();
  await seen("after 86 ms by green");
  await seen("drumbeat online-deployment get-logs green -e ships");
  expect(sent).toEqual({ body: '{"data": 1}', deployment: "green" });
  expect(await page.locator("main").innerText()).not.toContain("key-one");
  await page.getByRole("button", { name: "Show a command with the key" }).click();
  await seen(`curl ${ADDRESS} -H "Authorization: Bearer key-one"`);
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    expect(await violations()).toEqual([]);
  }
});

test("a reader sees no form and no key, and is told why", async () => {
  hasShips();
  server.answers["/page/session"] = { action_token: "t", person: "eve", role: "reader" };
  await open("/endpoints/ships");
  await seen("Your role is reader");
  expect(await page.getByRole("button", { name: "Send" }).count()).toBe(0);
  expect(await page.getByRole("button", { name: "Show a command with the key" }).count()).toBe(0);
});

test("a refusal of the server is shown in its own words", async () => {
  hasShips();
  server.answers["/online-endpoints/ships/requests"] = { refused: 409, what: "8 other requests are being tried now" };
  await open("/endpoints/ships");
  await page.getByRole("button", { name: "Send" }).click();
  await seen("8 other requests are being tried now");
});
