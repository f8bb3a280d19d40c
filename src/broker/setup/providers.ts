import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import { ProviderMistake, requireProvider } from "../../providers/read.ts";
import type { Store } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import { transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import { requireRevision } from "../stored/conflict.ts";
import { pageTokens } from "../stored/page-token.ts";
import type { PageOf, PageOptions } from "../stored/paging.ts";
import type { SetupCollections } from "./setup-collections.ts";

export interface Providers {
  /** Returns a provider from memory, without waiting. */
  find(name: string): Provider;
  /** Like `find`, but also finds a provider that was created through another replica a moment ago. */
  findNow(name: string): Promise<Provider>;
  list(filter: { readonly search: string }, page: PageOptions): PageOf<Provider>;
  create(provider: Provider, actor: string): Promise<Provider>;
  update(asked: { readonly provider: Provider; readonly expectedRevision: bigint }, actor: string): Promise<Provider>;
  delete(asked: { readonly name: string; readonly expectedRevision: bigint }, actor: string): Promise<void>;
  /** Like `find`, but ignores the providers of the configuration file, which may be about to declare others. */
  findBuiltIn(name: string): Provider;
  /** Returns undefined if the provider of an integration is gone: the file that declared it no longer does. */
  lookUp(name: string): Provider | undefined;
  /** Returns the names of the providers of the configuration file. */
  declared(): readonly string[];
  /** Replaces the providers of the configuration file. */
  declare(providers: readonly Provider[]): void;
  close(): void;
}

interface ProvidersOptions {
  readonly store: Store;
  readonly collections: SetupCollections;
  readonly catalogue: ReadonlyMap<string, Provider>;
  readonly audit: Audit;
  readonly world: World;
}

/** Opens the providers. All are in memory: the catalog, the configuration file's, and the custom ones of the store. */
export async function openProviders(options: ProvidersOptions): Promise<Providers> {
  const { store, collections, catalogue, audit, world } = options;
  const { providers, integrations } = collections;
  const custom = new Map<string, Provider>();
  let declared: ReadonlyMap<string, Provider> = new Map();

  const watch = await follow({
    store,
    world,
    spaces: [providers.name],
    async read() {
      const stored = await providers.page({ under: [], limit: Number.MAX_SAFE_INTEGER });
      return () => {
        custom.clear();
        for (const { value } of stored) custom.set(value.name, value);
      };
    },
    onCommit({ changes, revision }) {
      for (const change of changes) {
        const read = providers.read(change, revision);
        const name = read?.parts[0];
        if (read === undefined || name === undefined) continue;
        if (read.value === undefined) custom.delete(name);
        else custom.set(name, read.value);
      }
    },
  });

  const lookUp = (name: string) => catalogue.get(name) ?? declared.get(name) ?? custom.get(name);

  function find(name: string): Provider {
    const provider = lookUp(name);
    if (provider === undefined) throw new Fault("unknown_provider", `there is no provider "${name}"`);
    return provider;
  }

  /**
   * Returns the stored description, if the provider is custom. Providers of the catalog and of the file cannot be
   * changed here.
   */
  async function findCustom(name: string, expectedRevision: bigint) {
    const stored = await providers.get(name);
    if (stored !== undefined) {
      requireRevision(stored, expectedRevision);
      return stored;
    }
    const { declared: inFile } = find(name);
    const home = inFile ? "the configuration file" : "the built-in catalogue";
    throw new Fault("read_only", `the provider "${name}" belongs to ${home} and is not changed here`);
  }

  return {
    find,
    async findNow(name) {
      if (lookUp(name) === undefined) await store.caughtUp();
      return find(name);
    },
    lookUp,
    declared: () => [...declared.keys()],
    findBuiltIn(name) {
      const provider = catalogue.get(name) ?? custom.get(name);
      if (provider === undefined) throw new Fault("unknown_provider", `there is no provider "${name}"`);
      return provider;
    },
    list({ search }, { size, token }) {
      const tokens = pageTokens(["providers", search]);
      const from = tokens.read(token) ?? "";
      const wanted = search.toLowerCase();
      const rest = [...new Map([...custom, ...declared, ...catalogue]).values()]
        .filter(({ name, displayName }) => name.includes(wanted) || displayName.toLowerCase().includes(wanted))
        .filter(({ name }) => name > from)
        .sort((a, b) => (a.name < b.name ? -1 : 1));
      const items = rest.slice(0, size);
      return { items, next: rest.length > size ? tokens.write(items.at(-1)?.name ?? "") : "" };
    },
    async create(wanted, actor) {
      check(wanted);
      const now = timestampFromMs(world.now());
      const provider: Provider = { ...wanted, custom: true, declared: false, createdAt: now, updatedAt: now };
      const { name } = provider;
      const { revision } = await transact(store, async () => {
        if (lookUp(name) !== undefined || (await providers.get(name)) !== undefined) {
          throw new Fault("already_exists", `there is a provider "${name}" already`);
        }
        return {
          changes: [
            ...providers.change({ before: undefined, after: provider }),
            ...audit.changes({ actor, action: "provider.create", targets: [name] }),
          ],
          result: undefined,
        };
      });
      return { ...provider, revision: BigInt(revision) };
    },
    async update({ provider, expectedRevision }, actor) {
      check(provider);
      const { result, revision } = await transact(store, async () => {
        const before = await findCustom(provider.name, expectedRevision);
        const { createdAt } = before.value;
        const after: Provider = {
          ...provider,
          custom: true,
          declared: false,
          ...(createdAt === undefined ? {} : { createdAt }),
          updatedAt: timestampFromMs(world.now()),
        };
        return {
          changes: [
            ...providers.change({ before, after }),
            ...audit.changes({ actor, action: "provider.update", targets: [provider.name] }),
          ],
          result: after,
        };
      });
      return { ...result, revision: BigInt(revision) };
    },
    async delete({ name, expectedRevision }, actor) {
      await transact(store, async () => {
        const before = await findCustom(name, expectedRevision);
        const [user] = await integrations.pageBy("provider", { under: [name], limit: 1 });
        if (user !== undefined) {
          throw new Fault("in_use", `the provider "${name}" is used by the integration "${user.value.key}"`);
        }
        return {
          changes: [
            ...providers.change({ before, after: undefined }),
            ...audit.changes({ actor, action: "provider.delete", targets: [name] }),
          ],
          conditions: [integrations.none([name], "provider")],
          result: undefined,
        };
      });
    },
    declare(all) {
      declared = new Map(all.map((provider) => [provider.name, { ...provider, custom: true, declared: true }]));
    },
    close: () => watch.close(),
  };
}

function check(provider: Provider): void {
  try {
    requireProvider(provider);
  } catch (error) {
    if (!(error instanceof ProviderMistake)) throw error;
    throw new Fault("invalid_body", "the provider is not valid", { mistakes: error.mistakes });
  }
}
