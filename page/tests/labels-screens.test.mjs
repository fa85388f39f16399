/** Notes, tags and display names in Chromium, over a scripted server: edited in their place, by all who may, and never over another's text. */

import { expect } from "vitest";
import { eventually, page, server, test, useChromium } from "./chromium-screens.mjs";
import { completed, refusal } from "./scripted-server.mjs";

let job, changes;

useChromium({ width: 1280, height: 700, answers: () => ({
  "/page/session": { action_token: "t", person: "ada", role: "owner" }, "/quotas/use": { uses: [] },
  "/jobs/cifar/overview": { job: "cifar", held_s: 1, slot_hours: 1, gpu_hours: 0, lost_s: 0, inputs: {}, parameters: {}, note: "", series: [], standing: null, use: {} },
  "/jobs/cifar/files": [],
}) });

/** The server keeps the job as the real one does: conflicts where `seen` isn't what it has. */
function hasJob(name = "cifar", labels = {}) {
  job = completed(name, labels);
  changes = [];
  server.answers[`/jobs/${name}`] = (_query, request, body) => {
    if (request.method !== "PATCH") return { ...job, story: [] };
    changes.push(body);
    if (body.seen?.description !== undefined && body.seen.description !== job.description) return refusal(409, "description changed after it was read");
    const { seen: _, tags = {}, ...rest } = body;
    const all = Object.entries({ ...job.tags, ...tags }).filter(([, value]) => value !== null);
    job = { ...job, ...rest, tags: Object.fromEntries(all) };
    return job;
  };
}

const open = async (path = "/jobs/cifar") => {
  await page.goto(`${server.origin}/ui${path}`);
  await page.getByRole("heading", { level: 1 }).first().waitFor();
};

test("a note is written and edited in its place, and shown as markdown", async () => {
  hasJob();
  await open();
  await page.getByRole("button", { name: "Add a note" }).click();
  await page.keyboard.type("The **best** so far, see [the paper](https://example.org/p)");
  await page.keyboard.press("Control+Enter");
  await eventually(() => page.locator(".job-note strong").innerText()).toBe("best");
  expect(changes).toEqual([{ description: "The **best** so far, see [the paper](https://example.org/p)", seen: { description: "" } }]);
  const link = page.locator(".job-note a", { hasText: "the paper" });
  expect(await link.getAttribute("rel")).toBe("noopener noreferrer");
  const edit = page.getByRole("button", { name: "Edit the note" });
  await eventually(() => edit.evaluate((one) => one === document.activeElement)).toBe(true);
  await edit.click();
  await page.keyboard.press("Escape");
  await eventually(() => page.locator(".job-note textarea").count()).toBe(0);
  expect(changes).toHaveLength(1);
});

test("a note that another user has written meanwhile stands beside one's own before it is replaced", async () => {
  hasJob("cifar", { description: "first" });
  await open();
  await page.getByRole("button", { name: "Edit the note" }).click();
  await page.locator(".job-note textarea").fill("mine");
  job = { ...job, description: "theirs" };
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText("Another user has changed the note").waitFor();
  expect(await page.locator(".job-note pre").innerText()).toBe("theirs");
  expect(await page.locator(".job-note textarea").inputValue()).toBe("mine");
  expect(job.description).toBe("theirs");
  await page.getByRole("button", { name: "Put it before mine" }).click();
  await page.getByRole("button", { name: "Save mine" }).click();
  await eventually(() => job.description).toBe("theirs\n\nmine");
  expect(changes.at(-1).seen).toEqual({ description: "theirs" });
});

test("nothing within a note runs or is fetched", async () => {
  const foreign = [];
  page.on("request", (request) => request.url().startsWith(server.origin) || foreign.push(request.url()));
  const note = [
    "# Head", "<script>globalThis.ran = 1</script>", "<img src=x onerror='globalThis.ran = 1'>", "![pixel](http://127.0.0.1:9/pixel.png)",
    "[go](javascript:globalThis.ran=1)", "[data](data:text/html,<script>1</script>)", "<svg onload='globalThis.ran=1'></svg>", "[x](https://example.org/\"onmouseover=\"globalThis.ran=1)",
    "<style>body { display: none }</style>", "<a href='//example.org' onclick='globalThis.ran=1'>a</a>",
  ].join("\n\n");
  hasJob("cifar", { description: note });
  await open();
  await page.locator(".job-note .markdown h3").waitFor();
  await page.getByRole("button", { name: "Show all of the note" }).click();
  const found = await page.locator(".job-note .markdown").evaluate((box) => ({
    bad: box.querySelectorAll("script, img, svg, style, iframe, form, input").length,
    handlers: [...box.querySelectorAll("*")].flatMap((one) => [...one.attributes].map((attribute) => attribute.name)).filter((name) => name.startsWith("on") || name === "style" || name === "class" || name === "id"),
    links: [...box.querySelectorAll("a")].map((one) => one.getAttribute("href")).filter(Boolean),
    text: box.textContent,
  }));
  expect(found.bad).toBe(0);
  expect(found.handlers).toEqual([]);
  expect(found.links.filter((one) => !/^https?:/.test(one))).toEqual([]);
  expect(found.text).toContain("<script>globalThis.ran = 1</script>");
  for (const link of await page.locator(".job-note .markdown a").all()) await link.hover();
  expect(await page.evaluate(() => globalThis.ran)).toBe(undefined);
  expect(foreign).toEqual([]);
});

