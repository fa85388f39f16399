/** The lines of a log on the screen: only as many elements as fit on it, and a reader's place as lines come above and below. */

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { clock, duration, exact } from "../../format";
import { useKey } from "../../keys";
import { cut, linked, pieces, plain } from "../../parts/ansi";
import { setQuery } from "../../router";
import type { Hit } from "./log-hits";
import { levelOf } from "./log-levels";
import { addressOf, placeOf, type LogLine } from "./log-lines";
import type { Pattern } from "./log-pattern";
import { linesAsRows, WrappedRows } from "./log-rows";
import type { LogSource } from "./log-source";

const LINE_PX = 18;
const MAX_PX = 16e6;
/** A browser makes no element higher than this: in a longer log, a pixel of scrolling is more than a pixel of the log. */
const [AROUND_PX, LEAST_PX, BORDERS_PX, PADDING_PX] = [330, 200, 2, 12];
/** Of the view, as its style has them. */
const BELOW_PX = 16;
/** What stays free below the view: its last line is seen without scrolling the page. */
const SPARE = 20;
/** Lines above and below the visible ones. */

/** As many lines as fill the view, however high its window becomes, and can be scrolled. */
export const screenful = (): number => Math.ceil(Math.max(screen.height, innerHeight) / LINE_PX) + SPARE;

/** Why the view goes to a line: an address, or a line that was found. It goes there again only with another one. */
type Aim = Hit | string | null;

interface ViewProps {
  lines: LogLine[]; target: number; aim: Aim; isLive: boolean; pattern: Pattern | undefined; hasRanks: boolean; width: number; older: LogSource;
  epoch: number; isWrapped: boolean;
  /** `clock`, `since` or "". start: of the job, in seconds. */
  times: string; start: number;
}

/** Characters that the address and the time of a line take, as their styles have them. */
const HEAD = { rank: 5, times: 11 };
const MIN_COLUMNS = 20;

/** How many characters of a line fit beside each other. */
function columnsOf(box: HTMLElement, width: number, hasTimes: boolean): number {
  const context = document.createElement("canvas").getContext("2d")!;
  context.font = getComputedStyle(box).font;
  const character = context.measureText("0".repeat(100)).width / 100;
  const free = Math.floor((box.clientWidth - 30) / character) - HEAD.rank - width - (hasTimes ? HEAD.times : 0);
  return Math.max(MIN_COLUMNS, free);
}

export function LogView({ lines, target, aim, isLive, pattern, hasRanks, width, older, epoch, isWrapped, times, start }: ViewProps) {
  const box = useRef<HTMLDivElement>(null);
  const isFollowing = useRef(target < 0);
  const [columns, setColumns] = useState(120);
  const wrapped = useMemo(() => (isWrapped ? new WrappedRows(lines, columns) : undefined), [isWrapped, lines, columns]);
  const rows = wrapped?.update() ?? linesAsRows(lines);
  const drawn = Math.min(rows.length * LINE_PX, MAX_PX);
  // What the view will have is known before it is laid out: the lines at the end are drawn at once, not behind the first.
  const [height, setHeight] = useState(() => Math.max(innerHeight - AROUND_PX, LEAST_PX) - BORDERS_PX);
  const [top, setTop] = useState(() => (target < 0 ? Math.max(0, drawn + PADDING_PX - height) : 0));
  const stretch = Math.max(1, (rows.length * LINE_PX - height) / Math.max(drawn - height, 1));
  const before = useRef({ epoch, lines, stretch, rows });
  const place = useRef(0);
  // A browser rounds it: in a long log, that is lines after many arrivals.
  const reached = (px: number) => {
    const real = box.current!.scrollTop;
    place.current = Math.abs(real - px) < 1 ? px : real;
  };
  const moveTo = (px: number) => {
    box.current!.scrollTop = px;
    reached(px);
  };

  useLayoutEffect(() => {
    const element = box.current!;
    const measure = () => {
      // The box above may have become higher or lower: the view takes what is left of the window.
      const above = `${Math.round(element.getBoundingClientRect().top + scrollY) + BELOW_PX}px`;
      if (element.style.getPropertyValue("--above") !== above) element.style.setProperty("--above", above);
      setHeight(element.clientHeight);
      setColumns(columnsOf(element, hasRanks ? width : 0, times !== ""));
    };
    measure();
    const watch = new ResizeObserver(measure);
    watch.observe(element);
    watch.observe(document.body);
    return () => watch.disconnect();
  }, [hasRanks, width, times !== ""]);
  // A follower at the end stays there; one that has scrolled up keeps their first line, also when older lines come above.
  useLayoutEffect(() => {
    const was = before.current;
    const isOtherWrap = isWrapped !== was.rows instanceof WrappedRows;
    if (isFollowing.current) moveTo(box.current!.scrollHeight);
    else if (was.epoch !== epoch || was.stretch !== stretch || isOtherWrap) {
      const row = Math.min(Math.max(0, Math.floor((place.current * was.stretch - PADDING_PX / 2) / LINE_PX)), was.rows.length - 1);
      const n = was.rows.lineOf(row);
      const line = was.epoch === epoch ? n : Math.max(0, placeOf(lines, addressOf(was.lines[n]!)));
      const now = isOtherWrap ? rows.rowOf(line) : rows.rowOf(line) + row - was.rows.rowOf(n);
      moveTo((place.current * was.stretch + (now - row) * LINE_PX) / stretch);
    }
  }, [rows.length, epoch, height, isWrapped]);
  useLayoutEffect(() => {
    before.current = { epoch, lines, stretch, rows };
  });
  useLayoutEffect(() => {
    if (target < 0 || (typeof aim === "object" && !aim?.isAsked)) return;
    isFollowing.current = false;
    moveTo(Math.max(0, (rows.rowOf(target) * LINE_PX - box.current!.clientHeight / 2) / stretch));
  }, [aim, target >= 0]);
  // No event comes of a place that can't be scrolled any higher.
  const isAtTop = () => place.current < LINE_PX * 5 && !isFollowing.current;
  useEffect(() => {
    if (isAtTop()) void older.seek();
  }, [epoch]);

  const scrolled = () => {
    const element = box.current!;
    reached(place.current);
    setTop(element.scrollTop);
    isFollowing.current = element.scrollHeight - element.scrollTop - element.clientHeight < LINE_PX * 2;
    if (isAtTop()) void older.earlier();
  };
  const toEnd = () => {
    isFollowing.current = true;
    box.current!.scrollTop = box.current!.scrollHeight;
    setQuery({ at: "" });
  };
  useKey("G", "The end of the log", toEnd);
  const from = Math.max(0, Math.floor((top * stretch) / LINE_PX) - SPARE);
  const to = Math.min(rows.length, Math.ceil((top * stretch + height) / LINE_PX) + SPARE);
  return (
    <div class="log-frame">
      {hasRanks && <p class="log-head" aria-hidden="true">rank</p>}
      <div class="log machine" ref={box} onScroll={scrolled} tabIndex={0} role="log" aria-label="Log" aria-live="off">
        <div class="log-all" style={{ height: `${drawn}px` }}>
          <div class="log-window" style={{ transform: `translateY(${from * LINE_PX - top * (stretch - 1)}px)` }}>
            {Array.from({ length: Math.max(0, to - from) }, (_, n) => {
              const place = rows.lineOf(from + n);
              const time = times && lines[place]!.at ? timeOf(lines[place]!.at, times, start) : "";
              return <Line key={from + n} line={lines[place]!} part={rows.partOf(from + n)} isMarked={place === target} pattern={pattern} hasRank={hasRanks} width={width} time={time} hasTimes={times !== ""} />;
            })}
          </div>
        </div>
      </div>
      {!isFollowing.current && <button type="button" class="to-end" onClick={toEnd}>{isLive ? "Follow ↓" : "End ↓"}</button>}
    </div>
  );
}

