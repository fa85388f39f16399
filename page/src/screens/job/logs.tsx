/** Live logs of all ranks or of one: search, the failing line, and older lines where the end has too few. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { fileAddress } from "../../api";
import { counted, whole } from "../../format";
import { useKey } from "../../keys";
import { plain } from "../../parts/ansi";
import { Nothing, Refused } from "../../parts/placeholders";
import { ENDED } from "../../parts/job-state";
import { setQuery, usePlace } from "../../router";
import { stream } from "../../stream";
import type { Job, StoryLine } from "../../types";
import { useHits, type Hits } from "./log-hits";
import { isGrave } from "./log-levels";
import { failingLine, placeOf, type LogLine } from "./log-lines";
import { Holders } from "./holders";
import { LogSource } from "./log-source";
import { LogView, screenful } from "./log-view";

/** least: the least level of lines that are shown. isOnly: lines that a search finds alone. */
export interface Chosen { rank: string; node: string; text: string; at: string; least: string; isOnly: boolean }

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
  const chosen: Chosen = { rank: word("rank"), node: word("node"), text: word("search"), at: word("at"), least: word("level"), isOnly: query.has("only") && query.has("search") };
  const source = useSource(job.name, story.length);
  const shown = useShown(source, chosen);
  const hits = useHits(shown, chosen, source.isLoading);
  // Of a job that has failed before it was opened, the failing line is shown at once, where the end of the log has it.
  const [isFailed] = useState(job.state === "failed" && job.verdict?.rank != null);
  const place = chosen.at === "" && isFailed && chosen.text === "" ? "failure" : chosen.at;
  const target = useTarget(source, shown, { ...chosen, at: place }, job, chosen.at !== "");
  const isShort = shown.length < screenful();
  useEffect(() => {
    if (isShort) void source.seek();
  });
  const isEmpty = shown.length === 0 && !(source.isLoading && source.first === 0);
  if (isEmpty && !source.error && source.first === 0 && source.log.lines.length === 0 && !hasStarted(job)) return <Awaited job={job} />;
  return (
    <div class="logs">
      <LogBar job={job} chosen={chosen} source={source} hits={hits} last={shown.at(-1)} />
      {source.error && <Refused error={source.error} />}
      {source.isLoading && shown.length === 0 && source.first === 0 ? <p class="nothing loading">Loading…</p> : null}
      {isEmpty && (source.first > 0 || !source.error) ? <NoLines job={job} chosen={chosen} source={source} /> : null}
      {shown.length > 0 && (
        <LogView lines={shown} target={hits.target < 0 ? target : hits.target} aim={hits.target < 0 ? place : hits.hit}
          isLive={!ENDED.has(job.state)} text={chosen.text} hasRanks={chosen.rank === ""} width={String(job.world_size).length}
          older={source} epoch={source.log.epoch} />
      )}
    </div>
  );
}

/** In place of lines: that none were printed, or that none are among those at the log's end. */
function NoLines({ job, chosen, source }: { job: Job; chosen: Chosen; source: LogSource }) {
  if (source.first === 0 && (chosen.least || chosen.isOnly)) return <Nothing>No line is of this kind.</Nothing>;
  if (source.first === 0) return <Nothing>{ENDED.has(job.state) ? "It has printed nothing." : "It has printed nothing yet."}</Nothing>;
  const [whose, says, option] = wordsOf(chosen);
  const end = `the last ${counted(source.log.lines.length, "line")} of this job's log`;
  if (source.isLoading || source.canSeek) return <Nothing>Looking for lines of {whose} before {end}…</Nothing>;
  return (
    <div class="nothing">
      <p>
        {chosen.least || chosen.isOnly ? `No line of this kind is in ${end}.` : `${says} nothing in ${end}.`} {source.isFull
          ? <>The page holds no more than these; <code>drumbeat logs {job.name}{option}</code> prints all lines.</>
          : "Older lines haven't been searched."}
      </p>
      {!source.isFull && <div class="buttons"><button type="button" onClick={() => void source.earlier()}>Search older lines</button></div>}
    </div>
  );
}

