/** The table itself. Only the rows that can be seen are drawn: it stays quick with thousands of runs and many columns. */

import { Component } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { counted, duration, exact, number, whole } from "../../format";
import { useKey } from "../../keys";
import { shownState, StateWord } from "../../parts/job-state";
import { jobHref } from "../../router";
import type { RunCell, RunColumn, RunRow } from "../../types";
import { spreadOf, type Group } from "./run-order";
import { isNumber, type SortKey } from "./run-query";

const ROW = 32;
/** Pixels of a row; the styles have the same. */
const BEYOND = 8;
/** Rows that are drawn above and below those that can be seen. */
const DEVIATION = 9;
/** Characters of a deviation beside a mean. */
const [CHARACTER, MIN_WIDTH, MAX_WIDTH, MEASURED] = [7.4, 84, 280, 200];

type Item = { run: RunRow; group?: undefined } | { group: Group; key: string; run?: undefined };

export interface TableProps {
  runs: RunRow[]; groups: Group[] | undefined; columns: RunColumn[]; sort: SortKey[];
  order: (column: RunColumn, isAdded: boolean) => void;
  selected: ReadonlySet<string>; select: (names: string[], isSelected: boolean) => void;
}

export function RunTable({ runs, groups, columns, sort, order, selected, select }: TableProps) {
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const items = useMemo<Item[]>(() => groups === undefined ? runs.map((run) => ({ run }))
    : groups.flatMap((group): Item[] => {
      const key = String(group.value);
      return [{ group, key }, ...(open.has(key) ? group.runs.map((run): Item => ({ run })) : [])];
    }), [runs, groups, open]);
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 800 });
  const first = Math.max(0, Math.floor(view.top / ROW) - BEYOND);
  const end = Math.min(items.length, Math.ceil((view.top + view.height) / ROW) + BEYOND);
  const look = () => box.current && setView((before) => {
    const { scrollTop: top, clientHeight: height } = box.current!;
    return before.top === top && before.height === height ? before : { top, height };
  });
  useEffect(() => {
    look();
    const watch = new ResizeObserver(look);
    watch.observe(box.current!);
    return () => watch.disconnect();
  }, []);
  const widths = useMemo(() => columns.map((column, n) => widthOf(column, n, runs, groups !== undefined)), [columns, runs, groups]);
  const right = useMemo(() => columns.map((column, n) => isNumber(column.unit) || runs.slice(0, MEASURED).some((run) => typeof run.values[n] === "number")), [columns, runs]);
  const names = useMemo(() => items.flatMap((item) => (item.run ? [item.run.job] : [])), [items]);
  const last = useRef<string>(undefined);
  const toggle = (name: string, isRange: boolean) => {
    const [from, to] = [last.current === undefined ? -1 : names.indexOf(last.current), names.indexOf(name)];
    select(isRange && from >= 0 ? names.slice(Math.min(from, to), Math.max(from, to) + 1) : [name], !selected.has(name));
    last.current = name;
  };
  useRowKeys(box, items, toggle);
  const chosen = runs.reduce((count, run) => count + Number(selected.has(run.job)), 0);
  return (
    <div class="run-scroll" ref={box} tabIndex={0} role="region" aria-label="Runs" onScroll={look}>
      <table class="run-table" aria-rowcount={items.length + 1} style={{ width: `${34 + 210 + widths.reduce((sum, one) => sum + one, 0)}px` }}>
        <colgroup><col style={{ width: "34px" }} /><col style={{ width: "210px" }} />{widths.map((width, n) => <col key={n} style={{ width: `${width}px` }} />)}</colgroup>
        <thead>
          <tr aria-rowindex={1}>
            <th scope="col" class="col-check">
              <input type="checkbox" aria-label="Select all runs" checked={chosen > 0 && chosen === runs.length}
                ref={(input) => mark(input, chosen > 0 && chosen < runs.length)}
                onChange={() => select(runs.map((run) => run.job), chosen < runs.length)} />
            </th>
            <th scope="col" class="col-name">{groups ? "Group, runs" : "Run"}</th>
            {columns.map((column, n) => <Head key={column.field} column={column} sort={sort} order={order} isRight={right[n]!} />)}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <tr class="beyond" aria-hidden="true"><td colSpan={columns.length + 2} style={{ height: `${first * ROW}px` }} /></tr>}
          {items.slice(first, end).map((item, n) => item.run
            ? <Row key={item.run.job} index={first + n + 2} run={item.run} columns={columns} isSelected={selected.has(item.run.job)} toggle={toggle} isWithin={groups !== undefined} />
            : <GroupRow key={`group ${item.key}`} index={first + n + 2} group={item.group} columns={columns} isOpen={open.has(item.key)} selected={selected} select={select}
                toggle={() => setOpen((before) => {
                  const all = new Set(before);
                  if (!all.delete(item.key)) all.add(item.key);
                  return all;
                })} />)}
          {end < items.length && <tr class="beyond" aria-hidden="true"><td colSpan={columns.length + 2} style={{ height: `${(items.length - end) * ROW}px` }} /></tr>}
        </tbody>
      </table>
    </div>
  );
}

