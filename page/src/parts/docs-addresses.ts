/** Addresses of the documentation's pages: of the files that the server has, and of the screen that shows them. */

/** Below /ui, the address of a file and that of the screen. */
const FILES = "/ui/docs-files/";
const PAGES = "/ui/docs/";
const HOME = "README.md";

/** The file that an address of the screen shows: "/docs" the README, "/docs/sweeps" docs/sweeps.md; undefined = none. */
export function fileOf(path: string): string | undefined {
  const name = path.replace(/^\/docs\/?/, "").replace(/\/$/, "");
  if (name === "") return HOME;
  return /^[\w-]+(\/[\w-]+)*$/.test(name) ? `docs/${name}.md` : undefined;
}

/** What a link within a file leads to: another page of the documentation, another host, or undefined = nothing that is here. */
export function targetOf(file: string, link: string): string | undefined {
  if (/^(https?:|mailto:)/i.test(link)) return link;
  const { pathname, hash } = new URL(link, `http://docs/${file}`);
  if (pathname === `/${HOME}`) return `${PAGES.slice(0, -1)}${hash}`;
  const name = /^\/docs\/(.+)\.md$/.exec(pathname)?.[1];
  return name && `${PAGES}${name}${hash}`;
}

export const addressOf = (file: string): string => FILES + file;

/** The address of a picture within a file. */
export const pictureOf = (file: string, link: string): string => FILES + new URL(link, `http://docs/${file}`).pathname.slice(1);

/** A heading's own part of the address, as GitHub makes it. */
export const slugOf = (heading: string): string => heading.trim().toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, "").replace(/\s/g, "-");
