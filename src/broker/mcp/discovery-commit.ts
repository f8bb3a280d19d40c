import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { type Integration, IntegrationSecretsSchema } from "../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { Change, Store } from "../../store/contract.ts";
import { transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import { createIntegrationRecords } from "../setup/integration-records.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import type { RegisteredClient } from "./registration.ts";

/** Stores what a discovery found. */
export interface CommitDiscovery {
  /** Stores description and client in one commit. Returns the integration. */
  result(discovery: DiscoveryResult): Promise<Integration>;
  /** Notes that the last discovery failed. The description stays. */
  failure(provider: string, message: string): Promise<void>;
}

export interface DiscoveryResult {
  /** As it was read before the discovery. */
  readonly integration: Integration;
  readonly provider: Provider;
  /** Undefined: the integration keeps its client. */
  readonly client: RegisteredClient | undefined;
  readonly issuerChanged: boolean;
  readonly actor: string;
}

interface CommitOptions {
  readonly store: Store;
  readonly collections: SetupCollections;
  readonly audit: Audit;
  readonly now: () => number;
}

export function createDiscoveryCommit({ store, collections, audit, now }: CommitOptions): CommitDiscovery {
  const { providers, integrations } = collections;
  const records = createIntegrationRecords({ store, collections });

  return {
    async result({ integration: read, provider, client, issuerChanged, actor }) {
      const { environment, key } = read;
      const { result, revision } = await transact(store, async () => {
        const before = await records.get({ environment, key });
        // The operator may have entered another client in the meantime: that one stays.
        const isSame = before.value.oauth?.clientId === read.oauth?.clientId;
        const made = client === undefined || !isSame ? undefined : client;
        const after = withRegistered(before.value, { made, provider, nowMs: now() });
        const secrets: Change[] = made === undefined ? [] : await secretChanges(before.value, made.clientSecret);
        const isWritten = made !== undefined || issuerChanged || after !== before.value;
        return {
          changes: [
            ...providers.change({ before: await providers.get(provider.name), after: provider }),
            ...(isWritten ? integrations.change({ before, after }) : []),
            ...secrets,
            ...(isWritten
              ? audit.changes({ actor, action: auditAction(issuerChanged), environment, targets: [key] })
              : []),
          ],
          result: { integration: after, isWritten },
        };
      });
      return result.isWritten ? { ...result.integration, revision: BigInt(revision) } : result.integration;
    },
    async failure(name, message) {
      await transact(store, async () => {
        const before = await providers.get(name);
        if (before?.value.mcp === undefined) return { changes: [], result: undefined };
        const mcp = { ...before.value.mcp, failure: message.slice(0, 500), triedAt: timestampFromMs(now()) };
        return { changes: providers.change({ before, after: { ...before.value, mcp } }), result: undefined };
      });
    },
  };

  async function secretChanges(integration: Integration, clientSecret: string): Promise<Change[]> {
    const former = (await records.secretsOf(integration)) ?? create(IntegrationSecretsSchema);
    return records.secretsChange(integration, { ...former, clientSecret });
  }
}

const auditAction = (issuerChanged: boolean): string =>
  issuerChanged ? "integration.issuer_change" : "integration.register";

interface Registered {
  readonly made: RegisteredClient | undefined;
  readonly provider: Provider;
  readonly nowMs: number;
}

/** Returns the same object if nothing changes. */
function withRegistered(integration: Integration, { made, provider, nowMs }: Registered): Integration {
  const updatedAt = timestampFromMs(nowMs);
  if (made !== undefined) {
    const { clientId, registration } = made;
    const app = integration.oauth ?? {
      $typeName: "latchkey.v1.OAuthApp",
      scopes: [],
      publishing: 0,
      furtherScopes: {},
    };
    return { ...integration, oauth: { ...app, clientId, registration }, updatedAt };
  }
  const { oauth } = integration;
  const issuer = provider.auth.case === "oauth2" ? provider.auth.value.issuer : "";
  // A client of the configuration file, which was declared before the server was known.
  if (oauth?.registration === undefined || oauth.registration.issuer !== "" || issuer === "") return integration;
  return { ...integration, oauth: { ...oauth, registration: { ...oauth.registration, issuer } }, updatedAt };
}
