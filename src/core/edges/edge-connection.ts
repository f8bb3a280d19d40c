import { create, type JsonObject } from "@bufbuild/protobuf";
import { type Timestamp, timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { tokenRefreshOf } from "../../auth/credential-refresh.ts";
import { type Connection, Connection_State, ConnectionSchema } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Credentials } from "../../gen/latchkey/v1/credentials_pb.ts";
import { type EdgeLiveConnection, EdgeLiveConnectionSchema } from "../../gen/latchkey/v1/edge_pb.ts";
import type { Integration } from "../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import { credentialsForRequests } from "../credentials-view.ts";

interface EdgeConnectionParts {
  readonly connection: Connection;
  readonly integration: Integration;
  readonly provider: Provider;
  readonly credentials: Credentials;
  /** Milliseconds since 1970; infinite: without end. */
  readonly validUntil: number;
}

/** Returns what an edge needs to send requests of a connection, and nothing else. */
export function edgeLiveConnection(parts: EdgeConnectionParts): EdgeLiveConnection {
  const { connection, provider, credentials, validUntil } = parts;
  return create(EdgeLiveConnectionSchema, {
    connection: edgeConnectionRecord(connection, provider),
    credentials: credentialsForRequests(credentials, provider),
    isRenewable: tokenRefreshOf(parts) !== undefined,
    tokensValidUntil: furtherTokenTimes(credentials),
    ...(Number.isFinite(validUntil) && { validUntil: timestampFromMs(validUntil) }),
  });
}

/**
 * Returns the part of a connection's record that requests depend on. Other changes, as of tags or of most metadata, are
 * not sent to edges.
 */
export function edgeConnectionRecord(connection: Connection, provider: Provider | undefined): Connection {
  const { ref, number, provider: name, connectionConfig, metadata, credentialsKind, state } = connection;
  const lastError = connection.errors.at(-1);
  const isWell = state === Connection_State.ACTIVE || state === Connection_State.UNSPECIFIED;
  return create(ConnectionSchema, {
    ...(ref && { ref }),
    ...(connectionConfig && { connectionConfig }),
    ...(metadata && { metadata: usedMetadata(metadata, provider) }),
    // Responses of a connection that is not well name its state and the log that explains it.
    ...(!isWell && lastError !== undefined && { errors: [lastError] }),
    number,
    provider: name,
    credentialsKind,
    state,
  });
}

/** Returns the values of metadata that the provider's limits are counted by. */
function usedMetadata(metadata: JsonObject, provider: Provider | undefined): JsonObject {
  const names = (provider?.quota?.limits ?? []).flatMap(({ accountField }) => {
    const [, name = ""] = /^metadata\.(.+)$/s.exec(accountField) ?? [];
    return name !== "" && Object.hasOwn(metadata, name) ? [name] : [];
  });
  return Object.fromEntries(names.map((name) => [name, metadata[name] ?? null]));
}

function furtherTokenTimes({ kind }: Credentials): Record<string, Timestamp> {
  if (kind.case !== "oauth2") return {};
  const times = Object.entries(kind.value.furtherTokens).flatMap(([name, { accessToken, expiresAt }]) => {
    if (accessToken === "") return [[name, timestampFromMs(0)] as const];
    return expiresAt === undefined ? [] : [[name, timestampFromMs(timestampMs(expiresAt))] as const];
  });
  return Object.fromEntries(times);
}
