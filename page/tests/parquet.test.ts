/** Parquet files as tables. */

import { expect, test } from "vitest";
import { parquetTable } from "../src/screens/artifacts/parquet";
import { PARQUET } from "./parquet-files";

const bytes = (text: string): ArrayBuffer => Uint8Array.from(atob(text), (one) => one.charCodeAt(0)).buffer;

test.each(["snappy", "zstd"])("a file packed by %s is read with dates, large numbers, lists and empty cells", async (codec) => {
  const { columns, rows, note } = await parquetTable(bytes(PARQUET[codec]!));
  expect(columns).toEqual(["name", "loss", "n", "day", "box"]);
  expect(rows).toEqual([["cat", 0.5, 1, "2026-01-02", "[1,2]"], ["dog", NaN, 2 ** 40, "2026-01-02", "[]"], [null, 2, 3, "2026-01-02", "[3]"]]);
  expect(note).toBe("");
});

test("a codec that the page has no code for is named, and so is a file of another kind", async () => {
  await expect(parquetTable(bytes(PARQUET.gzip!))).rejects.toThrow("its columns are packed by GZIP; the page reads SNAPPY, ZSTD and unpacked ones");
  await expect(parquetTable(new TextEncoder().encode("no parquet at all").buffer)).rejects.toThrow();
});
