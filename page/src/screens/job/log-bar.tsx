/** What is chosen of a log: whose, which lines, how they are shown; each by the mouse and by a key, and in the address. */

import { useEffect, useState } from "preact/hooks";
import { address, fileAddress, segment } from "../../api";
import { counted, whole } from "../../format";
import { useKey } from "../../keys";
import { setQuery } from "../../router";
import type { Job } from "../../types";
import type { Hits } from "./log-hits";
import type { LogLine } from "./log-lines";
import { rangesIn, type Pattern } from "./log-pattern";
import type { LogSource } from "./log-source";
import type { Chosen } from "./logs";

/** Of more ranks than these, one is named by its number. */
const LISTED_RANKS = 256;
const LEVELS = ["", "warning", "error"];
const TIMES = ["", "clock", "since"];

const next = (all: string[], now: string): string => all[(all.indexOf(now) + 1) % all.length]!;

export function LogBar({ job, chosen, pattern, source, hits, last }: {
  job: Job; chosen: Chosen; pattern: Pattern | undefined; source: LogSource; hits: Hits; last: LogLine | undefined;
}) {
  const hasMore = source.first > 0 && !source.isFull;
  useLogKeys(chosen, hits);
  return (
    <div class="filters log-bar">
      <Whose job={job} chosen={chosen} />
      <label class="select">
        <span class="hidden">Level</span>
        <select value={chosen.least} onChange={(event) => setQuery({ level: event.currentTarget.value, at: "" })}>
          <option value="">all lines</option>
          <option value="warning">warnings and errors</option>
          <option value="error">errors</option>
        </select>
      </label>
      <input id="log-search" type="search" placeholder="Search the log" aria-label="Search the log" value={chosen.text} aria-invalid={pattern?.problem ? true : undefined}
        onInput={(event) => setQuery({ search: event.currentTarget.value })}
        onKeyDown={(event) => event.key === "Enter" && hits.step(event.shiftKey ? -1 : 1)} />
      <label class="check" title="The search is a regular expression (r)"><input type="checkbox" checked={chosen.isRegex} onChange={(event) => setQuery({ regex: event.currentTarget.checked ? "1" : "" })} /> regex</label>
      {chosen.text && (
        <label class="check"><input type="checkbox" checked={chosen.isOnly} onChange={(event) => setQuery({ only: event.currentTarget.checked ? "1" : "" })} /> only these lines</label>
      )}
      {pattern?.problem && <span class="tone-bad" role="alert">{pattern.problem}</span>}
      {chosen.text && !pattern?.problem && <Found hits={hits} source={source} hasMore={hasMore} />}
      <span class="grow" />
      <span class="muted">{counted(source.log.lines.length, "line")}{source.first > 0 ? " at the end" : ""}</span>
      {hasMore && !source.canSeek && last && (
        <button type="button" class="quiet" disabled={source.isLoading} onClick={() => void source.earlier()}>Load older lines</button>
      )}
      <label class="select">
        <span class="hidden">Times</span>
        <select value={chosen.times} title="When the server received each line (t)" onChange={(event) => setQuery({ times: event.currentTarget.value })}>
          <option value="">no times</option>
          <option value="clock">times</option>
          <option value="since">times since the start</option>
        </select>
      </label>
      <label class="check" title="Long lines take several rows (w)"><input type="checkbox" checked={chosen.isWrapped} onChange={(event) => setQuery({ wrap: event.currentTarget.checked ? "1" : "" })} /> wrap</label>
      <a href={address(`/jobs/${segment(job.name)}/log-text`, { times: chosen.times ? "true" : "" })} download={`${job.name}.log`} title="All logs as one text, in the order in which lines came">Download all</a>
      {/^(\d+|node)$/.test(chosen.rank) && last && <Raw job={job} line={last} />}
      <button type="button" class="quiet" aria-pressed={chosen.isFull} title="Over the whole window (m)" onClick={() => toggleFull(chosen)}>{chosen.isFull ? "Back" : "⤢"}<span class="hidden"> the log in full</span></button>
    </div>
  );
}

const toggleFull = (chosen: Chosen) => setQuery({ full: chosen.isFull ? "" : "1" });

