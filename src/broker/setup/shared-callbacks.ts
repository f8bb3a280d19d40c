import type { World } from "../../base/world.ts";
import { sharesCallback } from "../../core/callback-address.ts";
import { type Integration, Integration_Callback } from "../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { Store } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import type { SetupCollections } from "./setup-collections.ts";

/**
 * Integrations that share the redirect URI `/oauth/callback`. Kept in memory, because showing an integration needs
 * them.
 */
export interface SharedCallbacks {
  /** Returns the other integrations that share the URI, of all environments, up to `limit`. */
  othersThan(integration: Integration, limit: number): readonly Integration[];
  /** Returns whether one of the others has a provider with this issuer. */
  hasIssuer(issuer: string, than: Integration): boolean;
  close(): void;
}

interface SharedCallbacksOptions {
  readonly store: Store;
  readonly collections: SetupCollections;
  readonly providerOf: (name: string) => Provider | undefined;
  readonly world: World;
}

export async function openSharedCallbacks(options: SharedCallbacksOptions): Promise<SharedCallbacks> {
  const { store, collections, providerOf, world } = options;
  const unbound = new Map<string, Integration>();
  const keyOf = (environment: string, key: string) => `${environment}/${key}`;

  function note(integration: Integration): void {
    const key = keyOf(integration.environment, integration.key);
    if (integration.callback === Integration_Callback.BOUND) unbound.delete(key);
    else unbound.set(key, integration);
  }

  const watch = await follow({
    store,
    world,
    spaces: [collections.integrations.name],
    async read() {
      const found = await collections.integrations.page({ under: [], limit: Number.MAX_SAFE_INTEGER });
      return () => {
        unbound.clear();
        for (const { value } of found) note(value);
      };
    },
    onCommit({ changes, revision }) {
      for (const change of changes) {
        const read = collections.integrations.read(change, revision);
        const [environment, key] = read?.parts ?? [];
        if (read === undefined || environment === undefined || key === undefined) continue;
        if (read.value === undefined) unbound.delete(keyOf(environment, key));
        else note(read.value);
      }
    },
  });

  function* othersOf({ environment, key }: Integration): Iterable<Integration> {
    for (const one of unbound.values()) {
      if (one.environment === environment && one.key === key) continue;
      if (sharesCallback(one, providerOf(one.provider))) yield one;
    }
  }

  return {
    othersThan(integration, limit) {
      const found: Integration[] = [];
      for (const one of othersOf(integration)) {
        found.push(one);
        if (found.length === limit) break;
      }
      return found;
    },
    hasIssuer(issuer, than) {
      for (const { provider } of othersOf(than)) {
        const { auth } = providerOf(provider) ?? {};
        if (auth?.case === "oauth2" && auth.value.issuer === issuer) return true;
      }
      return false;
    },
    close: () => watch.close(),
  };
}
