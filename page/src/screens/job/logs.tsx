/** Live logs of all ranks or of one: search, the failing line, and older lines where the end has too few. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { counted } from "../../format";
import { Nothing, Refused } from "../../parts/placeholders";
import { ENDED } from "../../parts/job-state";
import { usePlace } from "../../router";
import { stream } from "../../stream";
import type { Job, StoryLine } from "../../types";
import { LogBar } from "./log-bar";
import { useHits } from "./log-hits";
import { isGrave } from "./log-levels";
import { failingLine, placeOf, type LogLine } from "./log-lines";
import { isWithin, patternOf, rangesIn, type Pattern } from "./log-pattern";
import { shownOf } from "./log-search";
import { LogSource } from "./log-source";
import { LogView, screenful } from "./log-view";

/** What the address says of a log. rank: "" = of all, `node`, or numbers as `0-3,7`. node: the same of nodes. least: the least level of lines that are
 *  shown. isOnly: lines that a search finds alone. times: what stands before each line, `clock` or `since`. */
export interface Chosen {
  rank: string; node: string; text: string; at: string; least: string; isOnly: boolean; isRegex: boolean; times: string; isWrapped: boolean; isFull: boolean;
}

function chosenOf(query: URLSearchParams): Chosen {
  const word = (name: string) => query.get(name) ?? "";
  return {
    rank: word("rank"), node: word("node"), text: word("search"), at: word("at"), least: word("level"), isOnly: query.has("only") && query.has("search"),
    isRegex: query.has("regex"), times: word("times"), isWrapped: query.has("wrap"), isFull: query.has("full"),
  };
}

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
  const chosen = chosenOf(usePlace().query);
  const source = useSource(job.name, story.length);
  const pattern = useMemo(() => (chosen.text ? patternOf(chosen.text, chosen.isRegex) : undefined), [chosen.text, chosen.isRegex]);
  const shown = useShown(source, chosen, pattern);
  const hits = useHits(shown, { pattern, of: `${chosen.rank} ${chosen.node}` }, source.isLoading);
  // Of a job that has failed before it was opened, the failing line is shown at once, where the end of the log has it.
  const [isFailed] = useState(job.state === "failed" && job.verdict?.rank != null);
  const place = chosen.at === "" && isFailed && chosen.text === "" ? "failure" : chosen.at;
  const target = useTarget(source, shown, { ...chosen, at: place }, job, chosen.at !== "");
  const isShort = shown.length < screenful();
  useEffect(() => {
    if (isShort) void source.seek();
  });
  const isEmpty = shown.length === 0 && !(source.isLoading && source.first === 0);
  if (isEmpty && !source.error && source.first === 0 && source.log.lines.length === 0 && !hasStarted(job)) return <Awaited />;
  return (
    <div class={`logs${chosen.isFull ? " full" : ""}`}>
      <LogBar job={job} chosen={chosen} pattern={pattern} source={source} hits={hits} last={shown.at(-1)} />
      {source.error && <Refused error={source.error} />}
      {source.isLoading && shown.length === 0 && source.first === 0 ? <p class="nothing loading">Loading…</p> : null}
      {isEmpty && (source.first > 0 || !source.error) ? <NoLines job={job} chosen={chosen} source={source} /> : null}
      {shown.length > 0 && (
        <LogView lines={shown} target={hits.target < 0 ? target : hits.target} aim={hits.target < 0 ? place : hits.hit}
          isLive={!ENDED.has(job.state)} pattern={pattern} hasRanks={!/^\d+$/.test(chosen.rank)} width={String(job.world_size).length}
          older={source} epoch={source.log.epoch} isWrapped={chosen.isWrapped} times={chosen.times} start={Date.parse(job.started_at ?? job.submitted_at) / 1000} />
      )}
    </div>
  );
}

/** In place of lines: that none were printed, or that none are among those at the log's end. */
function NoLines({ job, chosen, source }: { job: Job; chosen: Chosen; source: LogSource }) {
  if (source.first === 0 && (chosen.least || chosen.isOnly || chosen.node)) return <Nothing>No line is of this kind.</Nothing>;
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
  if (rank === "") return node === "" ? ["the job", "The job has printed", ""] : [`nodes ${node}`, `Nodes ${node} have printed`, ` --node ${node}`];
  if (rank !== "node" && !/^\d+$/.test(rank)) return [`ranks ${rank}`, `Ranks ${rank} have printed`, ""];
  if (rank !== "node") return [`rank ${rank}`, `Rank ${rank} has printed`, ` --rank ${rank}`];
  return node === "" ? ["the nodes", "The nodes' own logs have", ""] : [`node ${node}`, `Node ${node}'s own log has`, ` --node ${node}`];
}

const hasStarted = (job: Job): boolean => job.started_at !== null || ENDED.has(job.state);

/** In place of an empty log, before a job has started. */
const Awaited = () => <p class="nothing-yet">It hasn't started: nothing is printed yet.</p>;

interface Filtered { key: string; seen: number; lines: LogLine[] }

/** The lines of the chosen ranks and nodes; extended in place while lines arrive. */
function useShown(source: LogSource, chosen: Chosen, pattern: Pattern | undefined): LogLine[] {
  const kept = useRef<Filtered>({ key: "", seen: 0, lines: [] });
  const wanted = chosen.isOnly ? pattern : undefined;
  const key = `${chosen.rank} ${chosen.node} ${chosen.least} ${source.log.epoch} ${wanted?.key ?? ""}`;
  const all = source.log.lines;
  if (chosen.rank === "" && chosen.node === "" && !chosen.least && !wanted) return all;
  if (kept.current.key !== key) kept.current = { key, seen: 0, lines: [] };
  const memory = kept.current;
  const isOf = whoseOf(chosen);
  for (; memory.seen < all.length; memory.seen += 1) {
    const line = all[memory.seen]!;
    if (isOf(line) && isGrave(line.text, chosen.least) && (!wanted || wanted.isIn(shownOf(line.text)))) memory.lines.push(line);
  }
  return memory.lines;
}

/** Whether a line is of the chosen ranks and nodes. Numbers that can't be read are of none. */
export function whoseOf({ rank, node }: Pick<Chosen, "rank" | "node">): (line: Pick<LogLine, "rank" | "node">) => boolean {
  const nodes = node === "" ? undefined : (rangesIn(node) ?? []);
  const ranks = rank === "" || rank === "node" ? undefined : (rangesIn(rank) ?? []);
  return (line) => (!nodes || isWithin(nodes, line.node)) && (rank !== "node" || line.rank === -1) && (!ranks || isWithin(ranks, line.rank));
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
