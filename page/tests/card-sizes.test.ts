import { expect, test } from "vitest";
import { drawnAs, has, toggled } from "../src/screens/job/card-sizes";
import type { CardSize } from "../src/types";

test("each side of a card is changed by itself", () => {
  const after = (size: CardSize) => [toggled(size, "wide"), toggled(size, "tall")];
  expect((["normal", "wide", "tall", "large"] as const).map(after)).toEqual([["wide", "tall"], ["normal", "large"], ["large", "normal"], ["tall", "wide"]]);
});

test("a large card is wide and tall", () => {
  expect([has("large", "wide"), has("large", "tall"), has("wide", "tall"), has("normal", "wide")]).toEqual([true, true, false, false]);
  expect(drawnAs("large")).toEqual({ isWide: true, height: 340 });
  expect(drawnAs("normal")).toEqual({ isWide: false });
});
