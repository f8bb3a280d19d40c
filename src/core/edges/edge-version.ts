import { hash } from "node:crypto";
import { type DescMessage, type MessageShape, toBinary } from "@bufbuild/protobuf";

const versionBytes = 16;

/**
 * Returns the version of a message for edges: a hash of its content, so that all brokers compute the same one. Edges
 * that come from another broker get only what differs.
 */
export function edgeVersion<S extends DescMessage>(schema: S, message: MessageShape<S>): Uint8Array {
  return hash("sha256", toBinary(schema, message), "buffer").subarray(0, versionBytes);
}

export const isSameVersion = (one: Uint8Array, other: Uint8Array): boolean => Buffer.compare(one, other) === 0;
