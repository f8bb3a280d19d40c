import { createLateCache } from "../../base/caches/late-cache.ts";
import type { World } from "../../base/world.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Store } from "../../store/contract.ts";
import { transact } from "../../store/records.ts";
import type { ConnectionHealth } from "../connections/health/health.ts";
import type { Integrations } from "../setup/integrations.ts";
import type { Providers } from "../setup/providers.ts";

/** Notes that an MCP server wants scopes that a connection lacks. Never rejects; a repeated note costs nothing. */
export type NoteLackingScopes = (ref: ConnectionRef, scopes: readonly string[]) => void;

interface LackingScopesOptions {
  readonly store: Store;
  readonly health: ConnectionHealth;
  readonly integrations: Integrations;
  readonly providers: Providers;
  readonly world: World;
}

const maxScopes = 50;
/** The same note is stored again after this time: the connection may have been authorized again. */
const repeatMs = 60_000;

export function createLackingScopes(options: LackingScopesOptions): NoteLackingScopes {
  const { store, health, integrations, providers, world } = options;
  const noted = createLateCache<true>({ max: 10_000, ttl: repeatMs });

  async function note(ref: ConnectionRef, scopes: readonly string[]): Promise<void> {
    await transact(store, async () => {
      const known = await health.read(ref);
      const lacked = known?.connection.value.missingScopes ?? [];
      if (known === undefined || lacked.length + scopes.length > maxScopes) return { changes: [], result: undefined };
      const { value: integration } = await integrations.get({ environment: ref.environment, key: ref.integration });
      const provider = providers.find(known.connection.value.provider);
      const { changes, conditions } = health.noteLackingScopes(known, { integration, provider, scopes });
      return { changes, conditions, result: undefined };
    });
  }

  return (ref, scopes) => {
    const { environment, integration, id } = ref;
    const key = [environment, integration, id, ...scopes].join("\0");
    if (scopes.length === 0 || noted.has(key)) return;
    noted.set(key, true);
    note(ref, scopes).catch((err: unknown) => {
      noted.delete(key);
      world.log.warn("missing scopes of a connection not noted", { environment, integration, connection: id, err });
    });
  };
}
