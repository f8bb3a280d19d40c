import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { verifiedNamesOf } from "../../base/http/certificate-names.ts";
import type { CallerOrigin } from "../../core/access/audience.ts";

/** Returns what a client's connection shows of the client. */
export const callerOriginOf = (socket: Socket, listener: string): CallerOrigin => ({
  listener,
  address: socket.remoteAddress,
  certificateNames: () => verifiedNamesOf(socket as Partial<TLSSocket>),
});
