import { create } from "@bufbuild/protobuf";
import { edgeLiveConnection } from "../../core/edges/edge-connection.ts";
import { edgeVersion, isSameVersion } from "../../core/edges/edge-version.ts";
import { type ConnectionRef, ConnectionSchema } from "../../gen/latchkey/v1/connection_pb.ts";
import {
  type EdgeConnection,
  EdgeConnectionSchema,
  type EdgeLiveConnection,
  EdgeLiveConnectionSchema,
} from "../../gen/latchkey/v1/edge_pb.ts";
import { targetOf } from "../connections/connection-collections.ts";
import type { TimedConnection } from "../credentials/live-connections.ts";
import type { EdgeAudit } from "./edge-audit.ts";
import { edgeFaultOf, saysGone } from "./edge-fault.ts";
import type { EdgeSetups } from "./edge-setups.ts";
import { type EdgeStream, noVersion } from "./edge-stream.ts";
import type { FollowedConnection } from "./followed-connections.ts";

interface ConnectionMessage {
  readonly value: EdgeLiveConnection;
  readonly version: Uint8Array;
  /** Version of the record within. */
  readonly record: Uint8Array;
}

const messages = new WeakMap<TimedConnection, ConnectionMessage>();

/** Returns what edges get of a connection. Computed once for each change, and forgotten with the cached connection. */
export function connectionMessage(found: TimedConnection): ConnectionMessage {
  const known = messages.get(found);
  if (known !== undefined) return known;
  const value = edgeLiveConnection(found);
  const { connection } = value;
  const made = {
    value,
    version: edgeVersion(EdgeLiveConnectionSchema, value),
    record: connection === undefined ? noVersion : edgeVersion(ConnectionSchema, connection),
  };
  messages.set(found, made);
  return made;
}

/** Sends connections, with all that their use needs. A `requestId` makes the message an answer. */
export interface ConnectionSender {
  send(stream: EdgeStream, one: FollowedConnection, found: TimedConnection, requestId?: bigint): void;
  /** Does the same unless the edge has this version. */
  sendIfOther(stream: EdgeStream, one: FollowedConnection, found: TimedConnection): void;
  sendFault(stream: EdgeStream, one: FollowedConnection, thrown: unknown, requestId?: bigint): void;
  /** Answers a request for a connection that the edge may not follow. */
  refuse(stream: EdgeStream, ref: ConnectionRef, thrown: unknown, requestId: bigint): void;
  /** Drops a message that waits. */
  cancel(stream: EdgeStream, key: string): void;
}

interface ConnectionSenderOptions {
  readonly setups: Pick<EdgeSetups, "ensure">;
  readonly onPush: () => void;
  readonly audit: Pick<EdgeAudit, "delivered">;
}

const subjectOf = (key: string) => `connection ${key}`;

export function createConnectionSender({ setups, onPush, audit }: ConnectionSenderOptions): ConnectionSender {
  function put(stream: EdgeStream, one: FollowedConnection, value: EdgeConnection): void {
    if (value.requestId !== 0n) {
      stream.outbox.answer({ case: "connection", value });
      return;
    }
    stream.outbox.put(subjectOf(one.key), { case: "connection", value });
    onPush();
  }

  function send(stream: EdgeStream, one: FollowedConnection, found: TimedConnection, requestId = 0n): void {
    const { value, version } = connectionMessage(found);
    setups.ensure(stream, found);
    // Dropped while it was read: a later request must get it again.
    if (one.streams.has(stream)) stream.connections.set(one.key, version);
    if (!stream.delivered.has(one.key)) {
      stream.delivered.add(one.key);
      audit.delivered(stream, targetOf(one.ref));
    }
    const state = { case: "live" as const, value };
    put(stream, one, create(EdgeConnectionSchema, { requestId, ref: one.ref, version, state }));
  }

  return {
    send,
    sendIfOther(stream, one, found) {
      // The edge may hold the connection without its integration.
      setups.ensure(stream, found);
      const held = stream.connections.get(one.key) ?? noVersion;
      // Only the version shows that the edge has the credentials already.
      if (isSameVersion(held, connectionMessage(found).version)) stream.delivered.add(one.key);
      else send(stream, one, found);
    },
    sendFault(stream, one, thrown, requestId = 0n) {
      const isForgotten = requestId === 0n || saysGone(thrown);
      if (isForgotten && one.streams.has(stream)) stream.connections.set(one.key, noVersion);
      put(stream, one, faultMessage(one.ref, thrown, requestId));
    },
    refuse(stream, ref, thrown, requestId) {
      stream.outbox.answer({ case: "connection", value: faultMessage(ref, thrown, requestId) });
    },
    cancel: (stream, key) => stream.outbox.cancel(subjectOf(key)),
  };
}

const faultMessage = (ref: ConnectionRef, thrown: unknown, requestId: bigint): EdgeConnection =>
  create(EdgeConnectionSchema, { requestId, ref, state: { case: "fault", value: edgeFaultOf(thrown) } });
