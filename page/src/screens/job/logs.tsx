/** Live logs of all ranks or of one: search, the failing line, and only as many elements as fit on the screen. */

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { fileAddress } from "../../api";
import { counted, whole } from "../../format";
import { useKey } from "../../keys";
import { pieces, plain } from "../../parts/ansi";
import { Nothing, Refused } from "../../parts/placeholders";
import { ENDED } from "../../parts/job-state";
import { setQuery, usePlace } from "../../router";
import { stream } from "../../stream";
import type { Job, StoryLine } from "../../types";
import { addressOf, failingLine, type LogLine } from "./log-lines";
import { findHits } from "./log-search";
import { Holders } from "./holders";
import { LogSource } from "./log-source";

const LINE_PX = 18;
const MAX_PX = 16e6;
/** A browser makes no element higher than this: in a longer log, a pixel of scrolling is more than a pixel of the log. */
const [AROUND_PX, LEAST_PX, BORDERS_PX, PADDING_PX] = [330, 200, 2, 12];
/** Of the view, as its style has them. */
const BELOW_PX = 16;
/** What stays free below the view: its last line is seen without scrolling the page. */
const MAX_GROWING = 64;
/** Logs whose last line may grow at the same time. */
const SPARE = 20;
/** Lines above and below the visible ones. */

interface Chosen { rank: string; node: string; text: string; at: string }

function useSource(job: string, lines: number): LogSource {
  const [, setTurn] = useState(0);
  const source = useMemo(() => new LogSource(job, () => setTurn((n) => n + 1)), [job]);
  useEffect(() => {
    let follows = false;
    const open = async () => {
      const isOpened = await source.open();
      if (source.isClosed || (follows && !isOpened)) return;
      follows = true;
      // State and story come also where the logs can't be read.
      stream.follow(job, source.position, lines, isOpened);
    };
    void open();
    const unsubscribe = stream.on("again", () => source.forgive() && void open());
    return () => {
      unsubscribe();
      source.close();
      stream.follow("");
    };
  }, [source]);
  return source;
}

export function LogsTab({ job, story }: { job: Job; story: StoryLine[] }) {
  const { query } = usePlace();
  const word = (name: string) => query.get(name) ?? "";
  const chosen: Chosen = { rank: word("rank"), node: word("node"), text: word("search"), at: word("at") };
  const source = useSource(job.name, story.length);
  const shown = useShown(source, chosen);
  const [hit, setHit] = useState(-1);
  const hits = useMemo(() => findHits(shown, chosen.text), [shown, shown.length, chosen.text]);
  // Of another rank there may be fewer.
  const at = Math.min(hit, hits.length - 1);
  const target = useTarget(source, shown, chosen, job, hits[at]);
  const step = (by: number) => hits.length && setHit((at + by + hits.length) % hits.length);
  useEffect(() => setHit(hits.length ? hits.length - 1 : -1), [chosen.text, hits.length > 0]);
  useKey("n", "The next line found", () => step(1));
  useKey("N", "The line found before", () => step(-1));
  if (!source.isLoading && !source.error && shown.length === 0 && !hasStarted(job)) return <Awaited job={job} />;
  return (
    <div class="logs">
      <LogBar job={job} chosen={chosen} source={source} hits={hits.length} hit={at} step={step} />
      {source.error && <Refused error={source.error} />}
      {source.isLoading && shown.length === 0 ? <p class="nothing loading">Loading…</p> : null}
      {!source.isLoading && !source.error && shown.length === 0 ? <NoLines job={job} /> : null}
      {shown.length > 0 && (
        <LogView lines={shown} target={target} isLive={!ENDED.has(job.state)} text={chosen.text} hasRanks={chosen.rank === ""}
          width={String(job.world_size).length} older={source} epoch={source.log.epoch} />
      )}
    </div>
  );
}

function NoLines({ job }: { job: Job }) {
  return <Nothing>{ENDED.has(job.state) ? "It has printed nothing." : "It has printed nothing yet."}</Nothing>;
}

