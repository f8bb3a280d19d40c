import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import {
  type Integration,
  type IntegrationSecrets,
  IntegrationSecretsSchema,
} from "../../gen/latchkey/v1/integration_pb.ts";
import type { Change, Store } from "../../store/contract.ts";
import type { StoredRecordOf } from "../../store/records.ts";
import { namesNothing } from "../stored/name-tables.ts";
import { integrationSecretsKey, type SetupCollections } from "./setup-collections.ts";

/** An integration within its environment. */
export interface IntegrationRef {
  readonly environment: string;
  readonly key: string;
}

/** Stored integrations, and their secrets, which are encrypted records of their own. */
export interface IntegrationRecords {
  /** Throws `unknown_provider_config` if there is none. */
  get(ref: IntegrationRef): Promise<StoredRecordOf<Integration>>;
  secretsOf(ref: IntegrationRef): Promise<IntegrationSecrets | undefined>;
  /** Returns the change that replaces the secrets; undefined deletes them. */
  secretsChange(ref: IntegrationRef, secrets: IntegrationSecrets | undefined): Change[];
}

interface IntegrationRecordsOptions {
  readonly store: Store;
  readonly collections: Pick<SetupCollections, "integrations">;
}

export function createIntegrationRecords({ store, collections }: IntegrationRecordsOptions): IntegrationRecords {
  const { integrations } = collections;
  return {
    async get(ref) {
      const { environment, key } = ref;
      const found = namesNothing(environment, key) ? undefined : await integrations.get(environment, key);
      if (found === undefined) throw unknownIntegration(ref);
      return found;
    },
    async secretsOf({ environment, key }) {
      const entry = await store.get(integrationSecretsKey(environment, key));
      return entry === undefined ? undefined : fromBinary(IntegrationSecretsSchema, entry.value);
    },
    secretsChange({ environment, key }, secrets) {
      const at = integrationSecretsKey(environment, key);
      if (secrets === undefined) return [{ key: at, value: undefined }];
      return [{ key: at, value: toBinary(IntegrationSecretsSchema, secrets), secret: true }];
    },
  };
}

export const unknownIntegration = ({ environment, key: name }: IntegrationRef) =>
  new Fault("unknown_provider_config", `there is no integration "${name}" in this environment`, {
    missing: { kind: "integration", name, environment },
  });
