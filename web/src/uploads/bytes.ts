/** Bytes of a file that may be larger than memory, read in windows. */

export interface Source {
  readonly size: number;
  /** Bytes `start` to `stop`, exclusive. */
  read(start: number, stop: number): Uint8Array;
}

/** Only workers have it, and the types of pages do not tell of it. */
declare const FileReaderSync: new () => { readAsArrayBuffer(blob: Blob): ArrayBuffer };

/** A file, in a worker: only there may a script wait for its bytes. */
export function fileSource(file: Blob): Source {
  const reader = new FileReaderSync();
  return {
    size: file.size,
    read: (start, stop) => new Uint8Array(reader.readAsArrayBuffer(file.slice(start, stop))),
  };
}

export function bytesSource(bytes: Uint8Array): Source {
  return { size: bytes.length, read: (start, stop) => bytes.subarray(start, stop) };
}

const WINDOW = 64 * 1024;

/** Single bytes of a source without a read for each of them. */
export class Window {
  private start = 0;
  private bytes: Uint8Array = new Uint8Array();

  constructor(private readonly source: Source) {}

  get size(): number {
    return this.source.size;
  }

  byte(at: number): number {
    if (at < this.start || at >= this.start + this.bytes.length) {
      this.start = at;
      this.bytes = this.source.read(at, Math.min(this.source.size, at + WINDOW));
    }
    return this.bytes[at - this.start] ?? 0;
  }

  range(start: number, stop: number): Uint8Array {
    if (start >= this.start && stop <= this.start + this.bytes.length) {
      return this.bytes.subarray(start - this.start, stop - this.start);
    }
    return this.source.read(start, stop);
  }
}
