/** A part of a machine's memory that is not all zeros. */
export interface MemoryPiece {
  readonly at: number;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

const spanBytes = 4_096;
const zeros = Buffer.alloc(spanBytes);

/** Returns the indexes of the spans that contain data. */
export function usedSpans(buffer: ArrayBuffer): readonly number[] {
  const used: number[] = [];
  for (let at = 0; at < buffer.byteLength; at += spanBytes) {
    if (!zeros.equals(new Uint8Array(buffer, at, spanBytes))) used.push(at / spanBytes);
  }
  return used;
}

/** Copies the used spans and the given ones; adjacent spans become one piece. */
export function piecesOf(buffer: ArrayBuffer, written: ReadonlySet<number>): readonly MemoryPiece[] {
  const spans = [...written.union(new Set(usedSpans(buffer)))].sort((a, b) => a - b);
  const pieces: MemoryPiece[] = [];
  let first = 0;
  for (let i = 0; i < spans.length; i += 1) {
    const [from = 0, span = 0] = [spans[first], spans[i]];
    if (spans[i + 1] === span + 1) continue;
    pieces.push({
      at: from * spanBytes,
      bytes: new Uint8Array(buffer.slice(from * spanBytes, (span + 1) * spanBytes)),
    });
    first = i + 1;
  }
  return pieces;
}
