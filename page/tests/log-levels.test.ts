import { expect, test } from "vitest";
import { isGrave, levelOf } from "../src/screens/job/log-levels";

test("a line has the level of logging, loguru, glog, exceptions and memory that has run out", () => {
  const lines: Record<string, string[]> = {
    error: [
      "ERROR: this is handled", "2026-11-29 10:00:00 | ERROR    | train:12 - broke", "E1129 17:00:00.1 17 a.cc:3] no", "KeyError: 1000",
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "Traceback (most recent call last):", "CRITICAL:root:gone",
      "terminate called after throwing an instance of 'std::bad_alloc'",
    ],
    warning: ["WARNING:root:slow", "a.py:3: UserWarning: old", "W1129 17:00:00.1 17 a.cc:3] hm", "[WARN] disk"],
    "": ["INFO step 3", "0 errors, 2 warnings", "error_rate 0.1", "DEBUG x", "epoch 3 error=0.1", "Early warning system ready"],
  };
  for (const [level, texts] of Object.entries(lines)) for (const text of texts) expect([text, levelOf(text)]).toEqual([text, level]);
});

test("a filter lets through what is as grave or graver", () => {
  const texts = ["INFO a", "WARNING b", "ERROR c"];
  expect(["", "warning", "error"].map((least) => texts.filter((text) => isGrave(text, least)).length)).toEqual([3, 2, 1]);
});
