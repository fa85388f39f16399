/** The script of the frame in which a PDF is drawn. The frame has no origin, no session and no network: what a file could bring a reader to do ends here. */

import { getDocument, type PDFDocumentProxy, type PDFPageProxy } from "pdfjs-dist/build/pdf.min.mjs";
import * as worker from "pdfjs-dist/build/pdf.worker.min.mjs";

const MAX_PAGES = 20;
const MAX_WIDTH = 1600;
const MAX_AREA = 4_000_000;
/** Pixels of a page. */
const PAGE_MS = 10_000;
/** How long a page may take to draw. */

// A frame without an origin can't start a worker from a file of the server.
Object.assign(globalThis, { pdfjsWorker: worker });

const tell = (message: object): void => parent.postMessage(message, "*");

addEventListener("message", ({ source, data }) => {
  if (source === parent && data instanceof ArrayBuffer) show(data).catch((error: Error) => tell({ problem: error.name === "PasswordException" ? "password" : "broken" }));
}, { once: true });
tell({ isReady: true });

async function show(bytes: ArrayBuffer): Promise<void> {
  const file = await getDocument({
    data: bytes, enableXfa: false, useWasm: false, useWorkerFetch: false, isOffscreenCanvasSupported: false, maxImageSize: 1 << 26, canvasMaxAreaInBytes: MAX_AREA * 4,
    verbosity: 0, stopAtErrors: false,
  }).promise;
  tell({ pages: file.numPages, shown: Math.min(file.numPages, MAX_PAGES) });
  for (let n = 1; n <= Math.min(file.numPages, MAX_PAGES); n += 1) document.body.append(await canvasOf(file, n));
  tell({ isDone: true });
}

async function canvasOf(file: PDFDocumentProxy, n: number): Promise<HTMLElement> {
  const canvas = document.createElement("canvas");
  Object.assign(canvas.style, { display: "block", maxWidth: "100%", margin: "0 auto 10px", boxShadow: "0 0 0 1px #ccc" });
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `Page ${n} of ${file.numPages}`);
  try {
    await draw(await file.getPage(n), canvas);
  } catch {
    return Object.assign(document.createElement("p"), { textContent: `Page ${n} can't be drawn.` });
  }
  return canvas;
}

async function draw(page: PDFPageProxy, canvas: HTMLCanvasElement): Promise<void> {
  const { width, height } = page.getViewport({ scale: 1 });
  const scale = Math.min(MAX_WIDTH / width, Math.sqrt(MAX_AREA / (width * height)), MAX_AREA / MAX_WIDTH / height);
  const viewport = page.getViewport({ scale });
  [canvas.width, canvas.height] = [Math.max(1, Math.floor(viewport.width)), Math.max(1, Math.floor(viewport.height))];
  // Annotations, which have links, forms and scripts, aren't drawn.
  const task = page.render({ canvas, viewport, annotationMode: 0 });
  const timer = setTimeout(() => task.cancel(), PAGE_MS);
  await task.promise.finally(() => clearTimeout(timer));
  page.cleanup();
}
