import { expect, test } from "vitest";
import { fileOf, pictureOf, slugOf, targetOf } from "../src/parts/docs-addresses";

test("an address of the screen names a file of the documentation, and nothing outside it", () => {
  expect(["/docs", "/docs/", "/docs/sweeps", "/docs/decisions/0002-levels-not-changes"].map(fileOf)).toEqual(["README.md", "README.md", "docs/sweeps.md", "docs/decisions/0002-levels-not-changes.md"]);
  expect(["/docs/../secret", "/docs/a%2Fb", "/docs//host/x", "/docs/x.md"].map(fileOf)).toEqual([undefined, undefined, undefined, undefined]);
});

test("links between pages lead to the screen, those to other hosts stay, and those to files that aren't served are none", () => {
  const of = (link: string) => targetOf("docs/page.md", link);
  expect(of("metrics.md#which-run-is-best")).toBe("/ui/docs/metrics#which-run-is-best");
  expect(of("#security")).toBe("/ui/docs/page#security");
  expect(of("../README.md")).toBe("/ui/docs");
  expect(targetOf("README.md", "docs/data.md#outputs")).toBe("/ui/docs/data#outputs");
  expect(targetOf("docs/decisions/README.md", "../states.md")).toBe("/ui/docs/states");
  expect(of("https://peps.python.org/x")).toBe("https://peps.python.org/x");
  expect([of("../tests/real/test_page.py"), of("javascript:alert(1)"), of("//evil.example/docs.md")]).toEqual([undefined, undefined, undefined]);
  expect(pictureOf("docs/page.md", "images/page-job.png")).toBe("/ui/docs-files/docs/images/page-job.png");
});

test("headings have the addresses that links to them use", () => {
  expect(["Which run is best", "`drumbeat.log`, MLflow and more", "A. B"].map(slugOf)).toEqual(["which-run-is-best", "drumbeatlog-mlflow-and-more", "a-b"]);
});
