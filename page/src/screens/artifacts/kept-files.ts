/** Files of jobs that never change once they are there, kept in memory while one looks at them. */

import { getFile } from "../../api";

const MAX_FILES = 2000;
const MAX_AHEAD = 1000;
const MAX_AHEAD_BYTES = 128 << 20;
const AT_ONCE = 4;
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

/** The content of a file. */
export const contentOf = (job: string, path: string): Promise<ArrayBuffer> =>
  remember(kept, `${job} ${path}`, () => getFile(job, path, MAX_FILE).then(({ bytes }) => bytes), () => undefined);

export const jsonOf = async (job: string, path: string): Promise<unknown> => JSON.parse(new TextDecoder().decode(await contentOf(job, path)));

/** The addresses that are there already. */
const ready = new Map<string, string>();
export const readyAddress = (job: string, path: string): string | undefined => ready.get(`${job} ${path}`);

/** An address within the page of an image, which is one by its name alone: what it contains is never run. */
export const imageAddress = (job: string, path: string, priority: RequestPriority = "auto"): Promise<string> =>
  remember(addresses, `${job} ${path}`, async () => {
    const isUrgent = priority !== "low";
    urgent += Number(isUrgent);
    const { bytes } = await getFile(job, path, MAX_FILE, 0, priority).finally(() => (urgent -= Number(isUrgent)));
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

let [queue, workers, urgent]: [{ job: string; path: string }[], number, number] = [[], 0, 0];
/** urgent: how many images are on their way that are to be shown now: others wait for them. */

/** Fetches images before they are shown, in this order and a few at a time, in place of what was to be fetched before; returns what ends it. */
export function fetchAhead(images: { job: string; path: string; size: number }[]): () => void {
  let left = MAX_AHEAD_BYTES;
  const own = images.slice(0, MAX_AHEAD).filter(({ job, path, size }) => (left -= size) > 0 && !addresses.has(`${job} ${path}`));
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
    else await imageAddress(queue[0]!.job, queue.shift()!.path, "low").catch(() => undefined);
  }
  workers -= 1;
}
