import type { IncomingHttpHeaders } from "node:http";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { verifiedNamesOf } from "../../base/http/certificate-names.ts";
import type { CallerOrigin } from "../../core/access/audience.ts";
import { relayedField } from "./authenticate-request.ts";

/** Returns what a client's connection shows of the client. */
export const callerOriginOf = (
  { socket, headers }: { readonly socket: Socket; readonly headers?: IncomingHttpHeaders },
  listener: string,
): CallerOrigin => ({
  listener,
  address: socket.remoteAddress,
  certificateNames: () => verifiedNamesOf(socket as Partial<TLSSocket>),
  isRelayed: headers?.[relayedField] !== undefined,
});
