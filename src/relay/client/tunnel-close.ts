import { randomBytes } from "node:crypto";
import type { Socket } from "node:net";
import { createFrameBoundary } from "./frame-boundary.ts";

interface Tunnel {
  /** The client's socket. */
  readonly here: Socket;
  /** The provider's socket. */
  readonly there: Socket;
}

/** Close code "Going away", sent by a server that stops (RFC 6455, section 7.4.1). */
const goingAway = [0x03, 0xe9] as const;
/** Time limit to finish a frame, and to read the Close frame. */
const withinMs = 1_000;

/**
 * Ends a relayed WebSocket as its own ends would: with a Close frame to each side, once neither is inside a frame.
 * The Close frame tells a client that it may reconnect, and that no message was lost. Call this function when the two
 * sides are joined. The returned function closes the tunnel, and may be called more than once.
 */
export function createTunnelClose({ here, there }: Tunnel): () => void {
  const fromHere = createFrameBoundary();
  const fromThere = createFrameBoundary();
  let isDue = false;
  let isSaid = false;
  here.on("data", (bytes: Buffer) => {
    fromHere.read(bytes);
    if (isDue) process.nextTick(look);
  });
  there.on("data", (bytes: Buffer) => {
    fromThere.read(bytes);
    if (isDue) process.nextTick(look);
  });

  /**
   * Deferred, not run inside the `data` event: bytes that have just arrived must be forwarded before the Close frame.
   */
  function look(): void {
    if (isSaid || !fromHere.isBetweenFrames() || !fromThere.isBetweenFrames()) return;
    isSaid = true;
    for (const [from, to] of [
      [here, there],
      [there, here],
    ] as const) {
      from.unpipe(to);
      // Later bytes are discarded, but read, so that the end of the stream is seen.
      from.resume();
    }
    here.end(Buffer.from([0x88, goingAway.length, ...goingAway]));
    // Latchkey is a client of the provider, and clients mask (section 5.3).
    const mask = randomBytes(4);
    there.end(
      Buffer.from([0x88, 0x80 | goingAway.length, ...mask, ...goingAway.map((byte, i) => byte ^ (mask[i] ?? 0))]),
    );
  }

  return () => {
    if (isDue) return;
    isDue = true;
    look();
    const cut = setTimeout(() => {
      here.destroy();
      there.destroy();
    }, withinMs);
    here.once("close", () => clearTimeout(cut));
  };
}
