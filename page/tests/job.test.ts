import { expect, test } from "vitest";
import { about, latency, rate } from "../src/format";
import { scaleOf, settingOf } from "../src/parts/parallel-scale";
import { partsOf } from "../src/parts/job-links";
import { bestOf, groundOf } from "../src/parts/primary-metric";
import { isBest } from "../src/screens/compare";
import { elasticOf, isPlain, phasesOf, sharesOf, stagesOf } from "../src/screens/job/progress";
import { rankedOf } from "../src/screens/job/sweep";
import { choiceOf, countsOf, hangingOf, isChosen, sumsOf } from "../src/screens/jobs-filter";
import { endOfHolder, shareOfSteps } from "../src/screens/job/holders";
import { assetsOf, downloadCommand, isModel } from "../src/screens/job/results";
import { busiestOf, comparedCores, sayBusiest } from "../src/screens/job/slow-rank";
import { wayOf } from "../src/screens/job/preflight";
import { hangOf, slowOf, startOf } from "../src/screens/job/hang-and-start";
import { groupsOf, rangesOf } from "../src/screens/job/node-groups";
import { stepsOf } from "../src/screens/job/rank-steps";
import { costOf, readReport, reportFile, roleOf } from "../src/screens/job/rehearsal-report";
import type { JobNode, Rehearsal, Series, State, StoryLine } from "../src/types";

const line = (sentence: string, round = 1, n = 1): StoryLine => ({ n, at: "", state: "running", reason: "", sentence, attempt: 1, round });
const jobs = (sentence: string) => partsOf(sentence).filter((part) => part.job).map((part) => part.job);

test("the jobs that hold slots and the job that is next are links, and no word is lost", () => {
  const sentences: [string, string[]][] = [
    ["needs 2 CPU slots of local, where 1 of 4 CPU slots is free; the others are held by live; it is next and starts when live ends", ["live"]],
    ["needs 2 CPU slots of local, where 0 of 4 CPU slots are free; all are held by a-1 (node 1 waits; see drumbeat show a-1), b.2 and 3 more; it is next; lab-1 can't be used: it is off", ["a-1", "b.2"]],
    ["ada uses 4 of 4 GPUs of the quota, and the job needs 1; held by one, b.2 and c-3; an earlier job waits for the same quota", ["one", "b.2", "c-3"]],
    ["needs 2 nodes of rack, which has at most 4 at a time (max_instances), 3 in use; held by one and 2", ["one", "2"]],
    ["needs 2 nodes of rack, which has at most 9 at a time (max_instances), 9 in use; held by a, b, c and 2 more", ["a", "b", "c"]],
    ["number 2 in the queue of rack: first is next, and the slots are held by live, late", ["first", "live", "late"]],
    ["needs 2 CPU slots of local, where 4 of 4 CPU slots are free; it is next; lab-1 can't be used: it is off", []],
    ["training", []],
  ];
  for (const [sentence, names] of sentences) {
    expect(jobs(sentence)).toEqual(names);
    expect(partsOf(sentence).map((part) => part.text).join("")).toBe(sentence);
  }
});

test("a hang is shown until the ranks go on or another round begins", () => {
  const job = { state: "running" as const, attempt: 1, round: 1 };
  const hang = line("the job hangs: rank 1 is stopped; the stacks of all ranks are in the job's file hangs/1.1.txt");
  expect(hangOf(job, [line("training"), hang])).toEqual({ sentence: hang.sentence, file: "hangs/1.1.txt" });
  const named = line("the job hangs: rank 3 on node 1 is stopped (SIGSTOP) at train.py:14, while ranks 0, 1 and 2 wait in all_reduce at train.py:9");
  expect(hangOf(job, [named])).toMatchObject({ rank: 3, word: "is stopped (SIGSTOP) at train.py:14" });
  expect(hangOf(job, [hang, line("the ranks go on: rank 1 moved")])).toBeUndefined();
  expect(hangOf({ ...job, round: 2 }, [hang])).toBeUndefined();
  expect(hangOf({ ...job, state: "failed" }, [hang])).toBeUndefined();
});

