/*
 * Files of a hostile job, looked at in Chromium from the job's screen: galleries, tables, markdown, HTML, SVG.
 *
 * Standard input: {playwright, chromium, link, job, files, evil}. Standard output: {foreign, dialogs, cookies, shown}: the
 * answers from elsewhere than the server, what scripts said, what frames read, and the text of each preview.
 */

import { readFileSync } from "node:fs";

const PAUSE_MS = 700;
const errand = JSON.parse(readFileSync(0, "utf8"));
const { chromium } = await import(errand.playwright);
const browser = await chromium.launch({ executablePath: errand.chromium, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
const context = await browser.newContext();
const page = await context.newPage();
const server = new URL(errand.link).origin;
const [foreign, dialogs, cookies, shown] = [[], [], [], {}];
// Requests that a policy blocks are reported as well, but never answered; who listens there sees whether they came.
context.on("response", (one) => one.url().startsWith(`${server}/`) || /^(blob|data|about):/.test(one.url()) || foreign.push(one.url()));
page.on("dialog", (one) => {
  dialogs.push(one.message());
  void one.dismiss();
});
context.on("page", (one) => foreign.push(`a window: ${one.url()}`));
await page.goto(errand.link);

/** The frame of a file's preview once it stands; undefined = it has none. */
async function preview(file) {
  await page.goto(`${server}/ui/jobs/${errand.job}?tab=outputs&file=${encodeURIComponent(file)}`);
  await page.locator(".preview h2").waitFor();
  await page.waitForTimeout(PAUSE_MS);
  await page.waitForFunction(() => !document.querySelector(".preview").innerText.includes("Loading…"));
  return (await page.locator(".preview iframe").count()) ? page.mainFrame().childFrames()[0] : undefined;
}

for (const file of errand.files) {
  const frame = await preview(file);
  if (frame) {
    shown[file] = (await frame.locator("body").innerText()) || undefined;
    // Playwright's own scripts run in the frame; what they can read, a script of the file's could at most.
    cookies.push(await frame.evaluate(() => {
      try {
        return document.cookie;
      } catch (error) {
        return error.name;
      }
    }));
    const links = "a, x-a, button, canvas";
    const count = await frame.locator(links).count();
    for (let n = 0; n < count; n += 1) {
      const again = await preview(file);
      await again.locator(links).nth(n).click({ timeout: 2000, noWaitAfter: true });
      await page.waitForTimeout(PAUSE_MS);
    }
  }
  shown[file] ??= await page.locator(".preview").innerText();
  await page.waitForTimeout(PAUSE_MS);
}
const said = await page.evaluate(() => globalThis.pwned ?? "");
console.log(JSON.stringify({ foreign, dialogs, cookies, shown, said, height: await page.evaluate(() => document.documentElement.scrollHeight) }));
await browser.close();
