import type { Send } from "../../base/small-requests.ts";
import type { Restoration } from "../../store/contract.ts";
import type { Connections } from "../connections/connections.ts";
import type { ConnectionHealth } from "../connections/health.ts";
import type { Ground } from "../setup/open.ts";
import type { TokenEndpoint } from "../tokens/token-endpoint.ts";
import { createTokenEndpoint } from "../tokens/token-requests.ts";
import { type Attachments, createAttachments } from "./attachments.ts";
import { type AskWithConnection, createConnectionRequests } from "./connection-request.ts";
import { createLiveGrants, type LiveGrants } from "./grant-count.ts";
import { createKeeper, type Keeper } from "./idle-refresh.ts";
import { type Live, openLive } from "./live-connections.ts";
import { createProviderAsks, type ProviderAsks } from "./provider-requests.ts";
import { createRefresher } from "./refresh.ts";

/** Connections with credentials that are good now: how they are had, renewed, attached, and asked with. */
export interface JoinedRenewal {
  readonly attachments: Attachments;
  readonly tokens: TokenEndpoint;
  readonly askWith: AskWithConnection;
  readonly asks: ProviderAsks;
  readonly grants: LiveGrants;
  readonly live: Live;
  /** Renews those that rest. */
  readonly keeper: Keeper;
  close(): Promise<void>;
}

interface RenewalOptions {
  readonly ground: Ground;
  readonly health: ConnectionHealth;
  readonly connections: Connections;
  /** The way to providers. */
  readonly send: Send;
  readonly leaseMs: number | undefined;
  /** The backup that the store was restored from. */
  readonly restorationOf: () => Promise<Restoration | undefined>;
}

export async function joinRenewal(options: RenewalOptions): Promise<JoinedRenewal> {
  const { ground, health, connections, send, leaseMs, restorationOf } = options;
  const { store, collections, integrations, providers, touches, logs, world } = ground;
  const attachments = createAttachments(world);
  const tokens = createTokenEndpoint({ send, world });
  const askWith = createConnectionRequests({ attachments, send, world });
  const asks = createProviderAsks({ askWith, world });
  const grants = createLiveGrants({ collections, logs, world });
  const refresher = createRefresher({
    leaseMs,
    store,
    health,
    integrations,
    providers,
    tokens,
    grants,
    restorationOf,
    world,
  });
  const live = await openLive({ store, collections, connections, integrations, providers, touches, refresher, world });
  const keeper = createKeeper({ collections, connections, integrations, providers, refresher, world });
  return {
    ...{ attachments, tokens, askWith, asks, grants, live, keeper },
    async close() {
      await refresher.close();
      live.close();
    },
  };
}
