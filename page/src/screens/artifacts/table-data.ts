/** Tables in files: read into rows of cells, sorted and filtered. */

export type Cell = string | number | boolean | null;
export interface TableData {
  columns: string[];
  rows: Cell[][];
  /** What of the file is left out, "" = nothing. */
  note: string;
}

export const MAX_TABLE = 64 << 20;
const MAX_ROWS = 1_000_000;
const SLICE = 1 << 18;
/** Characters that are read before the page gets its turn. */

const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve));

/** Reads a text of separated values piece by piece, so that the page stays quick. isCut: whether its last row may be half. */
export async function separated(text: string, separator: "," | "\t", isCut = false): Promise<TableData> {
  const rows: Cell[][] = [];
  let [row, place, slice] = [[] as Cell[], 0, SLICE];
  const endRow = (): void => {
    if (row.length > 1 || row[0] !== "") rows.push(row);
    row = [];
  };
  const endOfField = (from: number): number => {
    let to = from;
    while (to < text.length && text[to] !== separator && text[to] !== "\n") to += 1;
    return to;
  };
  while (place < text.length && rows.length <= MAX_ROWS) {
    if (place >= slice) {
      slice = place + SLICE;
      await turn();
    }
    const [within, from] = text[place] === '"' ? quoted(text, place + 1) : ["", place];
    const to = endOfField(from);
    row.push(within + text.slice(from, text[to - 1] === "\r" && to > from ? to - 1 : to));
    if (text[to] === separator && to + 1 === text.length) row.push("");
    if (text[to] !== separator || to + 1 === text.length) endRow();
    place = to + 1;
  }
  if (isCut && place >= text.length && !text.endsWith("\n")) rows.pop();
  const [head = [], ...rest] = rows;
  return { columns: head.map(String), rows: rest, note: place < text.length ? `the first ${MAX_ROWS.toLocaleString("en")} rows` : "" };
}

/** A field in quotes, and the place behind them. */
function quoted(text: string, from: number): [string, number] {
  let [field, at] = ["", from];
  for (;;) {
    const to = text.indexOf('"', at);
    if (to < 0) return [field + text.slice(at), text.length];
    field += text.slice(at, to);
    if (text[to + 1] !== '"') return [field, to + 1];
    field += '"';
    at = to + 2;
  }
}

/** The table that JSON holds: of MLflow's `log_table` and pandas' `split`, a list of records, or columns; undefined = none. */
export function tableInJson(value: unknown): TableData | undefined {
  const note = "";
  if (Array.isArray(value)) {
    const records = value.filter((one): one is Record<string, unknown> => typeof one === "object" && one !== null && !Array.isArray(one));
    if (!records.length || records.length < value.length) return undefined;
    const columns = [...new Set(records.slice(0, 1000).flatMap(Object.keys))];
    return { columns, rows: records.map((record) => columns.map((column) => cellOf(record[column]))), note };
  }
  if (typeof value !== "object" || value === null) return undefined;
  const { columns, data } = value as { columns?: unknown; data?: unknown };
  if (Array.isArray(columns) && Array.isArray(data) && data.every(Array.isArray)) {
    return { columns: columns.map(String), rows: data.map((row: unknown[]) => columns.map((_, n) => cellOf(row[n]))), note };
  }
  return undefined;
}

/** A value as a cell: what is neither number nor text is written as JSON. */
export function cellOf(value: unknown): Cell {
  if (value === undefined || value === null) return null;
  if (typeof value === "string" || typeof value === "number" || typeof value === "boolean") return value;
  if (typeof value === "bigint") return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString().replace(/T00:00:00\.000Z$/, "");
  if (value instanceof Uint8Array) return `${value.length} bytes`;
  return JSON.stringify(value, (_, one) => (typeof one === "bigint" ? cellOf(one) : one));
}

export const textOf = (cell: Cell | undefined): string => (cell === null || cell === undefined ? "" : String(cell));

const numberOf = (cell: Cell | undefined): number => (typeof cell === "number" ? cell : typeof cell === "string" && cell.trim() ? Number(cell) : NaN);

const CONDITION = /^(.+?)(<=|>=|!=|=|<|>)(.*)$/;

/** The numbers of the rows that fit: every word is in one of the cells, or is a condition on a column like `loss<0.5` or `name=cat`. */
export function filtered({ columns, rows }: TableData, words: string): number[] {
  const tests = words.split(/\s+/).filter(Boolean).map((word) => {
    const [, name = "", sign = "", value = ""] = CONDITION.exec(word) ?? [];
    const column = columns.findIndex((one) => one.toLowerCase() === name.toLowerCase());
    if (column >= 0) return (row: Cell[]) => fits(row[column], sign, value);
    const lower = word.toLowerCase();
    return (row: Cell[]) => row.some((cell) => textOf(cell).toLowerCase().includes(lower));
  });
  const found: number[] = [];
  rows.forEach((row, n) => tests.every((test) => test(row)) && found.push(n));
  return found;
}

function fits(cell: Cell | undefined, sign: string, value: string): boolean {
  const [one, other] = [numberOf(cell), Number(value)];
  const areNumbers = !Number.isNaN(one) && !Number.isNaN(other) && value !== "";
  const isEqual = areNumbers ? one === other : textOf(cell) === value;
  if (sign === "=") return isEqual;
  if (sign === "!=") return !isEqual;
  if (!areNumbers) return false;
  return sign === "<" ? one < other : sign === "<=" ? one <= other : sign === ">" ? one > other : one >= other;
}

/** The rows in the order of a column: numbers by size before texts, empty cells last in both directions. */
export function sorted({ rows }: TableData, numbers: number[], column: number, isDescending: boolean): number[] {
  const direction = isDescending ? -1 : 1;
  const [sized, texts, empty]: [number[], number[], number[]] = [[], [], []];
  const values = new Float64Array(rows.length);
  for (const n of numbers) {
    const cell = rows[n]![column];
    values[n] = numberOf(cell);
    if (textOf(cell) === "") empty.push(n);
    else if (Number.isNaN(values[n]!)) texts.push(n);
    else sized.push(n);
  }
  const collator = new Intl.Collator("en", { numeric: true });
  sized.sort((one, other) => direction * (values[one]! - values[other]!) || one - other);
  texts.sort((one, other) => direction * collator.compare(textOf(rows[one]![column]), textOf(rows[other]![column])) || one - other);
  return isDescending ? [...texts, ...sized, ...empty] : [...sized, ...texts, ...empty];
}
