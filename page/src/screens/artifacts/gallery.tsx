/** What jobs have logged by step: galleries of images, texts, tables and histograms under one slider; of several jobs side by side. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { counted, whole } from "../../format";
import { Dialog } from "../../parts/dialog";
import { setQuery, usePlace } from "../../router";
import type { FileEntry } from "../../types";
import { HeatMap } from "./heat-map";
import { fetchAhead, imageAddress, jsonOf, readyAddress } from "./kept-files";
import { allSteps, seriesOf, stepAt, type Series, type StepFile } from "./step-files";
import { LoggedTable, LoggedText } from "./logged";

export interface Source { job: string; files: FileEntry[] }

const FIRST_CARDS = 24;
const ADDRESS_MS = 400;
const MAX_AHEAD = 500;

interface Card { kind: Series["kind"]; name: string; of: (Series | undefined)[] }

/** The cards of some jobs: one for each kind and name, with the series of each job. */
function cardsOf(sources: Source[]): Card[] {
  const cards = new Map<string, Card>();
  sources.forEach(({ files }, n) => {
    for (const series of seriesOf(files)) {
      const key = `${series.kind} ${series.name}`;
      const card = cards.get(key) ?? { kind: series.kind, name: series.name, of: sources.map(() => undefined) };
      card.of[n] = series;
      cards.set(key, card);
    }
  });
  return [...cards.values()];
}

/** label: of the section. */
export function StepGallery({ sources, label }: { sources: Source[]; label: string }) {
  const cards = useMemo(() => cardsOf(sources), [sources]);
  const steps = useMemo(() => allSteps(cards.flatMap((card) => card.of.filter((one) => one !== undefined))), [cards]);
  const [chosen, choose] = useStep();
  const [text, setText] = useState("");
  const [shown, setShown] = useState(FIRST_CARDS);
  const last = steps.at(-1);
  const step = chosen === undefined || last === undefined ? last : (stepAt(steps, chosen) ?? steps[0]!);
  const matching = text ? cards.filter((card) => card.name.toLowerCase().includes(text.toLowerCase())) : cards;
  const visible = matching.slice(0, shown);
  useAhead(sources, visible, steps, step);
  if (step === undefined) return null;
  return (
    <section class="by-step" aria-label={label}>
      <header class="section-head">
        <h2>{label}</h2>
        {cards.length > 6 && <input type="search" aria-label="Names" placeholder="Names" value={text} onInput={(event) => setText(event.currentTarget.value)} />}
      </header>
      <Slider steps={steps} step={step} choose={choose} />
      <div class="step-cards">
        {visible.map((card) => <StepCard key={`${card.kind} ${card.name}`} card={card} sources={sources} step={step} choose={choose} />)}
      </div>
      {matching.length > shown && <button type="button" onClick={() => setShown(shown + FIRST_CARDS)}>Show more of {counted(matching.length, "name")}</button>}
    </section>
  );
}

/** The step that is chosen, which stands in the address once the slider rests; undefined = the last. */
function useStep(): [number | undefined, (step: number) => void] {
  const { query } = usePlace();
  const given = query.get("step");
  const [own, setOwn] = useState<number | undefined>(given === null || !Number.isSafeInteger(Number(given)) ? undefined : Number(given));
  const timer = useRef(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  return [own, (step) => {
    setOwn(step);
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => setQuery({ step: String(step) }), ADDRESS_MS);
  }];
}

function Slider({ steps, step, choose }: { steps: number[]; step: number; choose: (step: number) => void }) {
  const at = steps.indexOf(step);
  if (steps.length < 2) return <p class="muted">step {whole(step)}</p>;
  return (
    <div class="step-slider">
      <label>
        <span class="number">step {whole(step)}</span>
        <input type="range" min={0} max={steps.length - 1} step={1} value={at} aria-valuetext={`step ${step}`}
          onInput={(event) => choose(steps[Number(event.currentTarget.value)]!)} />
      </label>
      <span class="muted number">{at + 1} of {whole(steps.length)}</span>
    </div>
  );
}

/** Fetches the images of the steps around the one that is shown, the nearest first. */
function useAhead(sources: Source[], cards: Card[], steps: number[], step: number | undefined): void {
  useEffect(() => {
    const at = steps.indexOf(step ?? NaN);
    if (at < 0) return;
    const near = steps.map((_, n) => n).filter((n) => n !== at).sort((one, other) => Math.abs(one - at) - Math.abs(other - at));
    const images = near.slice(0, MAX_AHEAD).flatMap((n) => cards.flatMap((card) => card.of.flatMap((series, job) =>
      card.kind === "images" ? (series?.files.get(steps[n]!) ?? []).map((file) => ({ job: sources[job]!.job, path: file.small ?? file.path, size: file.size })) : [])));
    return fetchAhead(images);
  }, [sources, cards.length, steps, step]);
}