function useLogKeys(chosen: Chosen, hits: Hits): void {
  useKey("/", "Search in the logs", (event) => {
    event.preventDefault();
    document.getElementById("log-search")?.focus();
  });
  useKey("r", "Search by a regular expression, or by a text", () => setQuery({ regex: chosen.isRegex ? "" : "1" }));
  useKey("o", "Only the lines that are found, or all", () => chosen.text && setQuery({ only: chosen.isOnly ? "" : "1" }));
  useKey("v", "Errors and warnings, errors, or all lines", () => setQuery({ level: next(LEVELS, chosen.least), at: "" }));
  useKey("t", "Times of lines, since the start, or none", () => setQuery({ times: next(TIMES, chosen.times) }));
  useKey("w", "Wrap long lines, or don't", () => setQuery({ wrap: chosen.isWrapped ? "" : "1" }));
  useKey("m", "The log over the whole window, or back", () => toggleFull(chosen));
  useKey("Escape", "Back from the whole window", () => chosen.isFull && toggleFull(chosen));
  useKey("a", "The address of the line that was found", () => hits.hit && setQuery({ at: hits.hit.address }, false));
}

/** Of all ranks, one, several, or nodes. */
function Whose({ job, chosen }: { job: Job; chosen: Chosen }) {
  const isLarge = job.world_size > LISTED_RANKS;
  const isOne = /^\d+$/.test(chosen.rank);
  const isSeveral = chosen.rank !== "" && chosen.rank !== "node" && !isOne;
  const ranks = isLarge ? (isOne ? [Number(chosen.rank)] : []) : Array.from({ length: job.world_size }, (_, n) => n);
  return (
    <>
      <label class="select">
        <span class="hidden">Whose log</span>
        <select value={isSeveral ? SEVERAL : chosen.rank} onChange={(event) => setQuery({ rank: event.currentTarget.value === SEVERAL ? `0-${Math.min(job.world_size - 1, 1)}` : event.currentTarget.value, at: "", node: "" })}>
          <option value="">all ranks</option>
          {ranks.map((rank) => <option key={rank} value={rank}>rank {rank}</option>)}
          {job.world_size > 2 && <option value={SEVERAL}>several ranks</option>}
          <option value="node">the nodes' own</option>
        </select>
      </label>
      {isLarge && (
        <Typed label="Rank" value={isOne ? chosen.rank : ""} hint={`rank 0–${job.world_size - 1}`} max={job.world_size - 1} choose={(rank) => setQuery({ rank, at: "", node: "" })} />
      )}
      {isSeveral && <Numbers name="Ranks" value={chosen.rank} change={(rank) => setQuery({ rank, at: "" })} />}
      {job.node_count > 1 && <Numbers name="Nodes" value={chosen.node} change={(node) => setQuery({ node, at: "" })} />}
    </>
  );
}

const SEVERAL = "several";

/** Numbers as `0-3,7`; what can't be read is said, and shows nothing. */
function Numbers({ name, value, change }: { name: string; value: string; change: (value: string) => void }) {
  const isBad = rangesIn(value) === undefined;
  return (
    <Typed label={name} value={value} hint={`${name.toLowerCase()}, as 0-3,7`} isBad={isBad} choose={(typed) => change(typed.replace(/\s+/g, ""))} />
  );
}

/** A field whose text counts once it is left, or by Enter: lines that come meanwhile don't take it away. max: of a single number. */
function Typed({ label, value, hint, max, isBad = false, choose }: { label: string; value: string; hint: string; max?: number; isBad?: boolean; choose: (value: string) => void }) {
  const [draft, setDraft] = useState(value);
  useEffect(() => setDraft(value), [value]);
  const common = {
    placeholder: hint, "aria-label": label, value: draft,
    onInput: (event: { currentTarget: HTMLInputElement }) => setDraft(event.currentTarget.value),
    onChange: (event: { currentTarget: HTMLInputElement }) => void (event.currentTarget.validity.valid && choose(event.currentTarget.value)),
  };
  if (max !== undefined) return <input type="number" min={0} max={max} {...common} />;
  return <input type="text" class="numbers" aria-invalid={isBad ? true : undefined} title={isBad ? "Numbers and ranges, as 0-3,7" : undefined} {...common} />;
}

function Found({ hits, source, hasMore }: { hits: Hits; source: LogSource; hasMore: boolean }) {
  const { count, at, step } = hits;
  return (
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
  );
}

/** The chosen log as a file: that of its last line. */
function Raw({ job, line }: { job: Job; line: LogLine }) {
  const path = `logs/${line.attempt}.${line.round}/${line.node}/${line.rank < 0 ? "node" : line.rank}.log`;
  return <a href={fileAddress(job.name, path)} download={`${job.name}-${line.rank < 0 ? "node" : line.rank}.log`}>Download</a>;
}
