import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import { withoutEmptySettings, withSortedSettings } from "../../core/integration-settings.ts";
import { withRegistration } from "../../core/mcp/client-registration.ts";
import type { Connection } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Integration, IntegrationSecrets } from "../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { Condition, Store } from "../../store/contract.ts";
import { type Records, type StoredRecordOf, transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import { requireRevision } from "../stored/conflict.ts";
import { namesNothing } from "../stored/name-tables.ts";
import { listPage, type PageOf, type PageOptions } from "../stored/paging.ts";
import type { Caller } from "./caller.ts";
import { requireCredentialScope } from "./credential-scope.ts";
import { createDeclaredIntegrations, type DeclaredIntegrations } from "./declared-integrations.ts";
import { createIntegrationRecords, type IntegrationRef } from "./integration-records.ts";
import { requireUndeclared, requireValidIntegration, storedIntegration, withCallback } from "./integration-rules.ts";
import { changedFields, checkIntegrationMask, plannedUpdate } from "./integration-update.ts";
import { createReadIntegrationInUse, type IntegrationWithSecrets } from "./integrations-in-use.ts";
import { ownProviderChange, ownProviderRemoval, requireOwnProvider, requireUnusedProvider } from "./provider-use.ts";
import type { Providers } from "./providers.ts";
import type { SetupCollections } from "./setup-collections.ts";
import { unknownEnvironment } from "./unknown-environment.ts";

export interface Integrations extends DeclaredIntegrations {
  /** `own` is a description that belongs to the integration alone, and is stored with it. */
  create(integration: Integration, actor: string, own?: Provider): Promise<Integration>;
  get(ref: IntegrationRef): Promise<StoredRecordOf<Integration>>;
  secretsOf(ref: IntegrationRef): Promise<IntegrationSecrets | undefined>;
  /**
   * Returns the integration and its secrets, for requests. Callers share one object until the integration or its
   * secrets change, and must not modify it.
   */
  inUse(ref: IntegrationRef): Promise<IntegrationWithSecrets>;
  list(
    filter: { readonly environment: string; readonly provider: string },
    page: PageOptions,
  ): Promise<PageOf<Integration>>;
  /** Updates the fields of `integration` that `paths`, the update mask, names. */
  update(request: IntegrationUpdate, caller: Caller): Promise<Integration>;
  delete(request: IntegrationRef & { readonly expectedRevision: bigint }, actor: string): Promise<void>;
  /** Throws if an integration uses the provider: such a provider cannot be removed. */
  requireUnused(provider: string): Promise<void>;
}

export interface IntegrationUpdate {
  readonly integration: Integration;
  readonly paths: readonly string[];
  readonly expectedRevision: bigint;
}

interface IntegrationsOptions {
  readonly store: Store;
  readonly collections: SetupCollections & { readonly connections: Records<Connection> };
  readonly providers: Providers;
  readonly audit: Audit;
  readonly world: World;
}

export function createIntegrations(options: IntegrationsOptions): Integrations {
  const { store, collections, providers, audit, world } = options;
  const { integrations, connections } = collections;
  const records = createIntegrationRecords({ store, collections });
  const { get, secretsOf, secretsChange } = records;

  return {
    get,
    secretsOf,
    inUse: createReadIntegrationInUse({ store, collections }),
    ...createDeclaredIntegrations({ store, collections, records, providers, audit, world }),
    async create(wanted, actor, own) {
      const { environment, key } = wanted;
      const { result, revision } = await transact(store, async () => {
        const conditions = await creationConditions(wanted, { collections, providers, own });
        const provider = own ?? (await providers.findNow(wanted.provider));
        requireOwnProvider(wanted, provider);
        const given = own === undefined ? withRegistration(wanted, { before: undefined, provider }) : wanted;
        const made = withSortedSettings(withoutEmptySettings(withCallback(given, provider)), provider);
        const { secrets } = made;
        const after = { ...storedIntegration(made, world.now()), declared: false };
        requireValidIntegration({ hosts: made.hosts, secrets, given: made }, provider);
        if ((await integrations.get(environment, key)) !== undefined) {
          throw new Fault("already_exists", `there is an integration "${key}" already`);
        }
        return {
          changes: [
            ...(own === undefined ? [] : await ownProviderChange(collections, own)),
            ...integrations.change({ before: undefined, after }),
            ...(secrets === undefined ? [] : secretsChange(wanted, secrets)),
            ...audit.changes({ actor, action: "integration.create", environment, targets: [key] }),
          ],
          conditions,
          result: after,
        };
      });
      return { ...result, revision: BigInt(revision) };
    },
    list: ({ environment, provider }, page) =>
      namesNothing(environment, provider)
        ? Promise.resolve({ items: [], next: "" })
        : listPage({
            question: ["integrations", environment, provider],
            page,
            read: (rest) =>
              provider === ""
                ? integrations.page({ under: [environment], ...rest })
                : integrations.pageBy("environment", { under: [environment, provider], ...rest }),
          }),
    async update({ integration: wanted, paths: mask, expectedRevision }, caller) {
      checkIntegrationMask(mask);
      const { result, revision } = await transact(store, async () => {
        const before = await get(wanted);
        requireRevision(before, expectedRevision);
        requireUndeclared(before.value);
        const target = storedIntegration(before.value, world.now(), before.value);
        const former = await secretsOf(wanted);
        const provider = providers.lookUp(target.provider);
        const { after, secrets, source, fields } = plannedUpdate({ target, former, wanted, mask, provider });
        requireCredentialScope(caller, { fields, otherwise: "" });
        return {
          changes: [
            ...integrations.change({ before, after }),
            ...(secrets === undefined ? [] : secretsChange(source, secrets)),
            ...audit.changes({
              actor: caller.keyId,
              action: "integration.update",
              environment: source.environment,
              targets: [source.key],
              fields: changedFields(source, mask),
            }),
          ],
          result: after,
        };
      });
      return { ...result, revision: BigInt(revision) };
    },
    async delete({ environment, key, expectedRevision }, actor) {
      await transact(store, async () => {
        const before = await get({ environment, key });
        requireRevision(before, expectedRevision);
        requireUndeclared(before.value);
        const [held] = await connections.page({ under: [environment, key], limit: 1 });
        if (held !== undefined) throw new Fault("in_use", `the integration "${key}" still has connections`);
        return {
          changes: [
            ...(await ownProviderRemoval(collections, before.value)),
            ...integrations.change({ before, after: undefined }),
            ...secretsChange({ environment, key }, undefined),
            ...audit.changes({ actor, action: "integration.delete", environment, targets: [key] }),
          ],
          conditions: [connections.none([environment, key])],
          result: undefined,
        };
      });
    },
    requireUnused: (provider) => requireUnusedProvider(collections, provider),
  };
}

/** Returns conditions for the commit that creates an integration: its environment and a custom provider still exist. */
async function creationConditions(
  { environment, provider }: Integration,
  {
    collections,
    providers,
    own,
  }: Pick<IntegrationsOptions, "collections" | "providers"> & { own?: Provider | undefined },
): Promise<Condition[]> {
  const home = await collections.environments.get(environment);
  if (home === undefined) throw await unknownEnvironment(collections, environment);
  if (own !== undefined) return [collections.environments.unchanged(home)];
  const custom = await collections.providers.get(provider);
  if (custom === undefined) await providers.findNow(provider);
  return [
    collections.environments.unchanged(home),
    ...(custom === undefined ? [] : [collections.providers.unchanged(custom)]),
  ];
}
