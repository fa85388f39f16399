/** Parquet files as tables. */

import { decompress } from "fzstd";
import { parquetMetadataAsync, parquetRead } from "hyparquet";
import { cellOf, type TableData } from "./table-data";

const MAX_ROWS = 1_000_000;

/** Throws an error with a sentence where the file isn't one, or is packed by what isn't known. */
export async function parquetTable(file: ArrayBuffer): Promise<TableData> {
  const metadata = await parquetMetadataAsync(file);
  const count = Number(metadata.num_rows);
  const codecs = new Set(metadata.row_groups.flatMap((group) => group.columns.map((one) => one.meta_data?.codec ?? "UNCOMPRESSED")));
  const unknown = [...codecs].find((one) => !["UNCOMPRESSED", "SNAPPY", "ZSTD"].includes(one));
  if (unknown) throw new Error(`its columns are packed by ${unknown}; the page reads SNAPPY, ZSTD and unpacked ones`);
  let rows: unknown[][] = [];
  await parquetRead({
    file, metadata, rowEnd: Math.min(count, MAX_ROWS), compressors: { ZSTD: (packed, length) => decompress(packed, new Uint8Array(length)) },
    onComplete: (all: unknown[][]) => (rows = all),
  });
  return { columns: topNames(metadata.schema), rows: rows.map((row) => row.map(cellOf)), note: count > MAX_ROWS ? `the first ${MAX_ROWS.toLocaleString("en")} rows` : "" };
}

/** The names of the columns: the children of the schema's root, whose own children follow each. */
function topNames(schema: { name: string; num_children?: number }[]): string[] {
  const names: string[] = [];
  let place = 1;
  const skip = (): void => {
    const children = schema[place]?.num_children ?? 0;
    place += 1;
    for (let n = 0; n < children; n += 1) skip();
  };
  while (place < schema.length) {
    names.push(schema[place]!.name);
    skip();
  }
  return names;
}
