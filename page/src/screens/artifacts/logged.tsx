/** A table or a text that was logged by step. */

import { useEffect, useState } from "preact/hooks";
import { DataTable } from "./data-table";
import { contentOf, jsonOf } from "./kept-files";
import { tableInJson, type TableData } from "./table-data";

/** What a file becomes; what was read before stays until then. */
function useRead<T>(key: string, read: () => Promise<T>): { value?: T; isLost: boolean } {
  const [state, setState] = useState<{ value?: T; isLost: boolean }>({ isLost: false });
  useEffect(() => {
    let isOpen = true;
    read().then((value) => isOpen && setState({ value, isLost: false }), () => isOpen && setState({ isLost: true }));
    return () => void (isOpen = false);
  }, [key]);
  return state;
}

export function LoggedTable({ job, path, label }: { job: string; path: string; label: string }) {
  const { value, isLost } = useRead<TableData | undefined>(`${job} ${path}`, async () => tableInJson(await jsonOf(job, path)));
  if (isLost) return <p class="muted">The table can't be loaded.</p>;
  return value ? <DataTable data={value} label={label} /> : <p class="muted loading">Loading…</p>;
}

export function LoggedText({ job, path }: { job: string; path: string }) {
  const { value, isLost } = useRead(`${job} ${path}`, async () => new TextDecoder().decode(await contentOf(job, path)));
  if (isLost) return <p class="muted">The text can't be loaded.</p>;
  return value === undefined ? <p class="muted loading">Loading…</p> : <pre class="machine block step-text" tabIndex={0}>{value}</pre>;
}
