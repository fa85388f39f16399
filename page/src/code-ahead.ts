/** Brings the code of all screens while there is nothing else to do: it is there when the server is away. */

import { settled } from "./api";

const PAUSE_MS = 1500;
/** Behind the first answer: what a screen asks for next goes before. */

let isWhole = false;

/** Whether the code of all screens is in the browser. */
export const isCodeHere = (): boolean => isWhole;

/** The files are named in the HTML, by the build; each is asked for behind the one before. */
export async function bringCode(): Promise<void> {
  await settled;
  await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  const files = document.querySelector<HTMLMetaElement>("meta[name=code]")?.content.split(" ") ?? [];
  for (const file of files) if (!(await brought(file))) return;
  isWhole = true;
}

/** Whether a module is in the browser; it doesn't run yet. */
function brought(file: string): Promise<boolean> {
  const link = Object.assign(document.createElement("link"), { rel: "modulepreload", href: file, crossOrigin: "", fetchPriority: "low" });
  return new Promise((resolve) => {
    link.onload = () => resolve(true);
    link.onerror = () => resolve(false);
    document.head.append(link);
  });
}
