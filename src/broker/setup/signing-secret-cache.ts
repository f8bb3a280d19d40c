import type { World } from "../../base/world.ts";
import type { SigningSecret } from "../../gen/latchkey/v1/environment_pb.ts";
import type { Store } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import { partsOf } from "../../store/keys.ts";
import type { SetupCollections } from "./setup-collections.ts";

/** The stored secrets of an environment, cached after its first signature until the store's watch reports a change. */
export interface SigningSecretCache {
  /** Includes earlier secrets that may have expired. Undefined: none has been created yet. */
  read(environment: string): Promise<readonly SigningSecret[] | undefined>;
  /** Drops the cached secrets of a change before the watch reports it. */
  forget(environment: string): void;
  close(): void;
}

interface SigningSecretCacheOptions {
  readonly store: Store;
  readonly collections: Pick<SetupCollections, "signingSecrets" | "environments">;
  readonly onEnvironmentDeleted: (environment: string) => void;
  readonly world: World;
}

export async function openSigningSecretCache(options: SigningSecretCacheOptions): Promise<SigningSecretCache> {
  const { store, collections, onEnvironmentDeleted, world } = options;
  const { signingSecrets, environments } = collections;
  const stored = new Map<string, readonly SigningSecret[]>();
  /** Counts changes, so that a secret read before a change is not cached. */
  let changesSeen = 0;
  const prefixes = [signingSecrets, environments].map(({ name }) => `${name}\0`);
  const watch = await follow({
    store,
    world,
    spaces: [signingSecrets.name, environments.name],
    read: async () => () => {
      changesSeen += 1;
      stored.clear();
    },
    onCommit({ changes }) {
      for (const change of changes) {
        if (!prefixes.some((prefix) => change.key.startsWith(prefix))) continue;
        const [space, environment = ""] = partsOf(change.key);
        if (space === signingSecrets.name) forget(environment);
        if (space === environments.name && change.value === undefined) onEnvironmentDeleted(environment);
      }
    },
  });

  function forget(environment: string): void {
    changesSeen += 1;
    stored.delete(environment);
  }

  return {
    async read(environment) {
      const known = stored.get(environment);
      if (known !== undefined) return known;
      const seen = changesSeen;
      const found = await signingSecrets.get(environment);
      if (found !== undefined && seen === changesSeen) stored.set(environment, found.value.secrets);
      return found?.value.secrets;
    },
    forget,
    close: () => watch.close(),
  };
}