const hasStarted = (job: Job): boolean => job.started_at !== null || ENDED.has(job.state);

/** In place of an empty log, before a job has started: who holds what it waits for. */
function Awaited({ job }: { job: Job }) {
  return (
    <>
      <p class="nothing-yet">It hasn't started: nothing is printed yet.</p>
      {job.state === "queued" && <Holders compute={job.compute} />}
    </>
  );
}

interface Filtered { key: string; seen: number; lines: LogLine[]; at: number[] }

/** The lines of the chosen rank; extended in place while lines arrive. */
function useShown(source: LogSource, chosen: Chosen): LogLine[] {
  const kept = useRef<Filtered>({ key: "", seen: 0, lines: [], at: [] });
  const key = `${chosen.rank} ${chosen.node} ${source.log.epoch}`;
  const all = source.log.lines;
  if (chosen.rank === "") return all;
  if (kept.current.key !== key) kept.current = { key, seen: 0, lines: [], at: [] };
  const memory = kept.current;
  // The last line of a log may have grown since: its place holds the longer one.
  for (let n = Math.max(0, memory.at.length - MAX_GROWING); n < memory.at.length; n += 1) memory.lines[n] = all[memory.at[n]!]!;
  for (let n = memory.seen; n < all.length; n += 1) {
    if (!fits(all[n]!, chosen)) continue;
    memory.lines.push(all[n]!);
    memory.at.push(n);
  }
  memory.seen = all.length;
  return memory.lines;
}

function fits(line: LogLine, chosen: Chosen): boolean {
  if (chosen.rank === "node") return line.rank === -1 && (chosen.node === "" || line.node === Number(chosen.node));
  return line.rank === Number(chosen.rank);
}

/** The line to which the view goes: that of the address, the failing one, or one that was found. */
function useTarget(source: LogSource, shown: LogLine[], chosen: Chosen, job: Job, hit: number | undefined): number {
  const rank = job.verdict?.rank ?? null;
  const isWanted = chosen.at !== "" && !source.isLoading;
  const target = useMemo(() => {
    if (!isWanted) return -1;
    if (chosen.at === "failure") return rank === null ? -1 : failingLine(shown, rank, job.verdict?.tail ?? "");
    return shown.findIndex((line) => addressOf(line) === chosen.at);
  }, [isWanted, chosen.at, source.log.epoch, rank, shown.length > 0, chosen.rank]);
  useEffect(() => {
    if (isWanted && target < 0 && source.first > 0 && !source.error) void source.earlier(true);
  }, [isWanted, target, source.first, source.error]);
  return hit ?? target;
}

function LogBar({ job, chosen, source, hits, hit, step }: {
  job: Job; chosen: Chosen; source: LogSource; hits: number; hit: number; step: (by: number) => void;
}) {
  useKey("/", "Search in the logs", (event) => {
    event.preventDefault();
    document.getElementById("log-search")?.focus();
  });
  const ranks = Array.from({ length: job.world_size }, (_, n) => n);
  return (
    <div class="filters log-bar">
      <label class="select">
        <span class="hidden">Whose log</span>
        <select value={chosen.rank} onChange={(event) => setQuery({ rank: event.currentTarget.value, at: "", node: "" })}>
          <option value="">all ranks</option>
          {ranks.map((rank) => <option key={rank} value={rank}>rank {rank}</option>)}
          <option value="node">the nodes' own</option>
        </select>
      </label>
      <input id="log-search" type="search" placeholder="Search the log" aria-label="Search the log" value={chosen.text}
        onInput={(event) => setQuery({ search: event.currentTarget.value })}
        onKeyDown={(event) => event.key === "Enter" && step(event.shiftKey ? -1 : 1)} />
      {chosen.text && (
        <span class="hits" role="status">
          {hits ? `${hit + 1} of ${whole(hits)}` : "none"}{source.first > 0 ? " in the end of the log" : ""}
          <button type="button" class="quiet" aria-label="The line found before" onClick={() => step(-1)}>↑</button>
          <button type="button" class="quiet" aria-label="The next line found" onClick={() => step(1)}>↓</button>
          {source.first > 0 && <button type="button" class="quiet" onClick={() => void source.earlier(true)}>Search all of it</button>}
        </span>
      )}
      <span class="grow" />
      <span class="muted">{counted(source.log.lines.length, "line")}{source.first > 0 ? " at the end" : ""}</span>
      <Raw job={job} chosen={chosen} lines={source.log.lines} />
    </div>
  );
}