test("a slow rank, or all ranks of a slow node, is known by the story of the present round", () => {
  const job = { state: "running" as const, attempt: 1, round: 1, processes_per_node: 2 };
  const rank = line("rank 2 on node 1 is slow: the other ranks wait for it 61% of the time, while it loads data at data.py:14");
  const node = line("node 1 is slow: the ranks of other nodes wait for its ranks 48% of the time, while these compute at train.py:33");
  expect(slowOf(job, [line("training"), rank])).toMatchObject({ sentence: rank.sentence, ranks: [2] });
  expect(slowOf(job, [node])?.ranks).toEqual([2, 3]);
  expect(slowOf({ ...job, round: 2 }, [rank])).toBeUndefined();
  expect(slowOf({ ...job, state: "completed" }, [rank])).toBeUndefined();
});

test("a busy rank is named with as many digits as its neighbours", () => {
  const used = [{ rank: 2, value: 0.301 }, { rank: 0, value: 0.04 }, { rank: 1, value: 0.03 }];
  expect(busiestOf({ state: "running", world_size: 3 }, used)).toBe(2);
  expect(busiestOf({ state: "running", world_size: 4 }, used)).toBeUndefined();
  expect(busiestOf({ state: "running", world_size: 3 }, [{ rank: 2, value: 0.07 }, ...used.slice(1)])).toBeUndefined();
  expect(sayBusiest([used[0]!, used[1]!])).toBe("rank 2 looks slow: it computes (0.30 cores) while the others mostly wait, it seems for it (at most 0.04 cores)");
});

test("the use of processors names no rank of a job with GPUs, where those that wait poll", () => {
  const series = (name: string, rank: number, value: number): Series =>
    ({ name, rank, count: 2, last: { step: 1, value, at: "" }, min: null, max: null });
  const used = [series("system/cpu_cores", 0, 0.3), series("system/cpu_cores", 1, 1), series("system/memory_mib", 0, 9)];
  const job = { state: "running" as const, world_size: 2 };
  expect(busiestOf(job, comparedCores(used))).toBe(1);
  expect(busiestOf(job, comparedCores([...used, series("system/gpu_0_percent", -1, 100)]))).toBeUndefined();
  expect(busiestOf(job, comparedCores([...used, series("system/gpu_memory_mib", 0, 500)]))).toBeUndefined();
});

test("the bar of states is as wide as they lasted, and shows the shortest, too", () => {
  expect(sharesOf([1, 3])).toEqual([0.25, 0.75]);
  expect(sharesOf([0, 0.1, 100])[0]).toBe(0.004);
  expect(sharesOf([0])).toEqual([1]);
  expect(sharesOf([2.3, 0])[0]).toBe(1);
});

test("what an output is and which command brings it", () => {
  const output = { name: "model", place: "in_place" as const, uri: "", asset: "classifier:1", files: 1, size: 3, problem: "", type: "custom_model" };
  expect([isModel(output), isModel({ ...output, type: "uri_folder" })]).toEqual([true, false]);
  expect(downloadCommand("trains", output)).toBe("drumbeat download trains --outputs model");
  expect(downloadCommand("trains", { ...output, uri: "s3://b/m" })).toBe("drumbeat data download s3://b/m model");
  expect(assetsOf({ outputs: [output, { ...output, asset: "" }, { ...output, place: "failed" }] })).toEqual([output]);
});

test("steps are told with their number and share, where it is known", () => {
  expect([{ step: null, steps: null }, { step: 1200, steps: null }, { step: 1200, steps: 2000 }, { step: 2001, steps: 2000 }].map(shareOfSteps))
    .toEqual(["", "1,200", "1,200 of 2,000 (60 %)", "2,001 of 2,000 (100 %)"]);
});

test("an end has a number only with its ground", () => {
  const now = Date.parse("2026-11-20T08:00:00Z");
  expect(endOfHolder({ ends_at: "2026-11-20T08:14:10Z", ground: "by its last 5 runs", is_limit: false }, now)).toBe("in about 14 min, by its last 5 runs");
  expect(endOfHolder({ ends_at: "2026-11-20T08:14:10Z", ground: "by its time limit", is_limit: true }, now)).toBe("in at most 14 min, by its time limit");
  expect(endOfHolder({ ends_at: null, ground: "has no time limit and no earlier runs", is_limit: false }, now)).toBe("unknown: has no time limit and no earlier runs");
});

