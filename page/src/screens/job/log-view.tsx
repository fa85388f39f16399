/** The lines of a log on the screen: only as many elements as fit on it, and a reader's place as lines come above and below. */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { useKey } from "../../keys";
import { pieces, plain } from "../../parts/ansi";
import { setQuery } from "../../router";
import type { Hit } from "./log-hits";
import { levelOf } from "./log-levels";
import { addressOf, placeOf, type LogLine } from "./log-lines";
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
  lines: LogLine[]; target: number; aim: Aim; isLive: boolean; text: string; hasRanks: boolean; width: number; older: LogSource;
  epoch: number;
}

export function LogView({ lines, target, aim, isLive, text, hasRanks, width, older, epoch }: ViewProps) {
  const box = useRef<HTMLDivElement>(null);
  const isFollowing = useRef(target < 0);
  const drawn = Math.min(lines.length * LINE_PX, MAX_PX);
  // What the view will have is known before it is laid out: the lines at the end are drawn at once, not behind the first.
  const [height, setHeight] = useState(() => Math.max(innerHeight - AROUND_PX, LEAST_PX) - BORDERS_PX);
  const [top, setTop] = useState(() => (target < 0 ? Math.max(0, drawn + PADDING_PX - height) : 0));
  const stretch = Math.max(1, (lines.length * LINE_PX - height) / Math.max(drawn - height, 1));
  const before = useRef({ epoch, lines, stretch });
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
    };
    measure();
    const watch = new ResizeObserver(measure);
    watch.observe(element);
    watch.observe(document.body);
    return () => watch.disconnect();
  }, []);
  // A follower at the end stays there; one that has scrolled up keeps their first line, also when older lines come above.
  useLayoutEffect(() => {
    const was = before.current;
    if (isFollowing.current) moveTo(box.current!.scrollHeight);
    else if (was.epoch !== epoch || was.stretch !== stretch) {
      const n = Math.min(Math.max(0, Math.floor((place.current * was.stretch - PADDING_PX / 2) / LINE_PX)), was.lines.length - 1);
      const now = was.epoch === epoch ? n : Math.max(0, placeOf(lines, addressOf(was.lines[n]!)));
      moveTo((place.current * was.stretch + (now - n) * LINE_PX) / stretch);
    }
  }, [lines.length, epoch, height]);
  useLayoutEffect(() => {
    before.current = { epoch, lines, stretch };
  });
  useLayoutEffect(() => {
    if (target < 0 || (typeof aim === "object" && !aim?.isAsked)) return;
    isFollowing.current = false;
    moveTo(Math.max(0, (target * LINE_PX - box.current!.clientHeight / 2) / stretch));
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
  const to = Math.min(lines.length, Math.ceil((top * stretch + height) / LINE_PX) + SPARE);
  return (
    <div class="log-frame">
      {hasRanks && <p class="log-head" aria-hidden="true">rank</p>}
      <div class="log machine" ref={box} onScroll={scrolled} tabIndex={0} role="log" aria-label="Log" aria-live="off">
        <div class="log-all" style={{ height: `${drawn}px` }}>
          <div class="log-window" style={{ transform: `translateY(${from * LINE_PX - top * (stretch - 1)}px)` }}>
            {lines.slice(from, to).map((line, n) => (
              <Line key={from + n} line={line} isMarked={from + n === target} text={text} hasRank={hasRanks} width={width} />
            ))}
          </div>
        </div>
      </div>
      {!isFollowing.current && <button type="button" class="to-end" onClick={toEnd}>{isLive ? "Follow ↓" : "End ↓"}</button>}
    </div>
  );
}

function Line({ line, isMarked, text, hasRank, width }: {
  line: LogLine; isMarked: boolean; text: string; hasRank: boolean; width: number;
}) {
  const name = line.rank < 0 ? `node ${line.node}` : String(line.rank).padStart(width);
  const level = levelOf(line.text);
  return (
    <div class={`line${isMarked ? " marked" : ""}${level === "error" ? " bad" : level === "warning" ? " warned" : ""}`}>
      <button type="button" class={`line-rank hue-${line.rank < 0 ? "n" : line.rank % 6}`} tabIndex={-1}
        title="The address of this line" onClick={() => setQuery({ at: addressOf(line) }, false)}>
        {hasRank || line.rank < 0 ? name : "#"}
      </button>
      <span class="line-text">{text ? <Found text={plain(line.text)} wanted={text} /> : pieces(line.text).map((piece, n) => <span key={n} class={piece.class}>{piece.text}</span>)}</span>
    </div>
  );
}

function Found({ text, wanted }: { text: string; wanted: string }) {
  const at = text.toLowerCase().indexOf(wanted.toLowerCase());
  if (at < 0) return <>{text}</>;
  return <>{text.slice(0, at)}<mark>{text.slice(at, at + wanted.length)}</mark>{text.slice(at + wanted.length)}</>;
}
