import { afterEach, expect, test, vi } from "vitest";
import { jobIn } from "../src/router";

afterEach(() => void vi.unstubAllGlobals());

test("a path names a job, or none", () => {
  expect(["/jobs/a%20b", "/jobs/a/", "/jobs/%zz", "/jobs/%C3", "/jobs/a/b", "/"].map(jobIn)).toEqual(["a b", "a", undefined, undefined, undefined, undefined]);
});

test("an address that is no text asks for no job, and the page goes on", async () => {
  const asked = vi.fn();
  vi.stubGlobal("location", { pathname: "/ui/jobs/%zz", search: "" });
  vi.stubGlobal("fetch", asked);
  await import("../src/first");
  expect(asked).not.toHaveBeenCalled();
});
