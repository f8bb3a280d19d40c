import type { EdgeHello } from "../gen/latchkey/v1/edge_pb.ts";

/** What an edge has, with versions. */
export type HeldVersions = Pick<EdgeHello, "connections" | "keys" | "integrations" | "providers">;

/** A gRPC server takes 4 MiB. A part may have one item more than this. */
const maxPartBytes = 1_048_576;
/** Limits the tags and lengths of an item. */
const overheadBytes = 24;

/** `EdgeHello.held_messages` may say no more, which is enough for all connections that a broker lets an edge follow. */
export const maxFurtherParts = 20;

/** Divides what an edge has into parts, each small enough for one message. There is at least one. */
export function heldParts(held: HeldVersions): readonly [HeldVersions, ...HeldVersions[]] {
  const first: HeldVersions = { connections: [], keys: [], integrations: [], providers: [] };
  const parts: [HeldVersions, ...HeldVersions[]] = [first];
  let part = first;
  let bytes = 0;
  const roomFor = (itemBytes: number): HeldVersions => {
    if (bytes > 0 && bytes + itemBytes > maxPartBytes) {
      part = { connections: [], keys: [], integrations: [], providers: [] };
      parts.push(part);
      bytes = 0;
    }
    bytes += itemBytes;
    return part;
  };
  // Keys first: what was revoked matters most.
  for (const one of held.keys) roomFor(one.digest.length + one.version.length + overheadBytes).keys.push(one);
  for (const name of ["providers", "integrations"] as const) {
    for (const one of held[name])
      roomFor(Buffer.byteLength(one.name) + one.version.length + overheadBytes)[name].push(one);
  }
  for (const one of held.connections) {
    const { environment = "", integration = "", id = "" } = one.ref ?? {};
    const named = Buffer.byteLength(environment) + Buffer.byteLength(integration) + Buffer.byteLength(id);
    roomFor(named + one.version.length + overheadBytes).connections.push(one);
  }
  return parts;
}
