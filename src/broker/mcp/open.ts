import type { SendSmallRequest } from "../../base/small-requests.ts";
import type { Backend } from "../../store/contract.ts";
import type { ConnectRoom } from "../connect/open.ts";
import type { ConnectionCollections } from "../connections/connection-collections.ts";
import type { ConnectionHealth } from "../connections/health/health.ts";
import type { SharedServices } from "../deliveries/open.ts";
import { type ClientAnswers, createClientAnswers } from "../mcp-clients/client-answers.ts";
import type { McpClientCollections } from "../mcp-clients/mcp-client-collections.ts";
import { createSessionSubscriptions, type SessionSubscriptions } from "../mcp-clients/session-subscriptions.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import { createDiscovery } from "./discovery.ts";
import { createDiscoveryCommit } from "./discovery-commit.ts";
import { createIssuerChange } from "./issuer-change.ts";
import { createLackingScopes, type NoteLackingScopes } from "./lacking-scopes.ts";
import { createMcpDeclarations, type McpDeclarations } from "./mcp-declarations.ts";
import { createMcpIntegrations, type McpIntegrations } from "./mcp-integrations.ts";
import { createOnlyConnection, type OnlyConnection } from "./only-connection.ts";
import { createRediscovery } from "./rediscovery.ts";
import { createRefusedTokens, type NoteRefusedToken } from "./refused-tokens.ts";
import { createRegistration } from "./registration.ts";

/** Edges note lacking scopes too, before this room is open. */
export { createLackingScopes };

/** MCP servers as integrations, and what processes share of the clients of our own endpoint. */
export interface McpRoom {
  readonly mcp: McpIntegrations & McpCalls;
  /** What clients of our own endpoint have answered, and which resources they follow. */
  readonly clientAnswers: ClientAnswers;
  readonly sessionSubscriptions: SessionSubscriptions;
  readonly declarations: McpDeclarations;
  /** Discovers what is due. */
  readonly rediscovery: RediscoveryLoop;
}

/** What the proxy needs for requests to MCP servers. */
export interface McpCalls {
  readonly noteLackingScopes: NoteLackingScopes;
  /** Undefined at an edge: a broker reads the metadata of servers. */
  readonly noteRefusedToken?: NoteRefusedToken;
  readonly onlyConnection: OnlyConnection;
}

interface RediscoveryLoop {
  /** Begins with what is due: the servers of the configuration file. */
  start(): void;
  close(): Promise<void>;
}

interface McpRoomOptions {
  readonly shared: SharedServices;
  readonly collections: SetupCollections & ConnectionCollections & McpClientCollections;
  readonly backend: Pick<Backend, "isShared">;
  readonly health: ConnectionHealth;
  readonly noteLackingScopes: NoteLackingScopes;
  readonly connect: Pick<ConnectRoom, "authorizations">;
  readonly publicUrl: () => string;
  readonly send: SendSmallRequest;
}

export function openMcp(options: McpRoomOptions): McpRoom {
  const { shared, collections, backend, health, noteLackingScopes, connect, publicUrl, send } = options;
  const { store, integrations, providers, audit, world } = shared;
  const { now } = world;
  const mcp = createMcpIntegrations({
    integrations,
    providers,
    discoverServer: createDiscovery(send),
    register: createRegistration(send),
    commit: createDiscoveryCommit({ store, collections, audit, now }),
    callbackUrl: connect.authorizations.callbackUrl,
    publicUrl,
    noteIssuerChange: createIssuerChange({ store, collections, health, integrations, world }),
    now,
  });
  const loop = createRediscovery({ store, collections, providers, mcp, world });
  return {
    clientAnswers: createClientAnswers({ store, isShared: backend.isShared, collections, world }),
    sessionSubscriptions: createSessionSubscriptions({ store, collections, world }),
    mcp: {
      ...mcp,
      noteLackingScopes,
      noteRefusedToken: createRefusedTokens({ mcp, world }),
      onlyConnection: createOnlyConnection(collections),
    },
    declarations: createMcpDeclarations({ store, collections, now }),
    rediscovery: {
      start() {
        loop.start();
        loop.wake();
      },
      close: loop.stop,
    },
  };
}
