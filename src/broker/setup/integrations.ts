import { create, equals, fromBinary, toBinary } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { LRUCache } from "lru-cache";
import { Fault, type Mistake } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import { newCallback } from "../../core/callback-address.ts";
import { checkIntegrationSecrets } from "../../core/integration-secrets.ts";
import type { Connection } from "../../gen/latchkey/v1/connection_pb.ts";
import {
  type Integration,
  Integration_Callback,
  IntegrationSchema,
  type IntegrationSecrets,
  IntegrationSecretsSchema,
} from "../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { Change, Condition, Store } from "../../store/contract.ts";
import type { Records } from "../../store/records.ts";
import { type StoredRecordOf, transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import { requireRevision } from "../stored/conflict.ts";
import { namesNothing } from "../stored/name-tables.ts";
import { listPage, type PageOf, type PageOptions } from "../stored/paging.ts";
import type { Caller } from "./access.ts";
import { requireCredentialScope } from "./credential-scope.ts";
import { checkIntegrationMask, exposedFields, updatedIntegration, updatedSecrets } from "./integration-update.ts";
import type { Providers } from "./providers.ts";
import { integrationKey, integrationSecretsKey, type SetupCollections } from "./setup-collections.ts";
import { unknownEnvironment } from "./unknown-environment.ts";

/** An integration within its environment. */
export interface IntegrationRef {
  readonly environment: string;
  readonly key: string;
}

export interface Integrations {
  create(integration: Integration, actor: string): Promise<Integration>;
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
  update(asked: IntegrationUpdate, caller: Caller): Promise<Integration>;
  delete(asked: IntegrationRef & { readonly expectedRevision: bigint }, actor: string): Promise<void>;
  /**
   * Creates or updates an integration that the configuration file declares. One that is no longer declared becomes
   * editable again.
   */
  declare(integration: Integration): Promise<void>;
  release(ref: IntegrationRef): Promise<void>;
  /** Returns all integrations that the configuration file declared, in all environments. */
  declared(): Promise<readonly Integration[]>;
  /** Throws if an integration uses the provider: such a provider cannot be removed. */
  requireUnused(provider: string): Promise<void>;
  /**
   * Throws if the provider differs: an integration keeps its provider for good, because its connections hold that
   * provider's credentials.
   */
  requireSameProvider(integration: Integration): Promise<void>;
}

export interface IntegrationWithSecrets {
  readonly integration: Integration;
  readonly secrets: IntegrationSecrets | undefined;
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

/** An integration with its secrets, as requests use it, and the revisions that were read. */
interface CachedIntegration extends IntegrationWithSecrets {
  readonly revision: number;
  readonly secretsRevision: number;
}

/** Cache size: more than are in use at a time; others are read again. */
const mostInUse = 1_000;

export function createIntegrations(options: IntegrationsOptions): Integrations {
  const { store, collections, providers, audit, world } = options;
  const { environments, integrations, connections } = collections;
  const inUse = new LRUCache<string, CachedIntegration>({ max: mostInUse });

  const unknown = ({ key }: IntegrationRef) =>
    new Fault("unknown_provider_config", `there is no integration "${key}" in this environment`);

  async function get(ref: IntegrationRef): Promise<StoredRecordOf<Integration>> {
    const { environment, key } = ref;
    const found = namesNothing(environment, key) ? undefined : await integrations.get(environment, key);
    if (found === undefined) throw unknown(ref);
    return found;
  }

  async function secretsOf({ environment, key }: IntegrationRef): Promise<IntegrationSecrets | undefined> {
    const at = integrationSecretsKey(environment, key);
    const entry = await store.get(at);
    return entry === undefined ? undefined : fromBinary(IntegrationSecretsSchema, entry.value);
  }

  function secretsChange({ environment, key }: IntegrationRef, secrets: IntegrationSecrets | undefined): Change[] {
    const at = integrationSecretsKey(environment, key);
    if (secrets === undefined) return [{ key: at, value: undefined }];
    return [{ key: at, value: toBinary(IntegrationSecretsSchema, secrets), secret: true }];
  }

  /** Returns the integration as it is stored: without secrets and without fields that are computed when it is shown. */
  function stored(integration: Integration, now: number, before?: Integration): Integration {
    const { secrets: _, ...rest } = integration;
    return {
      ...rest,
      warnings: [],
      callbackUrl: "",
      createdAt: before?.createdAt ?? timestampFromMs(now),
      updatedAt: timestampFromMs(now),
    };
  }

  /**
   * Returns whether the declared integration is unchanged: a restart with the same file writes neither changes nor
   * audit entries.
   */
  async function isInLine(before: Integration, after: Integration, secrets: IntegrationSecrets | undefined) {
    const { updatedAt, revision } = before;
    const same = { ...after, revision, ...(updatedAt === undefined ? {} : { updatedAt }) };
    const none = create(IntegrationSecretsSchema);
    return (
      equals(IntegrationSchema, before, same) &&
      equals(IntegrationSecretsSchema, (await secretsOf(after)) ?? none, secrets ?? none)
    );
  }

  /**
   * Returns conditions for the commit: the environment and a custom provider must still exist when the integration is
   * created.
   */
  async function groundOf({ environment, provider }: Integration): Promise<Condition[]> {
    const home = await environments.get(environment);
    if (home === undefined) throw await unknownEnvironment(collections, environment);
    const custom = await collections.providers.get(provider);
    if (custom === undefined) await providers.findNow(provider);
    return [environments.unchanged(home), ...(custom === undefined ? [] : [collections.providers.unchanged(custom)])];
  }

  return {
    get,
    secretsOf,
    async inUse(ref) {
      const { environment, key } = ref;
      if (namesNothing(environment, key)) throw unknown(ref);
      const at = integrationKey(environment, key);
      const [entry, sealed] = await store.getMany([at, integrationSecretsKey(environment, key)]);
      if (entry === undefined) throw unknown(ref);
      const [revision, secretsRevision] = [entry.revision, sealed?.revision ?? 0];
      const known = inUse.get(at);
      if (known?.revision === revision && known.secretsRevision === secretsRevision) return known;
      const integration = integrations.read(entry, revision)?.value;
      if (integration === undefined) throw unknown(ref);
      const secrets = sealed && fromBinary(IntegrationSecretsSchema, sealed.value);
      const read = { integration, secrets, revision, secretsRevision };
      inUse.set(at, read);
      return read;
    },
    async create(wanted, actor) {
      const { environment, key, secrets } = wanted;
      const { result, revision } = await transact(store, async () => {
        const conditions = await groundOf(wanted);
        const made = withCallback(wanted, await providers.findNow(wanted.provider));
        const after = { ...stored(made, world.now()), declared: false };
        check(wanted, secrets);
        if ((await integrations.get(environment, key)) !== undefined) {
          throw new Fault("already_exists", `there is an integration "${key}" already`);
        }
        return {
          changes: [
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
    async update({ integration: source, paths, expectedRevision }, caller) {
      checkIntegrationMask(paths);
      const { result, revision } = await transact(store, async () => {
        const before = await get(source);
        requireRevision(before, expectedRevision);
        requireUndeclared(before.value);
        const target = stored(before.value, world.now(), before.value);
        const provider = providers.lookUp(target.provider);
        const updated = updatedIntegration({ target, source, paths });
        const after = paths.includes("callback") ? withCallback(updated, provider) : updated;
        const fields = exposedFields({ before: before.value, after, provider });
        requireCredentialScope(caller, { fields, otherwise: "" });
        const secrets = updatedSecrets({ target: await secretsOf(source), source, paths });
        check(after, secrets);
        return {
          changes: [
            ...integrations.change({ before, after }),
            ...(secrets === undefined ? [] : secretsChange(source, secrets)),
            ...audit.changes({
              actor: caller.keyId,
              action: "integration.update",
              environment: source.environment,
              targets: [source.key],
              fields: paths,
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
            ...integrations.change({ before, after: undefined }),
            ...secretsChange({ environment, key }, undefined),
            ...audit.changes({ actor, action: "integration.delete", environment, targets: [key] }),
          ],
          conditions: [connections.none([environment, key])],
          result: undefined,
        };
      });
    },
    async declare(wanted) {
      const { environment, key, secrets } = wanted;
      await transact(store, async () => {
        const before = await integrations.get(environment, key);
        // Keep a redirect URI that is registered at the provider until the file asks for another.
        const made = withCallback(wanted, providers.lookUp(wanted.provider), before?.value.callback);
        const after = { ...stored(made, world.now(), before?.value), declared: true };
        if (before !== undefined && (await isInLine(before.value, after, secrets)))
          return { changes: [], result: undefined };
        return {
          changes: [
            ...integrations.change({ before, after }),
            ...secretsChange(wanted, secrets),
            ...audit.changes({ actor: "config", action: "integration.declare", environment, targets: [key] }),
          ],
          result: undefined,
        };
      });
    },
    async release({ environment, key }) {
      await transact(store, async () => {
        const before = await get({ environment, key });
        return {
          changes: [
            ...integrations.change({ before, after: { ...before.value, declared: false } }),
            ...audit.changes({ actor: "config", action: "integration.release", environment, targets: [key] }),
          ],
          result: undefined,
        };
      });
    },
    async requireUnused(provider) {
      const [user] = await integrations.pageBy("provider", { under: [provider], limit: 1 });
      if (user === undefined) return;
      throw new Fault("in_use", `the provider "${provider}" is used by the integration "${user.value.key}"`);
    },
    async requireSameProvider({ environment, key, provider }) {
      const before = await integrations.get(environment, key);
      if (before === undefined || before.value.provider === provider) return;
      throw new Fault(
        "conflict",
        `the integration "${key}" is there already, with the provider "${before.value.provider}"`,
      );
    },
    async declared() {
      const all = await integrations.page({ under: [], limit: Number.MAX_SAFE_INTEGER });
      return all.map(({ value }) => value).filter(({ declared }) => declared);
    },
  };
}

/**
 * Fills in the form of the redirect URI if the integration names none: the previous form, or else the provider's
 * default.
 */
const withCallback = (
  integration: Integration,
  provider: Provider | undefined,
  before: Integration_Callback = newCallback(provider),
): Integration =>
  integration.callback === Integration_Callback.UNSPECIFIED ? { ...integration, callback: before } : integration;

function requireUndeclared({ key, declared }: Integration): void {
  if (declared) {
    throw new Fault("read_only", `the integration "${key}" is declared in the configuration file and is changed there`);
  }
}

function check({ hosts }: Integration, secrets: IntegrationSecrets | undefined): void {
  const mistakes: Mistake[] = [
    ...hosts.flatMap(({ origin }, i) =>
      URL.canParse(origin) && new URL(origin).origin === origin && origin.startsWith("https://")
        ? []
        : [{ path: ["hosts", String(i), "origin"], message: "must be https://host or https://host:port" }],
    ),
    ...checkIntegrationSecrets(secrets),
  ];
  if (mistakes.length > 0) throw new Fault("invalid_body", "the integration is not valid", { mistakes });
}
