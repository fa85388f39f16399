import { expect, test } from "vitest";
import { changesSince, listedNow, withEvent, type Changes } from "../src/screens/job-list";
import type { Job, JobChanges } from "../src/types";

const job = (name: string, sentence = ""): Job => ({ name, sentence }) as Job;
const event = (jobs: Job[], removed: string[] = []): JobChanges => ({ jobs, removed, is_partial: false });
const none: Changes = new Map();

test("a change counts until a list comes that was asked for after it", () => {
  const old = [job("one"), job("two")];
  const changes = withEvent(withEvent(none, event([job("one", "runs")]), 3), event([], ["two"]), 5);
  expect(listedNow(old, changes, 1)).toEqual([job("one", "runs")]);
  expect(listedNow(old, changes, 4)).toEqual([job("one")]);
  expect(listedNow(old, changes, 6)).toEqual(old);
  expect([...changesSince(changes, 4).keys()]).toEqual(["two"]);
  expect(changesSince(changes, 6).size).toBe(0);
});

test("a deletion is undone by an event of a job with the same name", () => {
  const changes = withEvent(withEvent(none, event([], ["one"]), 2), event([job("one", "again")]), 3);
  expect(listedNow([job("one")], changes, 1)).toEqual([job("one", "again")]);
});
