import type { Http2Session } from "node:http2";

const windowMs = 10_000;
const maxFrames = 1_000;
/** A session changes its settings a few times in its life. */
const maxSettings = 100;
/** A PING response has 17 bytes, 39 with TLS: a peer that gets more per frame gets other data as well. */
const bytesOfAnswer = 64;

/**
 * Calls back when a peer floods PING and SETTINGS frames: each costs the peer nothing, and Latchkey a response. A gRPC
 * client sends PINGs to measure bandwidth, as often as it receives messages; those are not a flood.
 */
export function limitControlFrames(session: Http2Session, onFlood: () => void): void {
  const take = createFrameLimit(() => session.socket.bytesWritten, onFlood);
  const takeOf = () => {
    if (!session.destroyed) take();
  };
  const takeSettings = createSettingsLimit(onFlood);
  session.on("ping", takeOf);
  session.on("remoteSettings", () => {
    if (!session.destroyed) takeSettings();
  });
}

/** Returns a function to call for each SETTINGS frame: a change of the window may cause a frame on every stream. */
export const createSettingsLimit = (onFlood: () => void): (() => void) => createLimit(maxSettings, () => 0, onFlood);

/** Returns a function to call for each control frame of a peer. `bytesWritten`: to the peer, of any kind. */
export const createFrameLimit = (bytesWritten: () => number, onFlood: () => void): (() => void) =>
  createLimit(maxFrames, bytesWritten, onFlood);

function createLimit(most: number, bytesWritten: () => number, onFlood: () => void): () => void {
  let since = performance.now();
  let count = 0;
  let sentBefore = 0;

  function begin(): void {
    since = performance.now();
    count = 0;
    sentBefore = bytesWritten();
  }

  return () => {
    if (performance.now() - since > windowMs) begin();
    count += 1;
    if (count <= most) return;
    if (bytesWritten() - sentBefore > count * bytesOfAnswer) begin();
    else onFlood();
  };
}