function StepCard({ card, sources, step, choose }: { card: Card; sources: Source[]; step: number; choose: (step: number) => void }) {
  const isCompared = sources.length > 1;
  return (
    <figure class={`step-card of-${card.kind}`}>
      <figcaption><span class="chart-name">{card.name}</span></figcaption>
      <div class={isCompared ? "step-jobs" : ""}>
        {sources.map(({ job }, n) => {
          const series = card.of[n];
          const at = series && stepAt(series.steps, step);
          return (
            <div key={job} class="step-job">
              {isCompared && <p class="muted machine">{job}</p>}
              {!series || at === undefined ? <p class="muted">{series ? `nothing before step ${whole(series.steps[0]!)}` : "nothing by this name"}</p>
                : <Content job={job} series={series} at={at} step={step} choose={choose} />}
            </div>
          );
        })}
      </div>
    </figure>
  );
}

function Content({ job, series, at, step, choose }: { job: string; series: Series; at: number; step: number; choose: (step: number) => void }) {
  const files = series.files.get(at)!;
  const hasRanks = new Set(files.map((one) => one.rank)).size > 1;
  return (
    <>
      {at !== step && <p class="muted">of step {whole(at)}</p>}
      {series.kind === "images" ? <Images job={job} name={series.name} step={at} files={files} hasRanks={hasRanks} />
        : series.kind === "histograms" ? <HeatMap job={job} series={series} at={at} choose={choose} />
          : files.map((file) => (
            <div key={`${file.rank} ${file.index}`}>
              {hasRanks && <p class="muted">rank {file.rank}</p>}
              {series.kind === "tables" ? <LoggedTable job={job} path={file.path} label={series.name} /> : <LoggedText job={job} path={file.path} />}
            </div>
          ))}
    </>
  );
}

function Images({ job, name, step, files, hasRanks }: { job: string; name: string; step: number; files: StepFile[]; hasRanks: boolean }) {
  const captions = useCaptions(job, files);
  const [open, setOpen] = useState<number>();
  const shown = open === undefined ? undefined : files[open];
  const textOf = (file: StepFile): string => captions.get(file.captions ?? "")?.[file.index] ?? "";
  return (
    <div class="step-images">
      {files.map((file, n) => (
        <button key={n} type="button" class="step-image" onClick={() => setOpen(n)}>
          <StepImage job={job} path={file.small ?? file.path} alt={`${name}, image ${n + 1} of step ${step}`} />
          {hasRanks && <span class="muted">rank {file.rank}</span>}
          {textOf(file) && <span class="step-caption">{textOf(file)}</span>}
        </button>
      ))}
      {shown && (
        <Dialog title={`${name}, step ${whole(step)}`} onClose={() => setOpen(undefined)} isWide="full">
          <StepImage job={job} path={shown.path} alt={`${name} of step ${step}`} />
          {textOf(shown) && <p>{textOf(shown)}</p>}
          <div class="buttons"><button type="button" onClick={() => setOpen(undefined)}>Close</button></div>
        </Dialog>
      )}
    </div>
  );
}

/** An image; the one before stays until it is here. */
export function StepImage({ job, path, alt }: { job: string; path: string; alt: string }) {
  const [shown, setShown] = useState<{ path: string; address: string }>();
  const [isLost, setLost] = useState(false);
  const address = readyAddress(job, path);
  useEffect(() => {
    let isOpen = true;
    imageAddress(job, path).then(
      (address) => isOpen && (setShown({ path, address }), setLost(false)),
      () => isOpen && setLost(true),
    );
    return () => void (isOpen = false);
  }, [job, path]);
  if (isLost) return <span class="muted">The image can't be loaded.</span>;
  const drawn = address ? { path, address } : shown;
  return drawn ? <img src={drawn.address} alt={alt} data-path={drawn.path} /> : <span class="step-blank" />;
}

function useCaptions(job: string, files: StepFile[]): Map<string, string[]> {
  const [read, setRead] = useState(new Map<string, string[]>());
  const paths = [...new Set(files.flatMap((file) => file.captions ?? []))];
  useEffect(() => {
    let isOpen = true;
    for (const path of paths) {
      if (read.has(path)) continue;
      jsonOf(job, path).then((texts) => {
        if (isOpen && Array.isArray(texts)) setRead((before) => new Map(before).set(path, texts.map(String)));
      }, () => undefined);
    }
    return () => void (isOpen = false);
  }, [paths.join("\n")]);
  return read;
}
