import type { World } from "../../base/world.ts";
import type { StoredConnections, TimedConnection } from "../credentials/live-connections.ts";
import { type ConnectionSender, connectionMessage } from "./connection-sender.ts";
import { saysGone } from "./edge-fault.ts";
import type { FollowedConnection } from "./followed-connections.ts";
import { createRechecks } from "./rechecks.ts";
import type { RefreshAhead } from "./refresh-ahead.ts";

/** Reads followed connections, and sends changed ones to the edges that have another version. */
export interface ConnectionChecks {
  /** Reads a connection as it is now: not as it was before a change that came during the read. */
  read(one: FollowedConnection): Promise<TimedConnection>;
  /** The connection may have changed. */
  add(one: FollowedConnection): void;
  close(): void;
}

interface ConnectionChecksOptions {
  readonly live: StoredConnections;
  readonly sender: ConnectionSender;
  readonly ahead: RefreshAhead;
  readonly world: World;
}

const checksAtOnce = 32;
/** Limits the reads of a connection that changes again and again. */
const maxReads = 3;

export function createConnectionChecks(options: ConnectionChecksOptions): ConnectionChecks {
  const { live, sender, ahead, world } = options;

  async function read(one: FollowedConnection): Promise<TimedConnection> {
    for (let reads = 1; ; reads += 1) {
      const { changes } = one;
      const found = await live.stored(one.ref);
      if (changes !== one.changes && reads < maxReads) continue;
      one.record = connectionMessage(found).record;
      ahead.plan(one, found.refreshFrom);
      return found;
    }
  }

  async function check(one: FollowedConnection): Promise<void> {
    if (one.streams.size === 0) return;
    let found: TimedConnection;
    try {
      found = await read(one);
    } catch (error) {
      if (!saysGone(error)) throw error;
      one.record = undefined;
      for (const stream of one.streams) {
        // An edge that has no version was told already, or will be by the answer that it waits for.
        if (stream.connections.get(one.key)?.length !== 0) sender.sendFault(stream, one, error);
      }
      return;
    }
    for (const stream of one.streams) sender.sendIfOther(stream, one, found);
  }

  const rechecks = createRechecks({ check, atOnce: checksAtOnce, world });
  return {
    read,
    add(one) {
      one.changes += 1;
      rechecks.add(one.key, one);
    },
    close: rechecks.close,
  };
}
