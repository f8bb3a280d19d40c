import {
  type SigningSecrets,
  SigningSecretsSchema,
  type StoredEmptying,
  StoredEmptyingSchema,
} from "../../gen/latchkey/stored/v1/stored_pb.ts";
import {
  Emptying_State,
  type Environment,
  EnvironmentSchema,
  type Key,
  KeySchema,
} from "../../gen/latchkey/v1/environment_pb.ts";
import { type Integration, IntegrationSchema } from "../../gen/latchkey/v1/integration_pb.ts";
import { type Policy, PolicySchema } from "../../gen/latchkey/v1/policy_pb.ts";
import { type Provider, ProviderSchema } from "../../gen/latchkey/v1/provider_pb.ts";
import type { Store } from "../../store/contract.ts";
import { keyOf } from "../../store/keys.ts";
import { createRecords } from "../../store/records.ts";
import { complete, strip } from "../stored/revisions.ts";

/** Records of the operator's setup. */
export function createSetupCollections(store: Store) {
  return {
    environments: createRecords({
      store,
      name: "environment",
      schema: EnvironmentSchema,
      key: ({ name }: Environment) => [name],
      complete,
      strip,
    }),
    /** The last emptying of each environment. */
    emptyings: createRecords({
      store,
      name: "emptying",
      schema: StoredEmptyingSchema,
      key: ({ emptying }: StoredEmptying) => [emptying?.environment ?? ""],
      keyParts: 1,
      indexes: {
        running: ({ emptying }: StoredEmptying) => (emptying?.state === Emptying_State.RUNNING ? [[]] : []),
      },
    }),
    keys: createRecords({ store, name: "key", schema: KeySchema, key: ({ id }: Key) => [id], complete, strip }),
    providers: createRecords({
      store,
      name: "provider",
      schema: ProviderSchema,
      key: ({ name }: Provider) => [name],
      complete,
      strip,
    }),
    policies: createRecords({
      store,
      name: "policy",
      schema: PolicySchema,
      key: ({ environment, id }: Policy) => [environment, id],
      complete,
      strip,
    }),
    signingSecrets: createRecords({
      store,
      name: "signing-secrets",
      schema: SigningSecretsSchema,
      secret: true,
      key: ({ environment }: SigningSecrets) => [environment],
    }),
    integrations: createRecords({
      store,
      name: "integration",
      schema: IntegrationSchema,
      key: ({ environment, key }: Integration) => [environment, key],
      complete,
      strip,
      indexes: {
        provider: ({ provider }: Integration) => [[provider]],
        environment: ({ environment, provider }: Integration) => [[environment, provider]],
      },
    }),
  } as const;
}

export type SetupCollections = ReturnType<typeof createSetupCollections>;

/** Spaces of emptyings, and of those that are under way. */
export const emptyingSpace = "emptying";
export const runningEmptyingSpace = "emptying.running";

/** The key that `integrations` uses, for callers that read an integration together with its secrets. */
export const integrationKey = (environment: string, key: string) => keyOf("integration", environment, key);

/** The stored value is encrypted. */
export const integrationSecretsKey = (environment: string, key: string) =>
  keyOf("integration-secrets", environment, key);

/** The key that `signingSecrets` uses, for commits on condition that no secrets are stored. */
export const signingSecretsKey = (environment: string) => keyOf("signing-secrets", environment);

export const keyDigestKey = (digest: string) => keyOf("key-digest", digest);

export const keyTouchKey = (id: string) => keyOf("touch", "key", id);
