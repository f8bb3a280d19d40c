import type { Fault } from "../fault.ts";

/** Numbers of the gRPC status codes. */
const statuses: Readonly<Record<Fault["rpc"], number>> = {
  InvalidArgument: 3,
  DeadlineExceeded: 4,
  NotFound: 5,
  AlreadyExists: 6,
  PermissionDenied: 7,
  ResourceExhausted: 8,
  FailedPrecondition: 9,
  Aborted: 10,
  Unimplemented: 12,
  Internal: 13,
  Unavailable: 14,
  Unauthenticated: 16,
};

/** Returns the head of a response without a body (`Trailers-Only`) that reports a fault; its HTTP status is 200. */
export const grpcRefusal = (fault: Fault): Readonly<Record<string, string>> => ({
  "content-type": "application/grpc",
  "grpc-status": String(statuses[fault.rpc]),
  "grpc-message": percentEncoded(fault.message),
  "latchkey-error": fault.code,
  ...(fault.metadata["approval"] !== undefined && { "latchkey-approval": fault.metadata["approval"] }),
});

/** Percent-encodes UTF-8 bytes that are not printable ASCII, and the percent sign. */
const percentEncoded = (text: string): string =>
  Array.from(Buffer.from(text), (byte) =>
    byte < 0x20 || byte > 0x7e || byte === 0x25
      ? `%${byte.toString(16).toUpperCase().padStart(2, "0")}`
      : String.fromCharCode(byte),
  ).join("");
