/** A page of the documentation as HTML: headings with addresses, links between pages, pictures of this server. */

import DOMPurify from "dompurify";
import { Marked, type Tokens } from "marked";
import { pictureOf, targetOf } from "./docs-addresses";
import { ALLOWED_TAGS, ALLOWED_URI_REGEXP, escaped } from "./markdown-html";

export function docsHtml(text: string, file: string): string {
  const marked = new Marked({
    gfm: true,
    renderer: {
      // `<br>` stands in tables; other HTML isn't used, and comments are for those who edit.
      html: ({ text: html }) => (/^<br ?\/?>$/.test(html) ? "<br>" : html.startsWith("<!--") ? "" : escaped(html)),
      link({ href, tokens }: Tokens.Link) {
        const target = targetOf(file, href);
        const inner = this.parser.parseInline(tokens);
        return target ? `<a href="${escaped(target)}">${inner}</a>` : inner;
      },
      image: ({ href, text: words }) => `<img src="${escaped(pictureOf(file, href))}" alt="${escaped(words)}">`,
    },
  });
  return DOMPurify.sanitize(marked.parse(text, { async: false }), {
    ALLOWED_TAGS: [...ALLOWED_TAGS, "h1", "h2", "img"], ALLOWED_ATTR: ["href", "src", "alt", "start"], ALLOWED_URI_REGEXP, ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false,
  });
}
