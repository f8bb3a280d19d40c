import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import { EdgeHeartbeatSchema } from "../../gen/latchkey/v1/edge_pb.ts";
import type { EdgeStream } from "./edge-stream.ts";

export const heartbeatEveryMs = 10_000;
/** An edge that does not take a waiting message for this long is ended. */
const stalledMs = 5_000;

/** Sends a sign of life, or ends the stream of an edge that gave none. Returns whether the edge reads too slowly. */
export function keepAlive(stream: EdgeStream, world: Pick<World, "now">): boolean {
  const { outbox, isPaused, heardAtMs, beatAtMs } = stream;
  const now = performance.now();
  if (!isPaused && now - heardAtMs > 3 * heartbeatEveryMs) {
    outbox.end(new Fault("request_timeout", "the edge sent nothing for too long"));
  } else if (outbox.size === 0 && now - beatAtMs >= heartbeatEveryMs) {
    // Also on a busy stream: either clock may have been set.
    stream.beatAtMs = now;
    outbox.put("heartbeat", {
      case: "heartbeat",
      value: create(EdgeHeartbeatSchema, { now: timestampFromMs(world.now()) }),
    });
  } else if (outbox.size > 0 && now - outbox.takenAtMs > stalledMs) {
    outbox.end(new Fault("watch_too_slow", "the edge did not read what was sent to it"));
    return true;
  }
  return false;
}
