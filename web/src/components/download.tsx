/** A file that the service keeps, to be saved: the browser sends its session along. */

import { BASE } from "../api/client";

interface DownloadProps {
  readonly digest: string;
  /** What the file is called when it is saved. */
  readonly file: string;
  readonly children: string;
}

export function Download({ digest, file, children }: DownloadProps) {
  return (
    <a class="button" href={`${BASE}/blobs/sha256/${digest}`} download={file}>
      {children}
    </a>
  );
}
