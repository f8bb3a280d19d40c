import { createCallbacks } from "../../base/callbacks.ts";
import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { Store } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import type { SetupCollections } from "./setup-collections.ts";

/** All providers, in memory: the catalog, the configuration file's, and the custom ones of the store. */
export interface KnownProviders {
  /** Returns a provider from memory, without waiting. */
  find(name: string): Provider;
  /** Like `find`, but also finds a provider that was created through another replica a moment ago. */
  findNow(name: string): Promise<Provider>;
  /** Like `find`, but ignores the providers of the configuration file, which may be about to declare others. */
  findBuiltIn(name: string): Provider;
  /** Returns undefined if the provider of an integration is gone: the file that declared it no longer does. */
  lookUp(name: string): Provider | undefined;
  /** Returns every provider once. */
  all(): Iterable<Provider>;
  /** Returns all but those of the catalog, which are read from its file when they are first asked for. */
  added(): readonly Provider[];
  /** Returns the names of the providers of the configuration file. */
  declared(): readonly string[];
  /** Replaces the providers of the configuration file. */
  declare(providers: readonly Provider[]): void;
  /** Calls back with the names of providers that have changed, until the returned function is called. */
  listen(onChange: (names: readonly string[]) => void): () => void;
  close(): void;
}

interface KnownProvidersOptions {
  readonly store: Store;
  readonly collections: Pick<SetupCollections, "providers">;
  readonly catalogue: ReadonlyMap<string, Provider>;
  readonly world: World;
}

export async function openKnownProviders(options: KnownProvidersOptions): Promise<KnownProviders> {
  const { store, collections, catalogue, world } = options;
  const { providers } = collections;
  const custom = new Map<string, Provider>();
  let declared: ReadonlyMap<string, Provider> = new Map();
  const changed = createCallbacks<readonly string[]>();

  const watch = await follow({
    store,
    world,
    spaces: [providers.name],
    async read() {
      const stored = await providers.page({ under: [], limit: Number.MAX_SAFE_INTEGER });
      return () => {
        const before = [...custom.keys()];
        custom.clear();
        for (const { value } of stored) custom.set(value.name, value);
        changed.run([...new Set([...before, ...custom.keys()])]);
      };
    },
    onCommit({ changes, revision }) {
      const names: string[] = [];
      for (const change of changes) {
        const read = providers.read(change, revision);
        const name = read?.parts[0];
        if (read === undefined || name === undefined) continue;
        if (read.value === undefined) custom.delete(name);
        else custom.set(name, read.value);
        names.push(name);
      }
      if (names.length > 0) changed.run(names);
    },
  });

  const lookUp = (name: string) => catalogue.get(name) ?? declared.get(name) ?? custom.get(name);
  const find = (name: string) => required(name, lookUp(name));

  return {
    find,
    async findNow(name) {
      if (lookUp(name) === undefined) await store.caughtUp();
      return find(name);
    },
    findBuiltIn: (name) => required(name, catalogue.get(name) ?? custom.get(name)),
    lookUp,
    all: () => new Map([...custom, ...declared, ...catalogue]).values(),
    added: () => [...new Map([...custom, ...declared]).values()].filter(({ name }) => !catalogue.has(name)),
    declared: () => [...declared.keys()],
    listen: changed.add,
    declare(all) {
      const before = [...declared.keys()];
      declared = new Map(all.map((provider) => [provider.name, { ...provider, custom: true, declared: true }]));
      changed.run([...new Set([...before, ...declared.keys()])]);
    },
    close: () => watch.close(),
  };
}

function required(name: string, provider: Provider | undefined): Provider {
  if (provider === undefined) {
    throw new Fault("unknown_provider", `there is no provider "${name}"`, { missing: { kind: "provider", name } });
  }
  return provider;
}