test("estimates are told no more exactly than they are", () => {
  expect([0, 850, 5900, 10_800, 200_000].map(about)).toEqual(["1 min", "14 min", "98 min", "3 h", "2 days"]);
});

test("a node says how its last round started", () => {
  const story = [line("node 0: round 2 started warm"), line("node 1: round 3 started cold: no prepared interpreter was ready")];
  expect([0, 1, 2].map((node) => startOf(story, node))).toEqual(["round 2 started warm", "round 3 started cold: no prepared interpreter was ready", ""]);
});

test("a way between nodes is known from either end, with its unit", () => {
  const link = { node: 0, peer: 1, out_bits_per_s: 2e9, in_bits_per_s: 19e6, round_trip_us: 180, error: "" };
  expect(wayOf([link], 0, 1)).toEqual({ rate: 2e9, roundTrip: 180, error: "" });
  expect(wayOf([link], 1, 0)).toEqual({ rate: 19e6, roundTrip: 180, error: "" });
  expect(wayOf([link], 1, 2)).toBeUndefined();
  expect(wayOf([{ ...link, out_bits_per_s: -1, round_trip_us: -1, error: "refused" }], 0, 1)).toEqual({ rate: -1, roundTrip: -1, error: "refused" });
  expect([2e9, 19e6, 800].map(rate)).toEqual(["2.0 Gbit/s", "19 Mbit/s", "800 bit/s"]);
  expect([180, 5200, 31_000].map(latency)).toEqual(["180 µs", "5.2 ms", "31 ms"]);
});

test("an elastic job says how many nodes it has and may have", () => {
  const elastic = { min_nodes: 2, nodes: 4, max_nodes: 8, grow: "at_checkpoint" as const };
  expect(elasticOf({ state: "running", elastic, node_count: 3 })).toBe("3 now, 2 to 8 allowed, 4 asked for; grows after a checkpoint");
  expect(elasticOf({ state: "queued", elastic, node_count: 4 })).toBe("2 to 8 allowed, 4 asked for; grows after a checkpoint");
});

test("an elastic job that can't grow any more, or has ended, doesn't say that it grows", () => {
  const elastic = { min_nodes: 2, nodes: 4, max_nodes: 4, grow: "at_once" as const };
  expect(elasticOf({ state: "running", elastic, node_count: 4 })).toBe("4 now, 2 to 4 allowed, 4 asked for");
  expect(elasticOf({ state: "running", elastic, node_count: 3 })).toBe("3 now, 2 to 4 allowed, 4 asked for; grows as soon as nodes are free");
  expect(elasticOf({ state: "failed", elastic, node_count: 2 })).toBe("2 to 4 allowed, 4 asked for");
});

test("the strip of a long story has each earlier attempt as one part, and the present one whole", () => {
  const told = (attempt: number, states: State[]) => states.map((state, n) => ({ ...line("", 1, attempt * 10 + n), state, attempt, at: `2026-01-0${attempt}T00:00:0${n}Z` }));
  const short = told(1, ["queued", "running", "completed"]);
  expect(stagesOf(phasesOf(short, null)).map((one) => one.name)).toEqual(["queued", "running", "completed"]);
  const way: State[] = ["queued", "staging", "running", "stopping"];
  const stages = stagesOf(phasesOf([...told(0, ["queued"]), ...told(1, way), ...told(2, way), ...told(3, ["queued", "running"])], null));
  expect(stages.map((one) => one.name)).toEqual(["attempt 1", "attempt 2", "queued", "running"]);
  expect([stages[0]!.from, stages[0]!.to, stages[0]!.line]).toEqual(["2026-01-00T00:00:00Z", "2026-01-02T00:00:00Z", 0]);
});

