import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { Fault } from "../../../base/fault.ts";
import { lowerCase } from "../../../base/http/field-name.ts";

/** Headers by their names as written; a repeated header is a list. */
export type HandshakeHeaders = Record<string, string | string[]>;

/** Converts name, value, name, value to headers by name. */
export function handshakeHeaders(pairs: readonly string[]): HandshakeHeaders {
  const made: HandshakeHeaders = Object.create(null);
  const names = new Map<string, string>();
  for (let i = 0; i < pairs.length; i += 2) {
    const name = pairs[i] ?? "";
    const value = pairs[i + 1] ?? "";
    const known = names.get(lowerCase(name));
    const before = known === undefined ? undefined : made[known];
    if (known === undefined || before === undefined) {
      names.set(lowerCase(name), name);
      made[name] = value;
    } else {
      made[known] = [before, value].flat();
    }
  }
  return made;
}

/** RFC 6455, section 1.3. */
const guid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/**
 * Returns the `Sec-WebSocket-Accept` that a WebSocket server must send for a request. No other server can compute it,
 * so no other `101` opens a tunnel.
 */
export function acceptFor(headers: HandshakeHeaders): string {
  const key = Object.entries(headers).find(([name]) => lowerCase(name) === "sec-websocket-key")?.[1];
  if (typeof key !== "string" || !/^[A-Za-z0-9+/]{22}==$/.test(key)) {
    throw new Fault(
      "malformed_request",
      "a request for a WebSocket must have one Sec-WebSocket-Key of 16 bytes in base64",
    );
  }
  return createHash("sha1").update(key).update(guid).digest("base64");
}

/** Returns whether a response opens the WebSocket whose request expects this `accept`. */
export const isAccepted = ({ statusCode, headers }: IncomingMessage, accept: string): boolean =>
  statusCode === 101 &&
  // RFC 9112, section 6: a response without a body has no framing.
  headers["content-length"] === undefined &&
  headers["transfer-encoding"] === undefined &&
  headers.upgrade?.toLowerCase() === "websocket" &&
  headers["sec-websocket-accept"] === accept;
