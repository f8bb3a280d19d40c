import { create } from "@bufbuild/protobuf";
import { type ConnectionRef, ConnectionRefSchema } from "../../gen/latchkey/v1/connection_pb.ts";
import { connectionKey } from "../connections/connection-collections.ts";
import { integrationKey } from "../connections/integration-name.ts";
import { type EdgeStream, noVersion } from "./edge-stream.ts";

/** A connection that edges follow. Holds none of its credentials. */
export interface FollowedConnection {
  readonly key: string;
  readonly ref: ConnectionRef;
  readonly streams: Set<EdgeStream>;
  /** Counts the changes: what was read before the last one may be old. */
  changes: number;
  /** Version of what edges see of the connection's record; undefined: not known. */
  record: Uint8Array | undefined;
  /** When an edge last used it, by the wall clock. */
  usedAtMs: number;
  /** From when to refresh it ahead of its expiry; infinite: never. */
  refreshFromMs: number;
  /** The next look at whether to refresh it; undefined: none is planned. */
  lookAtMs: number | undefined;
}

/** All connections that edges of this broker follow. */
export class FollowedConnections {
  readonly #byKey = new Map<string, FollowedConnection>();
  readonly #byIntegration = new Map<string, Set<FollowedConnection>>();

  get size(): number {
    return this.#byKey.size;
  }

  find(key: string): FollowedConnection | undefined {
    return this.#byKey.get(key);
  }

  ofIntegration(environment: string, key: string): Iterable<FollowedConnection> {
    return this.#byIntegration.get(integrationKey({ environment, integration: key })) ?? [];
  }

  all(): Iterable<FollowedConnection> {
    return this.#byKey.values();
  }

  /** Adds a follower. */
  follow(stream: EdgeStream, named: Pick<ConnectionRef, "integration" | "id">, usedAtMs: number): FollowedConnection {
    const { environment } = stream.edge;
    const { integration, id } = named;
    const key = connectionKey({ environment, integration, id });
    const known = this.#byKey.get(key) ?? this.#add(key, create(ConnectionRefSchema, { environment, integration, id }));
    known.streams.add(stream);
    known.usedAtMs = Math.max(known.usedAtMs, usedAtMs);
    if (!stream.connections.has(key)) stream.connections.set(key, noVersion);
    return known;
  }

  unfollow(stream: EdgeStream, key: string): void {
    stream.connections.delete(key);
    const known = this.#byKey.get(key);
    if (known?.streams.delete(stream) !== true || known.streams.size > 0) return;
    this.#byKey.delete(key);
    const { environment, integration } = known.ref;
    const place = integrationKey({ environment, integration });
    const all = this.#byIntegration.get(place);
    if (all?.delete(known) === true && all.size === 0) this.#byIntegration.delete(place);
  }

  #add(key: string, ref: ConnectionRef): FollowedConnection {
    const made: FollowedConnection = {
      key,
      ref,
      streams: new Set(),
      changes: 0,
      record: undefined,
      usedAtMs: 0,
      refreshFromMs: Number.POSITIVE_INFINITY,
      lookAtMs: undefined,
    };
    this.#byKey.set(key, made);
    const place = integrationKey(ref);
    const all = this.#byIntegration.get(place);
    if (all === undefined) this.#byIntegration.set(place, new Set([made]));
    else all.add(made);
    return made;
  }
}