test("the report of a rehearsal says what each fault has cost, and what isn't one is none", () => {
  const cost = { step: 1025, resumed: 1021, lost_steps: 5, next_step_s: 30.14, extra_s: 23.5 };
  const run = { number: 1, job: "r-1-kill", fault: "kill", target: "rank 2", state: "completed", sentence: "", restarts: 1, is_equal: true, cost, seconds: 60, differences: [] };
  const report = { verdict: "All equal.", is_passed: true, unbroken: [{ job: "r-unbroken-1", seconds: 36 }], runs: [run], judged: [], unjudged: [], observations: [], hints: [] };
  const read = readReport(JSON.stringify(report)) as Rehearsal;
  expect(costOf(read.runs[0]!)).toBe("hit at step 1,025, went on at step 1,021, 5 steps done again, next step after 30.1 s, 23.5 s longer than unbroken, 1 restart");
  expect(roleOf(read, "r-1-kill")).toContain("It equals the unbroken job.");
  expect(roleOf(read, "r-unbroken-1")).toBe("Unbroken job 1 of 1 of a rehearsal.");
  for (const text of ["", "[]", "null", "{}", JSON.stringify({ ...report, runs: [{ ...run, cost: { ...cost, step: "x" } }] })]) expect(readReport(text)).toBeUndefined();
  expect(reportFile([{ path: "outputs/a/report.json", size: 1 }, { path: "outputs/mlflow-artifacts/1a/rehearsal/report.json", size: 2 }])).toBe("outputs/mlflow-artifacts/1a/rehearsal/report.json");
});

test("axes of settings are linear, logarithmic, or have one place for each word", () => {
  expect(scaleOf(["b", "a", true], String).ticks.map((tick) => tick.label)).toEqual(["a", "b", "true"]);
  expect(["1e-4", "010", "a", "", true].map(settingOf)).toEqual([1e-4, 10, "a", "", true]);
  const rates = scaleOf([1e-4, 1e-1, 1e-2], String);
  expect([1e-4, 1e-1].map(rates.at)).toEqual([0, 1]);
  expect(rates.at(1e-2)).toBeCloseTo(2 / 3);
  expect(rates.ticks.map((tick) => tick.label)).toEqual(["1e-4", "0.001", "0.01", "0.1"]);
  expect(scaleOf([3, 3], String).at(3)).toBe(0.5);
  const many = scaleOf([0.13, 0.2, 0.31, 0.44, 0.5, 0.97], String);
  expect(many.ticks.map((tick) => tick.label)).toEqual(["0", "0.2", "0.4", "0.6", "0.8", "1"]);
});

test("filters are counted by the states that each lists, and an address of former days still means one", () => {
  expect(hangingOf(choiceOf(new URLSearchParams("experiment=e")), 0)).toBeUndefined();
  expect(hangingOf(choiceOf(new URLSearchParams("experiment=e")), 2)![1]).toMatchObject({ experiment: "e", reason: "hanging" });
  expect(isChosen(choiceOf(new URLSearchParams("state=hanging")), { state: "running", reason: "training", archived: false })).toBe(false);
  expect(isChosen(choiceOf(new URLSearchParams("state=hanging")), { state: "running", reason: "hanging", archived: false })).toBe(true);
  expect(sumsOf({ queued: 2, staging: 1, running: 3, failed: 4 })).toEqual({ "": 10, queued: 2, running: 4, failed: 4, completed: 0, canceled: 0 });
  const choice = choiceOf(new URLSearchParams("state=waiting&experiment=cifar"));
  expect(choice.group).toBe("queued");
  expect(countsOf(choice)).toEqual(["/job-counts?parent=", { experiment: "cifar", person: "", archived: "false" }]);
  expect(countsOf({ ...choice, text: "x" })).toBeUndefined();
});

test("what says no more than that a job has completed is left out", () => {
  expect([isPlain("completed", "1 rank ended with exit code 0"), isPlain("completed", "12 ranks ended with exit code 0")]).toEqual([true, true]);
  expect([isPlain("running", "1 rank ended with exit code 0"), isPlain("completed", "4 ranks ended with exit code 0; but on node 1 WORLD_SIZE was 2")]).toEqual([false, false]);
});

test("trials with a value are ranked by the goal of their sweep", () => {
  const trial = (number: number, value: number | null) => ({ number, job: `s_${number}`, state: "completed" as const, sentence: "", parameters: {}, value, last: value, reports: 1, stopped: "" });
  const sweep = { name: "s", state: "running" as const, sentence: "", goal: "minimize", primary_metric: "loss", max_total_trials: 3, max_concurrent_trials: 1, trials: [trial(0, 3), trial(1, null), trial(2, 1)], best: 2 };
  expect(rankedOf(sweep).map((one) => one.number)).toEqual([2, 0]);
  expect(rankedOf({ ...sweep, goal: "maximize" }).map((one) => one.number)).toEqual([0, 2]);
});

