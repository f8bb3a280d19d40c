import { ConnectionError, errorCodes } from "./error-codes.ts";

export const protocolError = (message: string) => new ConnectionError(errorCodes.protocolError, message);

export function requireLength({ length }: Buffer, expected: number, frame: string): void {
  if (length !== expected) throw new ConnectionError(errorCodes.frameSizeError, `a ${frame} frame has a wrong length`);
}

/** RFC 9113, 6.3: what a PRIORITY frame says is ignored. */
export function requirePriority(streamId: number, payload: Buffer): void {
  if (streamId === 0) throw protocolError("PRIORITY of no stream");
  requireLength(payload, 5, "PRIORITY");
}
