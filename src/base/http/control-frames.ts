import type { Http2Session } from "node:http2";

const windowMs = 10_000;
const maxFrames = 1_000;
/** The answer to a PING has 17 bytes, and 39 under TLS: whoever is sent more than this is sent something else too. */
const bytesOfAnswer = 64;

/**
 * Calls back when a peer sends PING and SETTINGS frames for their own sake: each costs it nothing, and us an answer.
 * A gRPC client measures its way with PINGs while it is sent messages, as often as they come; those are no flood.
 */
export function limitControlFrames(session: Http2Session, onFlood: () => void): void {
  let since = performance.now();
  let count = 0;
  let sentBefore = 0;

  function begin(): void {
    since = performance.now();
    count = 0;
    sentBefore = session.socket.bytesWritten;
  }

  function take(): void {
    if (session.destroyed) return;
    if (performance.now() - since > windowMs) begin();
    count += 1;
    if (count <= maxFrames) return;
    if (session.socket.bytesWritten - sentBefore > count * bytesOfAnswer) begin();
    else onFlood();
  }

  session.on("ping", take);
  session.on("remoteSettings", take);
}