function mark(input: HTMLInputElement | null, isPart: boolean): void {
  if (input) input.indeterminate = isPart;
}

function Head({ column, sort, order, isRight }: { column: RunColumn; sort: SortKey[]; order: TableProps["order"]; isRight: boolean }) {
  const at = sort.findIndex((key) => key.field === column.field);
  const key = sort[at];
  return (
    <th scope="col" class={isRight ? "right" : ""} aria-sort={at === 0 ? (key!.descends ? "descending" : "ascending") : undefined}>
      <button type="button" class="as-link" title={`${column.field} — click sorts, Shift and click sorts by it after the others`}
        onClick={(event) => order(column, event.shiftKey)}>
        <span class="head-name">{column.field}</span>
        {key && <span class="head-mark">{key.descends ? "↓" : "↑"}{sort.length > 1 && <span class="number">{at + 1}</span>}<span class="hidden">{key.descends ? "descending" : "ascending"}</span></span>}
      </button>
    </th>
  );
}

interface RowProps { index: number; run: RunRow; columns: RunColumn[]; isSelected: boolean; isWithin: boolean; toggle: (name: string, isRange: boolean) => void }

/** Drawn again only when its own run changes: while the table scrolls, the rows that stay are left as they are. */
class Row extends Component<RowProps> {
  override shouldComponentUpdate(next: RowProps): boolean {
    const now = this.props;
    return next.run !== now.run || next.columns !== now.columns || next.isSelected !== now.isSelected || next.index !== now.index || next.isWithin !== now.isWithin;
  }

  override render() {
    const { index, run, columns, isSelected, isWithin } = this.props;
    return (
      <tr aria-rowindex={index} class={isSelected ? "selected" : ""}>
        <td class="col-check">
          <input type="checkbox" checked={isSelected} aria-label={`Select ${run.job}`}
            onClick={(event) => {
              event.preventDefault();
              // After the click the browser puts the box back to what it was, and then it is drawn.
              const isRange = event.shiftKey;
              setTimeout(() => this.props.toggle(run.job, isRange));
            }} />
        </td>
        <th scope="row" class={`col-name${isWithin ? " within" : ""}`}>
          <a class="row-link" href={jobHref(run.job)} title={run.title === run.job ? run.job : `${run.title} · ${run.job}`}>{run.title}</a>
          {run.is_archived && <span class="tag">archived</span>}
        </th>
        {columns.map((column, n) => <Cell key={column.field} column={column} value={run.values[n] ?? null} run={run} />)}
      </tr>
    );
  }
}

function Cell({ column, value, run }: { column: RunColumn; value: RunCell; run: RunRow }) {
  if (value === null) return <td class={`muted${isNumber(column.unit) ? " right" : ""}`}>–</td>;
  if (column.field === "state") return <td><StateWord state={shownState(run)} /></td>;
  const text = textOf(column, value);
  return <td class={isNumber(column.unit) || typeof value === "number" ? "right number" : ""} title={typeof value === "number" ? String(value) : text}>{text}</td>;
}

/** A value in words. A date has its seconds in no column: they would only make it wider. */
export function textOf(column: RunColumn, value: RunCell): string {
  if (value === null) return "–";
  if (typeof value === "string") return value;
  if (column.unit === "duration") return duration(value);
  if (column.unit === "time") return exact(value).slice(0, -3);
  return number(value, 5);
}