test("ranks are compared by the steps of metrics that they have in common", () => {
  const series = (name: string, rank: number, step: number): Series =>
    ({ name, rank, count: 1, last: { step, value: 1 } as Series["last"], min: null, max: null });
  const epochs = stepsOf([series("loss", 0, 1000), series("accuracy", 0, 10), series("accuracy", 1, 10)]);
  expect([...epochs]).toEqual([[0, { step: 1000 }], [1, { step: 10 }]]);
  const batches = stepsOf([series("loss", 0, 1000), series("loss", 1, 700), series("val", 1, 2000), series("system/cpu", 1, 9000)]);
  expect([...batches]).toEqual([[0, { step: 1000 }], [1, { step: 2000, behind: { step: 700, furthest: 1000 } }]]);
});

test("the nodes of a large job are grouped by what they do, the odd ones first", () => {
  const exit = (rank: number, code: number) => ({ rank, code, signal: null, at: 0 });
  const node = (number: number, fields: Partial<JobNode> = {}): JobNode =>
    ({ node: number, machine: "", host: "", address: "", phase: "running", detail: "", error: "", lost: false, exits: [], ...fields });
  const nodes = Array.from({ length: 4096 }, (_, n) => node(n));
  nodes[7] = node(7, { phase: "ended", exits: [exit(14, 0), exit(15, 1)] });
  nodes[9] = node(9, { lost: true });
  nodes[11] = node(11, { detail: "building the environment" });
  const job = { nodes, processes_per_node: 2, state: "running", verdict: null } as Parameters<typeof groupsOf>[0];
  const groups = groupsOf(job, [41], (one) => `exit ${one.code}`);
  expect(groups.map((group) => [group.isOdd, group.state, group.word, group.ends, rangesOf(group.nodes.map((one) => one.node))])).toEqual([
    [true, "lost", "", "", "9"],
    [true, "running", "", "", "20"],
    [false, "ended", "", "1 rank: exit 0, 1 rank: exit 1", "7"],
    [false, "running", "building the environment", "", "11"],
    [false, "running", "", "", "0–6, 8, 10, 12–19, 21–4095"],
  ]);
  expect(groupsOf({ ...job, state: "failed", verdict: { rank: 15 } } as never, [], (one) => `exit ${one.code}`)[0]?.nodes[0]?.node).toBe(7);
});

test("ranges of numbers are cut after some", () => {
  expect(rangesOf([0, 2, 4, 6, 8, 10, 12, 13, 15])).toBe("0, 2, 4, 6, 8, 10 and 3 more");
  expect(rangesOf([])).toBe("");
});

test("the metric that counts has its best value, and says who chose it and which values are better", () => {
  const primary = { name: "val/loss", value: 0.5, step: 9, goal: "minimize", best: 0.25, best_step: 4, source: "guess" } as const;
  expect(bestOf(primary)).toBe("best 0.25 at step 4");
  expect(bestOf({ ...primary, best: 0.5, best_step: 9 })).toBe("");
  expect(bestOf({ name: "width", value: 1, step: 0, goal: null, best: null })).toBe("");
  expect(groundOf(primary)).toContain("lower is better; guessed");
  expect(groundOf({ ...primary, goal: "maximize", source: "experiment" })).toBe("higher is better; chosen for the experiment");
});

test("of compared jobs the best value of the metric that counts is set off, never NaN or infinity", () => {
  const row = (values: unknown[], goal?: "maximize" | "minimize") => ({ section: "metrics", key: "val/accuracy", values, ...(goal ? { goal } : {}) });
  const best = (one: ReturnType<typeof row>) => one.values.flatMap((_, n) => (isBest(one, n) ? [n] : []));
  expect(best(row(["NaN", 0.5, 0.75, "Infinity"], "maximize"))).toEqual([2]);
  expect(best(row([0.5, 0.75], "minimize"))).toEqual([0]);
  expect(best(row([0.5, 0.75]))).toEqual([]);
  expect(best(row([0.5, null], "minimize"))).toEqual([]);
});
