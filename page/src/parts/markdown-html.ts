/** Markdown as HTML that is safe to show: nothing of it runs, and nothing of it is fetched. */

import DOMPurify from "dompurify";
import { Marked } from "marked";

/** Headings of a note stand below those of the screen. */
const LOWER = 2;
export const escaped = (text: string): string => text.replace(/[&<>"']/g, (one) => `&#${one.charCodeAt(0)};`);

const marked = new Marked({
  gfm: true,
  renderer: {
    // HTML within a note is shown as it was written.
    html: ({ text }) => escaped(text),
    heading({ tokens, depth }) {
      const level = Math.min(depth + LOWER, 6);
      return `<h${level}>${this.parser.parseInline(tokens)}</h${level}>`;
    },
    // A picture would be fetched from another host.
    image: ({ href, text }) => `<a href="${escaped(href)}">${escaped(text || href)}</a>`,
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
  },
});

export const ALLOWED_TAGS = [
  "a", "blockquote", "br", "code", "del", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
];
export const ALLOWED_URI_REGEXP = /^(https?:|mailto:|\/ui\/)/i;

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.nodeName !== "A" || !node.getAttribute("href") || node.getAttribute("href")!.startsWith("/ui/")) return;
  node.setAttribute("target", "_blank");
  node.setAttribute("rel", "noopener noreferrer");
});

export function htmlOf(text: string): string {
  const html = marked.parse(text, { async: false });
  return DOMPurify.sanitize(html, { ALLOWED_TAGS, ALLOWED_ATTR: ["href", "title", "start"], ALLOWED_URI_REGEXP, ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false });
}