/** The chosen log as a file. */
function Raw({ job, chosen, lines }: { job: Job; chosen: Chosen; lines: LogLine[] }) {
  const line = chosen.rank === "" ? undefined : lines.findLast((one) => fits(one, chosen));
  if (!line) return null;
  const path = `logs/${line.attempt}.${line.round}/${line.node}/${line.rank < 0 ? "node" : line.rank}.log`;
  return <a href={fileAddress(job.name, path)} download={`${job.name}-${line.rank < 0 ? "node" : line.rank}.log`}>Download</a>;
}

interface ViewProps {
  lines: LogLine[]; target: number; isLive: boolean; text: string; hasRanks: boolean; width: number; older: LogSource;
  epoch: number;
}

function LogView({ lines, target, isLive, text, hasRanks, width, older, epoch }: ViewProps) {
  const box = useRef<HTMLDivElement>(null);
  const isFollowing = useRef(target < 0);
  const drawn = Math.min(lines.length * LINE_PX, MAX_PX);
  // What the view will have is known before it is laid out: the lines at the end are drawn at once, not behind the first.
  const [height, setHeight] = useState(() => Math.max(innerHeight - AROUND_PX, LEAST_PX) - BORDERS_PX);
  const [top, setTop] = useState(() => (target < 0 ? Math.max(0, drawn + PADDING_PX - height) : 0));
  const before = useRef({ epoch, count: lines.length });
  const stretch = Math.max(1, (lines.length * LINE_PX - height) / Math.max(drawn - height, 1));

  useLayoutEffect(() => {
    const element = box.current!;
    const watch = new ResizeObserver(() => {
      // The box above may have become higher or lower: the view takes what is left of the window.
      const above = `${Math.round(element.getBoundingClientRect().top + scrollY) + BELOW_PX}px`;
      if (element.style.getPropertyValue("--above") !== above) element.style.setProperty("--above", above);
      setHeight(element.clientHeight);
    });
    watch.observe(element);
    watch.observe(document.body);
    return () => watch.disconnect();
  }, []);
  // A follower at the end stays there; one that has scrolled up stays where it is, also when older lines come above.
  useLayoutEffect(() => {
    const element = box.current!;
    if (before.current.epoch !== epoch && !isFollowing.current && target < 0) {
      element.scrollTop += ((lines.length - before.current.count) * LINE_PX) / stretch;
    } else if (isFollowing.current) element.scrollTop = element.scrollHeight;
    before.current = { epoch, count: lines.length };
  }, [lines.length, epoch, height]);
  useLayoutEffect(() => {
    if (target < 0) return;
    isFollowing.current = false;
    box.current!.scrollTop = Math.max(0, (target * LINE_PX - height / 2) / stretch);
  }, [target, epoch, height]);

  const scrolled = () => {
    const element = box.current!;
    setTop(element.scrollTop);
    isFollowing.current = element.scrollHeight - element.scrollTop - element.clientHeight < LINE_PX * 2;
    if (element.scrollTop < LINE_PX * 5 && !isFollowing.current && older.first > 0) void older.earlier();
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

const BAD = /\b(?:Traceback|Error|Exception|FATAL|CRITICAL)\b|^[\w.]*(?:Error|Exception|Interrupt)\b/;

function Line({ line, isMarked, text, hasRank, width }: {
  line: LogLine; isMarked: boolean; text: string; hasRank: boolean; width: number;
}) {
  const name = line.rank < 0 ? `node ${line.node}` : String(line.rank).padStart(width);
  const isBad = BAD.test(line.text);
  return (
    <div class={`line${isMarked ? " marked" : ""}${isBad ? " bad" : ""}`}>
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
