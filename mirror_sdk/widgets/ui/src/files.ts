/* Files for the user of the browser. */

/** Offer a file as a download. */
export function download(name: string, content: Blob | BufferSource): void {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content as BlobPart]));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
