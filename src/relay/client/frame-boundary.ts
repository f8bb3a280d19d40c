/** Finds where the frames of one side of a WebSocket end, without reading their content (RFC 6455, section 5.2). */
export interface FrameBoundary {
  read(bytes: Uint8Array): void;
  /** Returns whether a frame from another sender may follow the bytes read so far. */
  isBetweenFrames(): boolean;
}

export function createFrameBoundary(): FrameBoundary {
  /** Bytes of an incomplete frame head. */
  let head: number[] = [];
  /** Bytes that are left of a frame whose head was read. */
  let left = 0;

  return {
    read(bytes) {
      for (let at = 0; at < bytes.length; ) {
        if (left > 0) {
          const skipped = Math.min(left, bytes.length - at);
          left -= skipped;
          at += skipped;
          continue;
        }
        head.push(bytes[at] ?? 0);
        at += 1;
        const rest = restAfter(head);
        if (rest === undefined) continue;
        left = rest;
        head = [];
      }
    },
    isBetweenFrames: () => left === 0 && head.length === 0,
  };
}

/** Returns the size of the frame after this head; undefined while the head is incomplete. */
function restAfter(head: readonly number[]): number | undefined {
  const second = head[1];
  if (second === undefined) return undefined;
  const mask = second & 0x80 ? 4 : 0;
  const code = second & 0x7f;
  if (code < 126) return mask + code;
  const sizeBytes = code === 126 ? 2 : 8;
  if (head.length < 2 + sizeBytes) return undefined;
  return mask + head.slice(2).reduce((size, byte) => size * 256 + byte, 0);
}
