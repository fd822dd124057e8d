/** The files of a drop or a choice, folders included. */

import type { Chosen } from "./plan";

const MOST_FILES = 2000;

export class TooManyFiles extends Error {
  constructor() {
    super(`There are more than ${MOST_FILES} files in there. Choose the files of one model.`);
  }
}

export function chosenFiles(files: readonly File[]): Chosen[] {
  if (files.length > MOST_FILES) throw new TooManyFiles();
  return files.map((file) => ({ path: file.webkitRelativePath || file.name, file }));
}

/** The entries have to be taken before anything is awaited: the browser forgets them after the event. */
export async function droppedFiles(transfer: DataTransfer): Promise<Chosen[]> {
  const entries = Array.from(transfer.items, (item) => item.webkitGetAsEntry());
  const files = Array.from(transfer.files);
  const found: Chosen[] = [];
  for (const [index, entry] of entries.entries()) {
    const file = files[index];
    if (entry) await collect(entry, found);
    else if (file) found.push({ path: file.name, file });
  }
  return found;
}

async function collect(entry: FileSystemEntry, found: Chosen[]): Promise<void> {
  if (found.length >= MOST_FILES) throw new TooManyFiles();
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
    found.push({ path: entry.fullPath.replace(/^\//, ""), file });
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    // A folder tells its entries in parts, and ends with an empty one.
    const part = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (part.length === 0) return;
    for (const inner of part) await collect(inner, found);
  }
}
