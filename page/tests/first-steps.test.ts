/** The commands that a server without jobs shows. */

import { expect, test } from "vitest";
import { firstSteps } from "../src/screens/first-steps";

test("a browser on another machine begins by signing in to the server that it sees", () => {
  expect(firstSteps("https://drumbeat.example.org", "drumbeat.example.org")[0]?.command).toBe("drumbeat login https://drumbeat.example.org");
  expect(firstSteps("http://127.0.0.1:8411", "127.0.0.1").map((one) => one.command.split(" ")[1])).toEqual(["run", "init", "run"]);
});
