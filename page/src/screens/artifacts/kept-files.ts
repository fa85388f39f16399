/** Files of jobs that never change once they are there, kept in memory while one looks at them. */

import { getContents, getFile } from "../../api";

const MAX_FILES = 2000;
const MAX_AHEAD = 1000;
const MAX_AHEAD_BYTES = 128 << 20;
const AT_ONCE = 2;
const BATCH = 32;
const BATCH_BYTES = 256 << 10;
const MAX_NEAR = 32;
const DECODED_AT_ONCE = 8;
/** So many of what is fetched ahead are decoded, too, once all are here: it takes longer than fetching them. */
const PAUSE_MS = 20;
const MAX_FILE = 16 << 20;
const TYPES: Record<string, string> = { png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp" };

const kept = new Map<string, Promise<ArrayBuffer>>();
const addresses = new Map<string, Promise<string>>();

function remember<T>(map: Map<string, Promise<T>>, key: string, make: () => Promise<T>, dropped: (value: T, key: string) => void): Promise<T> {
  const before = map.get(key);
  if (before) {
    map.delete(key);
    map.set(key, before);
    return before;
  }
  const made = make();
  map.set(key, made);
  made.catch(() => map.delete(key));
  const [oldest] = map;
  if (map.size > MAX_FILES && oldest) {
    map.delete(oldest[0]);
    void oldest[1].then((value) => dropped(value, oldest[0]), () => undefined);
  }
  return made;
}

interface Asked { path: string; give: (content: ArrayBuffer | Promise<ArrayBuffer>) => void; refuse: (error: unknown) => void }

const asked = new Map<string, Asked[]>();
/** By job and priority. */

const alone = (job: string, path: string, priority: RequestPriority): Promise<ArrayBuffer> =>
  getFile(job, path, MAX_FILE, 0, priority).then(({ bytes }) => bytes);

/** A file; those that are asked for at the same moment, such as the images of a step, come in one answer. */
function fetched(job: string, path: string, priority: RequestPriority): Promise<ArrayBuffer> {
  return new Promise((give, refuse) => {
    const key = `${priority} ${job}`;
    const together = asked.get(key) ?? [];
    if (together.push({ path, give, refuse }) > 1) return;
    asked.set(key, together);
    queueMicrotask(() => {
      asked.delete(key);
      for (let n = 0; n < together.length; n += BATCH) void fetchTogether(job, together.slice(n, n + BATCH), priority);
    });
  });
}

async function fetchTogether(job: string, files: Asked[], priority: RequestPriority): Promise<void> {
  const contents = files.length > 1 ? await getContents(job, files.map(({ path }) => path), priority).catch(() => []) : [];
  files.forEach(({ path, give, refuse }, n) => {
    const content = contents[n];
    if (content) give(content);
    else alone(job, path, priority).then(give, refuse);
  });
}

/** The content of a file. */
export const contentOf = (job: string, path: string, priority: RequestPriority = "auto"): Promise<ArrayBuffer> =>
  remember(kept, `${job} ${path}`, () => fetched(job, path, priority), () => undefined);

export const jsonOf = async (job: string, path: string): Promise<unknown> => JSON.parse(new TextDecoder().decode(await contentOf(job, path)));

/** The addresses that are there already. */
const ready = new Map<string, string>();
export const readyAddress = (job: string, path: string): string | undefined => ready.get(`${job} ${path}`);

/** An address within the page of an image, which is one by its name alone: what it contains is never run. */
export const imageAddress = (job: string, path: string, priority: RequestPriority = "auto"): Promise<string> =>
  remember(addresses, `${job} ${path}`, async () => {
    const isUrgent = priority !== "low";
    urgent += Number(isUrgent);
    const bytes = await contentOf(job, path, priority).finally(() => (urgent -= Number(isUrgent)));
    kept.delete(`${job} ${path}`);
    const address = URL.createObjectURL(new Blob([bytes], { type: TYPES[path.split(".").at(-1)!] ?? "image/png" }));
    // Decoded before it is shown: a slider goes on without an empty frame.
    const image = new Image();
    image.src = address;
    await image.decode().catch(() => undefined);
    ready.set(`${job} ${path}`, address);
    return address;
  }, (address, key) => {
    ready.delete(key);
    URL.revokeObjectURL(address);
  });

interface Ahead { job: string; path: string; size: number; isNear?: boolean }

let [queue, workers, urgent]: [Ahead[], number, number] = [[], 0, 0];
/** urgent: how many images are on their way that are to be shown now: others wait for them. */

/** Fetches images before they are shown, in this order and a few at a time, in place of what was to be fetched before; returns what ends it. */
export function fetchAhead(images: Ahead[]): () => void {
  let left = MAX_AHEAD_BYTES;
  const missing = images.slice(0, MAX_AHEAD).filter(({ job, path, size }) => (left -= size) > 0 && !addresses.has(`${job} ${path}`));
  const near = missing.slice(0, MAX_NEAR).map((one) => ({ ...one, isNear: true }));
  const own: Ahead[] = [...missing.filter(({ job, path }) => !kept.has(`${job} ${path}`)), ...near];
  queue = own;
  for (let n = workers; n < AT_ONCE; n += 1) void work();
  return () => {
    if (queue === own) queue = [];
  };
}

async function work(): Promise<void> {
  workers += 1;
  while (queue.length) {
    if (urgent) await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    else await Promise.allSettled(nextBatch().map(({ job, path, isNear }) => (isNear ? imageAddress : contentOf)(job, path, "low")));
  }
  workers -= 1;
}

/** Takes so many from the queue as come soon in one answer, or are soon decoded; one at least. */
function nextBatch(): Ahead[] {
  const isNear = queue[0]!.isNear;
  const most = Math.min(isNear ? DECODED_AT_ONCE : BATCH, queue.length);
  let [count, bytes] = [0, 0];
  while (count < most && queue[count]!.isNear === isNear && (bytes += queue[count]!.size) <= BATCH_BYTES) count += 1;
  return queue.splice(0, Math.max(count, 1));
}