test("tags are set and removed, lead to the jobs that have them, and a name is given", async () => {
  hasJob("cifar", { tags: { team: "vision" } });
  await open();
  await page.getByRole("button", { name: "Add a tag" }).click();
  await page.keyboard.type("stage");
  await page.getByRole("textbox", { name: "Value of the tag" }).fill("final");
  await page.keyboard.press("Enter");
  await eventually(() => page.locator(".tags .tag a").allInnerTexts()).toEqual(["team=vision", "stage=final"]);
  await page.getByRole("button", { name: "Remove the tag team" }).click();
  await eventually(() => page.locator(".tags .tag a").allInnerTexts()).toEqual(["stage=final"]);
  expect(changes).toEqual([
    { tags: { stage: "final" }, seen: { tags: { stage: null } } },
    { tags: { team: null }, seen: { tags: { team: "vision" } } },
  ]);
  await page.getByRole("button", { name: "Rename" }).click();
  await page.keyboard.type("the good one");
  await page.keyboard.press("Enter");
  await page.getByText("the good one").waitFor();
  server.answers["/jobs"] = { jobs: [job], after: null };
  await page.locator(".tags a").click();
  await eventually(() => new URL(page.url()).searchParams.get("text")).toBe("tag:stage=final");
  await eventually(() => server.asked.some((one) => one.startsWith("/jobs?") && one.includes("text=tag%3Astage%3Dfinal"))).toBe(true);
});

test("all selected jobs get a tag; those that the server refuses are named", async () => {
  hasJob("cifar");
  server.answers["/jobs"] = { jobs: [completed("cifar"), completed("other")], after: null };
  server.answers["/jobs/other"] = refusal(403, "job other is bob's");
  await open("/");
  for (const name of ["cifar", "other"]) await page.getByRole("checkbox", { name: `Select ${name}` }).check();
  await page.getByRole("button", { name: "Tag", exact: true }).click();
  await page.getByRole("textbox", { name: "Name of the tag" }).fill("keep");
  await page.getByRole("textbox", { name: "Value of the tag" }).fill("yes");
  await page.getByRole("button", { name: "Set", exact: true }).click();
  await page.getByText("1 of 2 jobs was not tagged").waitFor();
  await page.getByText("other: job other is bob's").waitFor();
  expect(changes).toEqual([{ tags: { keep: "yes" } }]);
  await page.getByRole("button", { name: "Remove this tag" }).click();
  await eventually(() => changes.length).toBe(2);
  expect(job.tags).toEqual({});
});

test("a reader sees note and tags, and no way to change them", async () => {
  server.answers["/page/session"] = { action_token: "", person: "eve", role: "reader" };
  hasJob("cifar", { description: "read **this**", tags: { team: "vision" } });
  await open();
  await page.locator(".job-note strong").waitFor();
  await eventually(() => server.count("/page/session")).toBeGreaterThan(0);
  await page.waitForTimeout(200);
  for (const name of ["Edit the note", "Add a tag", "Rename", "Remove the tag team"]) expect(await page.getByRole("button", { name }).count()).toBe(0);
});

test("an experiment has a note above its runs", async () => {
  const at = "/experiments/vision";
  let note = "";
  const shown = () => ({ id: "1", name: "vision", archived: false, created_at: "2026-11-20T08:00:00Z", updated_at: "2026-11-20T08:00:00Z", jobs: 0, latest_at: null, tags: note ? { "mlflow.note.content": note } : {}, names: ["vision"] });
  Object.assign(server.answers, {
    [`${at}/runs`]: { columns: [], runs: [], total: 0, groups: [] }, [`${at}/run-fields`]: [], [`${at}/views`]: [],
    "/experiments/named": shown,
    "/experiments/note": (query, _request, body) => {
      expect([query.get("name"), body.seen]).toEqual(["vision", ""]);
      note = body.note;
      return shown();
    },
  });
  await open(at);
  await page.getByRole("button", { name: "Add a note" }).click();
  await page.keyboard.type("- [x] baseline");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await eventually(() => page.locator(".job-note li").innerText()).toContain("☑ baseline");
});
