import { create, equals } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import { withoutEmptySettings, withSortedSettings } from "../../core/integration-settings.ts";
import {
  type Integration,
  IntegrationSchema,
  type IntegrationSecrets,
  IntegrationSecretsSchema,
} from "../../gen/latchkey/v1/integration_pb.ts";
import type { Store } from "../../store/contract.ts";
import { transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import type { IntegrationRecords, IntegrationRef } from "./integration-records.ts";
import { storedIntegration, withCallback } from "./integration-rules.ts";
import type { Providers } from "./providers.ts";
import type { SetupCollections } from "./setup-collections.ts";

/** Integrations of the configuration file. */
export interface DeclaredIntegrations {
  /**
   * Creates or updates an integration that the configuration file declares. One that is no longer declared becomes
   * editable again.
   */
  declare(integration: Integration): Promise<void>;
  release(ref: IntegrationRef): Promise<void>;
  /** Returns all integrations that the configuration file declared, in all environments. */
  declared(): Promise<readonly Integration[]>;
  /**
   * Throws if the provider differs: an integration keeps its provider for good, because its connections hold that
   * provider's credentials.
   */
  requireSameProvider(integration: Integration): Promise<void>;
}

interface DeclaredIntegrationsOptions {
  readonly store: Store;
  readonly collections: SetupCollections;
  readonly records: IntegrationRecords;
  readonly providers: Providers;
  readonly audit: Audit;
  readonly world: World;
}

export function createDeclaredIntegrations(options: DeclaredIntegrationsOptions): DeclaredIntegrations {
  const { store, collections, records, providers, audit, world } = options;
  const { integrations } = collections;

  /**
   * Returns whether the declared integration is unchanged: a restart with the same file writes neither changes nor
   * audit entries.
   */
  async function isUnchanged(before: Integration, after: Integration, secrets: IntegrationSecrets | undefined) {
    const { updatedAt, revision } = before;
    const same = { ...after, revision, ...(updatedAt === undefined ? {} : { updatedAt }) };
    const none = create(IntegrationSecretsSchema);
    return (
      equals(IntegrationSchema, before, same) &&
      equals(IntegrationSecretsSchema, (await records.secretsOf(after)) ?? none, secrets ?? none)
    );
  }

  return {
    async declare(given) {
      const { environment, key } = given;
      const provider = providers.lookUp(given.provider);
      const wanted = withSortedSettings(withoutEmptySettings(given), provider);
      const { secrets } = wanted;
      await transact(store, async () => {
        const before = await integrations.get(environment, key);
        // Keep a redirect URI that is registered at the provider until the file asks for another.
        const made = withCallback(wanted, provider, before?.value.callback);
        const after = { ...storedIntegration(made, world.now(), before?.value), declared: true };
        if (before !== undefined && (await isUnchanged(before.value, after, secrets)))
          return { changes: [], result: undefined };
        return {
          changes: [
            ...integrations.change({ before, after }),
            ...records.secretsChange(wanted, secrets),
            ...audit.changes({ actor: "config", action: "integration.declare", environment, targets: [key] }),
          ],
          result: undefined,
        };
      });
    },
    async release({ environment, key }) {
      await transact(store, async () => {
        const before = await records.get({ environment, key });
        return {
          changes: [
            ...integrations.change({ before, after: { ...before.value, declared: false } }),
            ...audit.changes({ actor: "config", action: "integration.release", environment, targets: [key] }),
          ],
          result: undefined,
        };
      });
    },
    async declared() {
      const all = await integrations.page({ under: [], limit: Number.MAX_SAFE_INTEGER });
      return all.map(({ value }) => value).filter(({ declared }) => declared);
    },
    async requireSameProvider({ environment, key, provider }) {
      const before = await integrations.get(environment, key);
      if (before === undefined || before.value.provider === provider) return;
      throw new Fault(
        "conflict",
        `the integration "${key}" already exists with the provider "${before.value.provider}"`,
      );
    },
  };
}
