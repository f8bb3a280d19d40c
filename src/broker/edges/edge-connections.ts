import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import { edgeConnectionRecord } from "../../core/edges/edge-connection.ts";
import { edgeVersion, isSameVersion } from "../../core/edges/edge-version.ts";
import { type Connection, type ConnectionRef, ConnectionSchema } from "../../gen/latchkey/v1/connection_pb.ts";
import type { HeldConnection, WantedConnection } from "../../gen/latchkey/v1/edge_pb.ts";
import { connectionKey } from "../connections/connection-collections.ts";
import type { Live, StoredConnections } from "../credentials/live-connections.ts";
import type { Providers } from "../setup/providers.ts";
import { createConnectionChecks } from "./connection-checks.ts";
import { connectionMessage, createConnectionSender } from "./connection-sender.ts";
import type { EdgeAudit } from "./edge-audit.ts";
import { refusalOf, saysGone } from "./edge-fault.ts";
import type { EdgeSetups } from "./edge-setups.ts";
import type { EdgeStream } from "./edge-stream.ts";
import { type FollowedConnection, FollowedConnections } from "./followed-connections.ts";
import { createRefreshAhead } from "./refresh-ahead.ts";

/** Connections for the edges that use them. */
export interface EdgeConnections {
  /** Answers with a connection that can be used now, or with a fault. */
  answer(stream: EdgeStream, wanted: WantedConnection): Promise<void>;
  /** Follows a connection that the edge still has, and sends it if it has changed. */
  resume(stream: EdgeStream, held: HeldConnection): Promise<void>;
  /** Notes that the edge has used a connection. Returns whether the edge follows it. */
  used(stream: EdgeStream, named: FollowedName, atMs: number): boolean;
  drop(stream: EdgeStream, named: FollowedName): void;
  dropAll(stream: EdgeStream): void;
  /** The store has changed a connection; `recordOf` returns its new record if that is what has changed. */
  changed(named: ChangedConnection, recordOf?: () => Connection | undefined): void;
  integrationChanged(environment: string, key: string): void;
  /** Checks all that is followed: changes may have been missed. */
  allChanged(): void;
  /** Refreshes what is due. */
  refreshDue(): void;
  close(): void;
}

/** A connection in the environment of an edge. */
type FollowedName = Pick<ConnectionRef, "integration" | "id">;
export type ChangedConnection = Pick<ConnectionRef, "environment" | "integration" | "id">;

interface EdgeConnectionsOptions {
  readonly live: Live & StoredConnections;
  readonly providers: Pick<Providers, "lookUp">;
  readonly setups: EdgeSetups;
  readonly onPush: () => void;
  readonly audit: Pick<EdgeAudit, "delivered">;
  readonly world: World;
}

/** Connections that one edge may follow. */
export const maxConnections = 20_000;

const keyIn = ({ edge }: EdgeStream, { integration, id }: FollowedName): string =>
  connectionKey({ environment: edge.environment, integration, id });

/** Throws unless the edge may follow this connection. */
function requireAllowed(stream: EdgeStream, ref: ConnectionRef): void {
  const refusal = refusalOf(stream, ref.environment);
  if (refusal !== undefined) throw refusal;
  if (stream.connections.size < maxConnections || stream.connections.has(keyIn(stream, ref))) return;
  const message = `the edge follows ${maxConnections} connections, which is the limit; it must drop some first`;
  throw new Fault("too_many_requests", message);
}

export function createEdgeConnections(options: EdgeConnectionsOptions): EdgeConnections {
  const { live, providers, setups, onPush, audit, world } = options;
  const followed = new FollowedConnections();
  const ahead = createRefreshAhead({ live, world });
  const sender = createConnectionSender({ setups, onPush, audit });
  const checks = createConnectionChecks({ live, sender, ahead, world });

  /** Refreshes what has expired, or what the provider has refused. */
  async function makeUsable({ ref }: FollowedConnection, { refusedVersion, token }: WantedConnection): Promise<void> {
    const usable = await live.get(ref, token === "" ? {} : { token });
    if (refusedVersion.length === 0) return;
    // Another version than the refused one is a replacement already.
    const { version } = connectionMessage(await live.stored(ref));
    if (isSameVersion(version, refusedVersion)) await live.replacementOf(usable);
  }

  function drop(stream: EdgeStream, key: string): void {
    followed.unfollow(stream, key);
    stream.delivered.delete(key);
    sender.cancel(stream, key);
  }

  return {
    async answer(stream, wanted) {
      const { ref, requestId } = wanted;
      if (ref === undefined) return;
      let one: FollowedConnection;
      try {
        requireAllowed(stream, ref);
        // Followed before it is read, so that no change is missed.
        one = followed.follow(stream, ref, world.now());
      } catch (error) {
        sender.refuse(stream, ref, error, requestId);
        return;
      }
      try {
        await makeUsable(one, wanted);
        sender.send(stream, one, await checks.read(one), requestId);
      } catch (error) {
        sender.sendFault(stream, one, error, requestId);
      }
    },
    async resume(stream, { ref, version }) {
      if (ref === undefined) return;
      requireAllowed(stream, ref);
      const one = followed.follow(stream, ref, world.now());
      stream.connections.set(one.key, version);
      try {
        sender.sendIfOther(stream, one, await checks.read(one));
      } catch (error) {
        // What cannot be read now is read later.
        if (saysGone(error)) sender.sendFault(stream, one, error);
        else checks.add(one);
      }
      await stream.outbox.room();
    },
    used(stream, named, atMs) {
      const key = keyIn(stream, named);
      const one = stream.connections.has(key) ? followed.find(key) : undefined;
      if (one === undefined) return false;
      one.usedAtMs = Math.max(one.usedAtMs, atMs);
      ahead.used(one);
      return true;
    },
    drop: (stream, named) => drop(stream, keyIn(stream, named)),
    dropAll(stream) {
      for (const key of [...stream.connections.keys()]) drop(stream, key);
    },
    changed(named, recordOf) {
      const one = followed.find(connectionKey(named));
      if (one === undefined) return;
      const record = recordOf?.();
      const shown = record && edgeConnectionRecord(record, providers.lookUp(record.provider));
      const before = shown === undefined ? undefined : one.record;
      const isSame =
        shown !== undefined && before !== undefined && isSameVersion(edgeVersion(ConnectionSchema, shown), before);
      if (!isSame) checks.add(one);
    },
    integrationChanged(environment, key) {
      for (const one of followed.ofIntegration(environment, key)) checks.add(one);
    },
    allChanged() {
      for (const one of followed.all()) checks.add(one);
    },
    refreshDue: ahead.run,
    close: checks.close,
  };
}
