import { afterEach, expect, test, vi } from "vitest";
import { jobIn } from "../src/router";

afterEach(() => void vi.unstubAllGlobals());

test("a path names a job, or none", () => {
  expect(["/jobs/a%20b", "/jobs/a/", "/jobs/%zz", "/jobs/%C3", "/jobs/a/b", "/"].map(jobIn)).toEqual(["a b", "a", undefined, undefined, undefined, undefined]);
});

test("what the HTML names is asked for once: a screen that asks for it finds it", async () => {
  const asked = vi.fn((input: string) => Promise.resolve(new Response(JSON.stringify(input))));
  const address = "/api/v1/jobs?parent=&limit=100&text=a+b";
  vi.stubGlobal("document", { querySelectorAll: () => [{ getAttribute: () => address }] });
  vi.stubGlobal("fetch", asked);
  await import("../src/prefetch");
  expect(asked.mock.calls.map(([input]) => input)).toEqual([address]);
  const { get } = await import("../src/api");
  expect(await get("/jobs?parent=", { limit: 100, text: "a b" })).toBe(address);
  expect(asked).toHaveBeenCalledTimes(1);
  await get("/jobs?parent=", { limit: 100, text: "a b" });
  expect(asked).toHaveBeenCalledTimes(2);
});
