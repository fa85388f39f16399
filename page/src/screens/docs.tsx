/** The documentation of this very version, which the server has: its README and its pages, with links between them. */

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { ApiError } from "../api";
import { useReading } from "../hooks";
import { addressOf, fileOf, slugOf } from "../parts/docs-addresses";
import { Nothing, Refused } from "../parts/placeholders";
import { href, usePlace } from "../router";

interface Page { title: string; html: string }

export function DocsScreen() {
  const { path } = usePlace();
  const answer = useReading<Page>(path, (signal) => pageOf(path, signal));
  const box = useRef<HTMLDivElement>(null);
  const page = answer.value;
  useEffect(() => {
    if (page) document.title = `${page.title} · drumbeat`;
  }, [page]);
  // The text comes behind the address: what its last part names is looked for once it is here.
  useLayoutEffect(() => {
    if (page && location.hash) box.current?.querySelector(`#${CSS.escape(decodeURIComponent(location.hash.slice(1)))}`)?.scrollIntoView();
  }, [page]);
  if (answer.error?.status === 404) return <div class="screen docs"><h1>There is no such page</h1><Nothing><a href={href("/docs")}>The documentation</a></Nothing></div>;
  if (answer.error) return <div class="screen docs"><h1>Documentation</h1><Refused error={answer.error} /></div>;
  if (!page) return <div class="screen docs"><h1>Documentation</h1><p class="nothing loading">Loading…</p></div>;
  return (
    <div class="screen docs">
      {path !== "/docs" && <p><a href={href("/docs")}>Documentation</a></p>}
      <div ref={box} class="markdown" dangerouslySetInnerHTML={{ __html: page.html }} />
    </div>
  );
}

async function pageOf(path: string, signal: AbortSignal): Promise<Page> {
  const file = fileOf(path);
  const missing = new ApiError(404, "there is no such page of the documentation", path, "");
  if (!file) throw missing;
  const [answer, { docsHtml }] = await Promise.all([fetch(addressOf(file), { signal }), import("../parts/docs-html")]);
  if (answer.status === 404) throw missing;
  if (!answer.ok) throw new ApiError(answer.status, "the page of the documentation can't be read", path, "Try it again.");
  const text = await answer.text();
  const content = document.createElement("div");
  content.innerHTML = docsHtml(text, file);
  const used = new Map<string, number>();
  for (const heading of content.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
    const slug = slugOf(heading.textContent);
    const before = used.get(slug) ?? 0;
    used.set(slug, before + 1);
    heading.id = before ? `${slug}-${before}` : slug;
  }
  for (const example of content.querySelectorAll("pre")) example.tabIndex = 0;
  for (const table of content.querySelectorAll("table")) {
    for (const head of table.querySelectorAll("th:empty")) head.replaceWith(document.createElement("td"));
    // What is wider than the page is scrolled by itself.
    const scroll = Object.assign(document.createElement("div"), { className: "scroll", tabIndex: 0, role: "group", ariaLabel: "Table" });
    table.replaceWith(scroll);
    scroll.append(table);
  }
  return { title: content.querySelector("h1")?.textContent ?? "Documentation", html: content.innerHTML };
}
