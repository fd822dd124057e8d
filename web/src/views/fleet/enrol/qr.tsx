/** A text as a QR code, drawn as one path. */

import { useFetched } from "../../../hooks";

const QUIET = 4;

interface Code {
  readonly size: number;
  readonly path: string;
}

/** The dark modules as a path: one stroke for each stretch of a row. */
export async function codeOf(text: string): Promise<Code> {
  const { default: qrcode } = await import("qrcode-generator");
  const code = qrcode(0, "M");
  code.addData(text);
  code.make();
  const size = code.getModuleCount();
  const strokes: string[] = [];
  for (let row = 0; row < size; row++) {
    for (let start = 0; start < size; start++) {
      let end = start;
      while (end < size && code.isDark(row, end)) end++;
      if (end > start) strokes.push(`M${start} ${row}h${end - start}v1h-${end - start}z`);
      start = end;
    }
  }
  return { size, path: strokes.join("") };
}

export function QrCode({ text, label }: { readonly text: string; readonly label: string }) {
  const code = useFetched(text, codeOf);
  // Black on white in the dark as well: cameras look for it.
  const side = (code?.size ?? 1) + 2 * QUIET;
  return (
    <svg class="qr" viewBox={`${-QUIET} ${-QUIET} ${side} ${side}`} role="img" aria-label={label}>
      {code && <path d={code.path} />}
    </svg>
  );
}
