/*
 * A service whose page is hostile: opened from the job's screen in Chromium, it tries to act as the person who opened it.
 *
 * Standard input: {playwright, chromium, link, job}. Standard output: {own, other, answers, tries}: the origins of two
 * services, `status method path` of what the hostile page asked of others, and what its script got.
 */

import { readFileSync } from "node:fs";

const errand = JSON.parse(readFileSync(0, "utf8"));
const { chromium } = await import(errand.playwright);
const browser = await chromium.launch({ executablePath: errand.chromium, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
const context = await browser.newContext();
const page = await context.newPage();
await page.goto(errand.link);
const server = new URL(errand.link).origin;
await page.goto(`${server}/ui/jobs/${errand.job}`);

async function openService(name) {
  const button = page.getByRole("button", { name: `Open ${name}`, exact: true });
  const [tab] = await Promise.all([context.waitForEvent("page"), button.click()]);
  await tab.waitForURL(/:\d+\/$/);
  return tab;
}

const hostile = await openService("first");
const other = new URL((await openService("second")).url()).origin;
const answers = [];
hostile.on("response", (one) => {
  const url = new URL(one.url());
  if (url.origin !== new URL(hostile.url()).origin) answers.push(`${one.status()} ${one.request().method()} ${url.pathname}`);
});
const tries = await hostile.evaluate(async ([server, other, job]) => {
  const got = {};
  const attempt = async (name, url, init = {}) => {
    try {
      const answer = await fetch(url, { credentials: "include", ...init });
      got[name] = `${answer.type} ${answer.status}`;
    } catch {
      got[name] = "blocked";
    }
  };
  await attempt("read jobs", `${server}/api/v1/jobs`);
  await attempt("read session", `${server}/api/v1/page/session`, { mode: "no-cors" });
  await attempt("cancel", `${server}/api/v1/jobs/${job}/cancel`, { mode: "no-cors", method: "POST" });
  await attempt("other service", `${other}/`, { mode: "no-cors" });
  got.cookies = document.cookie;
  got.opener = String(window.opener);
  return got;
}, [server, other, errand.job]);
await page.reload();
await page.waitForSelector(".services");
console.log(JSON.stringify({ own: new URL(hostile.url()).origin, other, answers, tries }));
await browser.close();
