import { randomBytes } from "node:crypto";
import type { Socket } from "node:net";
import { createFrameBoundary } from "./frame-boundary.ts";

interface Tunnel {
  /** The caller's side. */
  readonly here: Socket;
  /** The provider's. */
  readonly there: Socket;
}

/** "Going away", as a server says that stops (RFC 6455, section 7.4.1). */
const goingAway = [0x03, 0xe9] as const;
/** Who is in the middle of a frame may finish it, and who was told may take it in. */
const withinMs = 1_000;

/**
 * Ends a WebSocket that we carry as its own ends would: with a Close frame to either side, once none is in the middle
 * of a frame. A caller knows by it that it may come again, and to whom nothing was lost. Call it when the two sides
 * are joined; the function that it returns says goodbye, once.
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

  /** Not from within the event: what has just come is to be passed on before it. */
  function look(): void {
    if (isSaid || !fromHere.isBetweenFrames() || !fromThere.isBetweenFrames()) return;
    isSaid = true;
    for (const [from, to] of [
      [here, there],
      [there, here],
    ] as const) {
      from.unpipe(to);
      // What still comes is for nobody, and is read so that its end is.
      from.resume();
    }
    here.end(Buffer.from([0x88, goingAway.length, ...goingAway]));
    // To a server we are a client, and clients mask (section 5.3).
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
