/** PDF files as tests need them, written by hand. */

/** A file of these objects, the first of which is its catalog; a text, or [dictionary, stream]. */
export function pdfOf(objects) {
  let text = "%PDF-1.7\n";
  const places = objects.map((one, n) => {
    const at = text.length;
    const [dictionary, stream] = Array.isArray(one) ? one : [one];
    const body = stream === undefined ? dictionary : `${dictionary.replace(/>>$/, ` /Length ${stream.length} >>`)}\nstream\n${stream}\nendstream`;
    text += `${n + 1} 0 obj\n${body}\nendobj\n`;
    return at;
  });
  const table = places.map((at) => `${String(at).padStart(10, "0")} 00000 n \n`).join("");
  return Buffer.from(`${text}xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${table}trailer\n<< /Size ${objects.length + 1} /Root 1 0 R >>\nstartxref\n${text.length}\n%%EOF\n`, "latin1");
}

/** Pages with a large word each. box: the size of each page. catalog, page: more entries of these. others: more objects, from number 4 + 2 × pages. */
export function pagesOf(count, { box = "0 0 300 200", catalog = "", page = "", others = [] } = {}) {
  const pages = Array.from({ length: count }, (_, n) => [
    `<< /Type /Page /Parent 2 0 R /MediaBox [${box}] /Contents ${5 + 2 * n} 0 R /Resources << /Font << /F 3 0 R >> >> ${page} >>`,
    ["<< >>", `BT /F 48 Tf 20 80 Td (Page ${n + 1}) Tj ET 20 20 100 40 re f`],
  ]).flat();
  const kids = Array.from({ length: count }, (_, n) => `${4 + 2 * n} 0 R`).join(" ");
  return pdfOf([`<< /Type /Catalog /Pages 2 0 R ${catalog} >>`, `<< /Type /Pages /Kids [${kids}] /Count ${count} >>`, "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>", ...pages, ...others]);
}