/** Whose lines are chosen, the beginning of a sentence that they lack, and the command's option for them. */
function wordsOf({ rank, node, least, isOnly }: Chosen): [string, string, string] {
  if (least || isOnly) return ["this kind", "", rank === "" || rank === "node" ? "" : ` --rank ${rank}`];
  if (rank === "") return ["the job", "The job has printed", ""];
  if (rank !== "node") return [`rank ${rank}`, `Rank ${rank} has printed`, ` --rank ${rank}`];
  return node === "" ? ["the nodes", "The nodes' own logs have", ""] : [`node ${node}`, `Node ${node}'s own log has`, ` --node ${node}`];
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

/** Of more ranks than these, one is named by its number. */
const LISTED_RANKS = 256;

interface Filtered { key: string; seen: number; lines: LogLine[] }

/** The lines of the chosen rank; extended in place while lines arrive. */
function useShown(source: LogSource, chosen: Chosen): LogLine[] {
  const kept = useRef<Filtered>({ key: "", seen: 0, lines: [] });
  const wanted = chosen.isOnly ? chosen.text.toLowerCase() : "";
  const key = `${chosen.rank} ${chosen.node} ${chosen.least} ${source.log.epoch} ${wanted}`;
  const all = source.log.lines;
  if (chosen.rank === "" && !chosen.least && !wanted) return all;
  if (kept.current.key !== key) kept.current = { key, seen: 0, lines: [] };
  const memory = kept.current;
  for (; memory.seen < all.length; memory.seen += 1) {
    if (fits(all[memory.seen]!, chosen, wanted)) memory.lines.push(all[memory.seen]!);
  }
  return memory.lines;
}

function fits(line: LogLine, chosen: Chosen, wanted: string): boolean {
  if (wanted && !plain(line.text).toLowerCase().includes(wanted)) return false;
  if (!isGrave(line.text, chosen.least)) return false;
  if (chosen.rank === "") return true;
  if (chosen.rank === "node") return line.rank === -1 && (chosen.node === "" || line.node === Number(chosen.node));
  return line.rank === Number(chosen.rank);
}

/** The line to which the address leads: its own, or the failing one. */
function useTarget(source: LogSource, shown: LogLine[], chosen: Chosen, job: Job, isAsked: boolean): number {
  const rank = job.verdict?.rank ?? null;
  const target = useMemo(() => {
    if (chosen.at === "failure") return rank === null ? -1 : failingLine(shown, rank, job.verdict?.tail ?? "");
    return placeOf(shown, chosen.at);
  }, [chosen.at, shown, rank, shown.length > 0]);
  useEffect(() => {
    if (isAsked && target < 0) void source.seek(true);
  }, [chosen.at, target, source.isLoading, source.error]);
  return target;
}

function LogBar({ job, chosen, source, hits, last }: {
  job: Job; chosen: Chosen; source: LogSource; hits: Hits; last: LogLine | undefined;
}) {
  const { count, at, step } = hits;
  const hasMore = source.first > 0 && !source.isFull;
  useKey("/", "Search in the logs", (event) => {
    event.preventDefault();
    document.getElementById("log-search")?.focus();
  });
  const isLarge = job.world_size > LISTED_RANKS;
  const ranks = isLarge ? (/^\d+$/.test(chosen.rank) ? [Number(chosen.rank)] : []) : Array.from({ length: job.world_size }, (_, n) => n);
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
      {isLarge && (
        <label>
          <span class="hidden">Rank</span>
          <input type="number" min={0} max={job.world_size - 1} placeholder={`rank 0–${job.world_size - 1}`} aria-label="Rank"
            value={/^\d+$/.test(chosen.rank) ? chosen.rank : ""}
            onChange={(event) => event.currentTarget.validity.valid && setQuery({ rank: event.currentTarget.value, at: "", node: "" })} />
        </label>
      )}
      <label class="select">
        <span class="hidden">Level</span>
        <select value={chosen.least} onChange={(event) => setQuery({ level: event.currentTarget.value, at: "" })}>
          <option value="">all lines</option>
          <option value="warning">warnings and errors</option>
          <option value="error">errors</option>
        </select>
      </label>
      <input id="log-search" type="search" placeholder="Search the log" aria-label="Search the log" value={chosen.text}
        onInput={(event) => setQuery({ search: event.currentTarget.value })}
        onKeyDown={(event) => event.key === "Enter" && step(event.shiftKey ? -1 : 1)} />
      {chosen.text && (
        <label class="check"><input type="checkbox" checked={chosen.isOnly} onChange={(event) => setQuery({ only: event.currentTarget.checked ? "1" : "" })} /> only these lines</label>
      )}
      {chosen.text && (
        <span class="hits" role="status">
          {count ? `${at + 1} of ${whole(count)}` : "none"}{source.first > 0 ? " in the end of the log" : ""}
          <button type="button" class="quiet" aria-label="The line found before" onClick={() => step(-1)}>↑</button>
          <button type="button" class="quiet" aria-label="The next line found" onClick={() => step(1)}>↓</button>
          {hasMore && (
            <button type="button" class="quiet" disabled={source.isLoading} onClick={() => {
              hits.await();
              void source.earlier(true);
            }}>Search all of it</button>
          )}
        </span>
      )}
      <span class="grow" />
      <span class="muted">{counted(source.log.lines.length, "line")}{source.first > 0 ? " at the end" : ""}</span>
      {hasMore && !source.canSeek && last && (
        <button type="button" class="quiet" disabled={source.isLoading} onClick={() => void source.earlier()}>Load older lines</button>
      )}
      {chosen.rank !== "" && last && <Raw job={job} line={last} />}
    </div>
  );
}

/** The chosen log as a file: that of its last line. */
function Raw({ job, line }: { job: Job; line: LogLine }) {
  const path = `logs/${line.attempt}.${line.round}/${line.node}/${line.rank < 0 ? "node" : line.rank}.log`;
  return <a href={fileAddress(job.name, path)} download={`${job.name}-${line.rank < 0 ? "node" : line.rank}.log`}>Download</a>;
}