function GroupRow({ index, group, columns, isOpen, toggle, selected, select }: {
  index: number; group: Group; columns: RunColumn[]; isOpen: boolean; toggle: () => void; selected: ReadonlySet<string>; select: TableProps["select"];
}) {
  const spreads = useMemo(() => columns.map((_, n) => spreadOf(group.runs, n)), [group, columns]);
  const names = group.runs.map((run) => run.job);
  const chosen = names.filter((name) => selected.has(name)).length;
  const title = group.value === null ? "no value" : typeof group.value === "number" ? number(group.value, 5) : group.value;
  return (
    <tr aria-rowindex={index} class="group-row">
      <td class="col-check">
        <input type="checkbox" aria-label={`Select the runs of ${title}`} checked={chosen === names.length}
          ref={(input) => mark(input, chosen > 0 && chosen < names.length)} onChange={() => select(names, chosen < names.length)} />
      </td>
      <th scope="row" class="col-name">
        <button type="button" class="as-link row-link" aria-expanded={isOpen} onClick={toggle}>{isOpen ? "▾" : "▸"} {title}</button>
        <span class="muted"> {counted(names.length, "run")}</span>
      </th>
      {columns.map((column, n) => {
        const { common, mean, deviation, count } = spreads[n]!;
        const isPlain = common !== null || !count || column.unit === "time" || column.field === "state";
        const text = isPlain ? (common === null ? "" : textOf(column, common)) : `${textOf(column, mean)}${deviation === undefined ? "" : ` ± ${column.unit === "duration" ? textOf(column, deviation) : number(deviation, 2)}`}`;
        return <td key={column.field} class={isNumber(column.unit) || !isPlain || typeof common === "number" ? "right number" : ""} title={isPlain ? text : `${text}: mean of ${whole(count)}, ± standard deviation`}>{text}</td>;
      })}
    </tr>
  );
}

/** The width of a column by its longest text among the first rows. */
function widthOf(column: RunColumn, n: number, runs: RunRow[], hasGroups: boolean): number {
  if (column.field === "state") return 124;
  const longest = runs.slice(0, MEASURED).reduce((most, run) => Math.max(most, textOf(column, run.values[n] ?? null).length), column.field.length + 2);
  const deviation = hasGroups && runs.some((run) => typeof run.values[n] === "number") ? DEVIATION : 0;
  return Math.round(Math.min(Math.max((longest + deviation) * CHARACTER + 22, MIN_WIDTH), MAX_WIDTH));
}

/** j and k go from row to row, also to those that aren't drawn yet; x selects. */
function useRowKeys(box: { current: HTMLDivElement | null }, items: Item[], toggle: (name: string, isRange: boolean) => void): void {
  const current = () => {
    const row = document.activeElement?.closest<HTMLElement>(".run-table tbody tr[aria-rowindex]");
    return row ? Number(row.getAttribute("aria-rowindex")) - 2 : -1;
  };
  const step = (by: number) => {
    const before = current();
    const at = before < 0 ? Math.ceil((box.current?.scrollTop ?? 0) / ROW) : Math.min(Math.max(before + by, 0), items.length - 1);
    const { scrollTop = 0, clientHeight = 0 } = box.current ?? {};
    const height = clientHeight - ROW;
    if (box.current && at * ROW < scrollTop) box.current.scrollTop = at * ROW;
    else if (box.current && (at + 1) * ROW > scrollTop + height) box.current.scrollTop = (at + 1) * ROW - height;
    const focus = (tries: number) => {
      const link = box.current?.querySelector<HTMLElement>(`tr[aria-rowindex="${at + 2}"] .row-link`);
      if (link) link.focus({ preventScroll: true });
      else if (tries) requestAnimationFrame(() => focus(tries - 1));
    };
    focus(10);
  };
  useKey("j", "The next run", () => step(1));
  useKey("k", "The run before", () => step(-1));
  useKey("x", "Select the run", () => {
    const item = items[current()];
    if (item?.run) toggle(item.run.job, false);
  });
  useKey("X", "Select all runs from the last selected one", () => {
    const item = items[current()];
    if (item?.run) toggle(item.run.job, true);
  });
}
