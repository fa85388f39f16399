/** A table of any length: the rows in view are drawn, and all of them are sorted and filtered. */

import { useMemo, useRef, useState } from "preact/hooks";
import { counted, number, whole } from "../../format";
import { filtered, sorted, textOf, type Cell, type TableData } from "./table-data";

const ROW_PX = 29;
const BEYOND = 8;
const MAX_COLUMNS = 100;
const MAX_TEXT = 300;
const HEIGHT_PX = 420;

export function DataTable({ data, label }: { data: TableData; label: string }) {
  const [words, setWords] = useState("");
  const [order, setOrder] = useState<{ column: number; isDescending: boolean }>();
  const [top, setTop] = useState(0);
  const box = useRef<HTMLDivElement>(null);
  const fitting = useMemo(() => filtered(data, words), [data, words]);
  const rows = useMemo(() => (order ? sorted(data, fitting, order.column, order.isDescending) : fitting), [data, fitting, order]);
  const columns = data.columns.slice(0, MAX_COLUMNS);
  const numeric = useMemo(() => columns.map((_, n) => data.rows.slice(0, 50).every((row) => row[n] === null || row[n] === "" || !Number.isNaN(Number(row[n])))), [data]);
  const first = Math.max(0, Math.floor(top / ROW_PX) - BEYOND);
  const last = Math.min(rows.length, Math.ceil((top + HEIGHT_PX) / ROW_PX) + BEYOND);
  const sortBy = (column: number) => {
    setOrder((before) => (before?.column !== column ? { column, isDescending: false } : before.isDescending ? undefined : { column, isDescending: true }));
    if (box.current) box.current.scrollTop = 0;
  };
  const said = [
    fitting.length < data.rows.length ? `${whole(fitting.length)} of ${counted(data.rows.length, "row")}` : counted(data.rows.length, "row"),
    data.note,
    data.columns.length > MAX_COLUMNS ? `the first ${MAX_COLUMNS} of ${data.columns.length} columns` : "",
  ].filter(Boolean);
  return (
    <div class="data-table">
      <div class="filters">
        <input type="search" aria-label={`Filter the rows of ${label}`} placeholder="Filter: cat loss<0.5" value={words}
          onInput={(event) => {
            setWords(event.currentTarget.value);
            if (box.current) box.current.scrollTop = 0;
          }} />
        <span class="muted" role="status">{said.join(", ")}</span>
      </div>
      <div ref={box} class="scroll data-rows" style={{ maxHeight: `${HEIGHT_PX}px` }} tabIndex={0} role="region" aria-label={`Rows of ${label}`}
        onScroll={(event) => setTop(event.currentTarget.scrollTop)}>
        <table class="plain" aria-rowcount={rows.length + 1}>
          <thead>
            <tr>
              {columns.map((name, n) => (
                <th key={n} scope="col" class={numeric[n] ? "right" : ""} aria-sort={order?.column === n ? (order.isDescending ? "descending" : "ascending") : "none"}>
                  <button type="button" class="quiet" onClick={() => sortBy(n)}>{name || "–"}{order?.column === n ? (order.isDescending ? " ↓" : " ↑") : ""}</button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {first > 0 && <tr aria-hidden="true" class="beyond"><td colSpan={columns.length} style={{ height: `${first * ROW_PX}px` }} /></tr>}
            {rows.slice(first, last).map((n, place) => (
              <tr key={n} aria-rowindex={first + place + 2} style={{ height: `${ROW_PX}px` }}>
                {columns.map((_, column) => <ShownCell key={column} cell={data.rows[n]![column]} isNumber={numeric[column]!} />)}
              </tr>
            ))}
            {last < rows.length && <tr aria-hidden="true" class="beyond"><td colSpan={columns.length} style={{ height: `${(rows.length - last) * ROW_PX}px` }} /></tr>}
          </tbody>
        </table>
      </div>
    </div>
  );
}

function ShownCell({ cell, isNumber }: { cell: Cell | undefined; isNumber: boolean }) {
  const text = textOf(cell);
  const shown = typeof cell === "number" ? number(cell, 6) : text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text;
  return <td class={isNumber ? "right number" : ""} title={text.length > 24 || shown !== text ? text.slice(0, 4000) : undefined}>{shown}</td>;
}
