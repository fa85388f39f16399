/** The HTML names what its screen asks for first, so that it is on its way before this script is.
 *
 * Components find it when they ask themselves: this module runs before the others.
 */

import { prefetch } from "./api";

for (const link of document.querySelectorAll("link[rel=preload][as=fetch]")) prefetch(link.getAttribute("href")!);
