import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import { ProviderMistake, requireProvider } from "../../providers/read.ts";
import type { Store } from "../../store/contract.ts";
import { transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import { requireRevision } from "../stored/conflict.ts";
import { pageTokens } from "../stored/page-token.ts";
import type { PageOf, PageOptions } from "../stored/paging.ts";
import { type KnownProviders, openKnownProviders } from "./known-providers.ts";
import { requireUnusedProvider } from "./provider-use.ts";
import type { SetupCollections } from "./setup-collections.ts";

/** Providers, and edits of the custom ones. */
export interface Providers extends KnownProviders {
  list(filter: { readonly search: string }, page: PageOptions): PageOf<Provider>;
  create(provider: Provider, actor: string): Promise<Provider>;
  update(request: { readonly provider: Provider; readonly expectedRevision: bigint }, actor: string): Promise<Provider>;
  delete(request: { readonly name: string; readonly expectedRevision: bigint }, actor: string): Promise<void>;
}

interface ProvidersOptions {
  readonly store: Store;
  readonly collections: SetupCollections;
  readonly catalogue: ReadonlyMap<string, Provider>;
  readonly audit: Audit;
  readonly world: World;
}

export async function openProviders(options: ProvidersOptions): Promise<Providers> {
  const { store, collections, catalogue, audit, world } = options;
  const { providers, integrations } = collections;
  const known = await openKnownProviders({ store, collections, catalogue, world });

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
    const { declared: inFile } = known.find(name);
    const home = inFile ? "the configuration file" : "the built-in catalog";
    throw new Fault("read_only", `the provider "${name}" belongs to ${home} and cannot be changed here`);
  }

  return {
    ...known,
    list({ search }, { size, token }) {
      const tokens = pageTokens(["providers", search]);
      const from = tokens.read(token) ?? "";
      const wanted = search.toLowerCase();
      const rest = [...known.all()]
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
        if (known.lookUp(name) !== undefined || (await providers.get(name)) !== undefined) {
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
        await requireUnusedProvider(collections, name);
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