/** The time of a line: of the day, or since the job's start. */
const timeOf = (at: number, times: string, start: number): string => (times === "since" ? `+${duration(Math.max(0, at - start))}` : clock(at * 1000));

function Line({ line, part, isMarked, pattern, hasRank, width, time, hasTimes }: {
  line: LogLine; part: [number, number] | undefined; isMarked: boolean; pattern: Pattern | undefined; hasRank: boolean; width: number; time: string; hasTimes: boolean;
}) {
  const name = line.rank < 0 ? `node ${line.node}` : String(line.rank).padStart(width);
  const level = levelOf(line.text);
  const isRest = part !== undefined && part[0] > 0;
  // An address that goes on in the next row would be cut.
  const isPart = part !== undefined && (isRest || line.text.length > part[1]);
  const head = hasRank || line.rank < 0 ? name : "#";
  return (
    <div class={`line${isMarked ? " marked" : ""}${level === "error" ? " bad" : level === "warning" ? " warned" : ""}`}>
      <button type="button" class={`line-rank hue-${line.rank < 0 ? "n" : line.rank % 6}`} tabIndex={-1}
        title="The address of this line" onClick={() => setQuery({ at: addressOf(line) }, false)}>
        {isRest ? " ".repeat(head.length) : head}
      </button>
      {hasTimes && <span class="line-time" title={line.at ? `received at ${exact(line.at * 1000)}` : undefined}>{isRest ? "" : time}</span>}
      <span class="line-text">{pattern ? <Found text={plain(line.text)} part={part} pattern={pattern} /> : shownPieces(line.text, part).map((piece, n) => <span key={n} class={piece.class}>{isPart ? piece.text : linked(piece.text)}</span>)}</span>
    </div>
  );
}

const shownPieces = (text: string, part: [number, number] | undefined) => (part ? cut(pieces(text), part) : pieces(text));

/** A line with its first match marked, of which a wrapped row may have a part. */
function Found({ text, part, pattern }: { text: string; part: [number, number] | undefined; pattern: Pattern }) {
  const [from, to] = part ?? [0, text.length];
  const found = pattern.spanOf(text);
  if (!found || found[1] <= from || found[0] >= to) return <>{text.slice(from, to)}</>;
  const [begin, end] = [Math.max(from, found[0]), Math.min(to, found[1])];
  return <>{text.slice(from, begin)}<mark>{text.slice(begin, end)}</mark>{text.slice(end, to)}</>;
}
