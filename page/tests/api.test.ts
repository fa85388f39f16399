import { afterEach, expect, test, vi } from "vitest";
import { get, serverNow } from "../src/api";

afterEach(() => void vi.unstubAllGlobals());

const answering = (answer: Response): void => {
  vi.stubGlobal("location", { host: "server" });
  vi.stubGlobal("fetch", () => Promise.resolve(answer));
};

test("every refusal has a sentence, also a proxy's and an answer that breaks off", async () => {
  answering(Response.json({ detail: "bad gateway" }, { status: 502 }));
  await expect(get("/jobs")).rejects.toMatchObject({ status: 502, what: "the server answered 502" });
  answering(new Response("<html>", { status: 504 }));
  await expect(get("/jobs")).rejects.toMatchObject({ what: "the server answered 504" });
  answering(Response.json({ what: "No job named 'x'", where: "jobs", fix: "List them." }, { status: 404 }));
  await expect(get("/jobs/x")).rejects.toMatchObject({ what: "No job named 'x'", where: "jobs", fix: "List them." });
  answering(new Response('[{"name": "one"'));
  await expect(get("/jobs")).rejects.toMatchObject({ status: 0, what: "the server's answer broke off" });
});

test("the server's clock counts where it differs by more than its dates can", async () => {
  const dated = (ms: number) => answering(Response.json([], { headers: { Date: new Date(Date.now() + ms).toUTCString() } }));
  const ahead = () => Math.round((serverNow() - Date.now()) / 60_000);
  dated(600_000);
  await get("/jobs");
  expect(ahead()).toBe(10);
  dated(-1000);
  await get("/jobs");
  expect(serverNow() - Date.now()).toBeLessThan(5);
});
