import { describe, expect, it } from "vitest";
import { endpointIn } from "../src/router";
import { linesOf, milliseconds, modelOf, perSecond, requestsPath } from "../src/screens/endpoints/requests";
import { problemOf, readable } from "../src/screens/endpoints/try-it";
import type { DeploymentRequests } from "../src/types";

const answer = { status: 200, seconds: 0.1, content_type: "application/json", deployment: "blue", is_whole: true };
const rates = (requests_per_s: number, p50_ms: number | null) => ({ requests_per_s, errors_per_s: 0, p50_ms, p95_ms: null });

describe("endpoints", () => {
  it("names an endpoint by its path", () => {
    expect(endpointIn("/endpoints/ships")).toBe("ships");
    expect(endpointIn("/endpoints")).toBeUndefined();
    expect(endpointIn("/endpoints/")).toBeUndefined();
  });

  it("asks for curves of one endpoint, in the encoding that the server's HTML names", () => {
    expect(requestsPath()).toBe("/endpoint-requests");
    expect(requestsPath("a b~c")).toBe("/endpoint-requests?endpoint=a+b%7Ec&curves=true");
  });

  it("links versions of the registry, and no files", () => {
    expect(modelOf("azureml:digits:3")).toEqual({ name: "digits", version: "3" });
    expect(modelOf("azureml://datastores/x/paths/y")).toBeUndefined();
    expect(modelOf("")).toBeUndefined();
  });

  it("writes rates and times short", () => {
    expect([0, 0.25, 9.94, 38.6].map(perSecond)).toEqual(["0", "0.3", "9.9", "39"]);
    expect([null, 7.42, 23.4, 60_000].map(milliseconds)).toEqual(["–", "7.4 ms", "23 ms", "60 s"]);
  });

  it("draws a line for each deployment, with gaps where nothing was asked", () => {
    const one = { deployment: { definition: { name: "blue" } }, curve: { times: [5, 10], rates: [rates(2, 4), rates(0, null)] } } as DeploymentRequests;
    const none = { deployment: { definition: { name: "green" } }, curve: { times: [], rates: [] } } as unknown as DeploymentRequests;
    expect(linesOf([one, none], ["p50", (rate) => rate.p50_ms])).toEqual([{ label: "blue p50", x: [5, 10], y: [4, null] }]);
  });

  it("says what is wrong with a body, and indents an answer that is JSON", () => {
    expect(problemOf('{"data": 1}')).toBe("");
    expect(problemOf("{")).toMatch(/^This is no JSON: .* It is sent as it is\.$/);
    expect(readable({ ...answer, body: '{"a":1}' })).toBe('{\n "a": 1\n}');
    expect(readable({ ...answer, body: "<b>" })).toBe("<b>");
    expect(readable({ ...answer, body: '{"a":', is_whole: false })).toBe('{"a":');
  });
});
