import { fromBinary } from "@bufbuild/protobuf";
import { createLateCache } from "../../base/caches/late-cache.ts";
import {
  type Integration,
  type IntegrationSecrets,
  IntegrationSecretsSchema,
} from "../../gen/latchkey/v1/integration_pb.ts";
import type { Store } from "../../store/contract.ts";
import { namesNothing } from "../stored/name-tables.ts";
import { type IntegrationRef, unknownIntegration } from "./integration-records.ts";
import { integrationKey, integrationSecretsKey, type SetupCollections } from "./setup-collections.ts";

export interface IntegrationWithSecrets {
  readonly integration: Integration;
  readonly secrets: IntegrationSecrets | undefined;
}

/** An integration with its secrets, as requests use it, and the revisions that were read. */
interface CachedIntegration extends IntegrationWithSecrets {
  readonly revision: number;
  readonly secretsRevision: number;
}

interface IntegrationsInUseOptions {
  readonly store: Store;
  readonly collections: Pick<SetupCollections, "integrations">;
}

/** Cache size: more than are in use at a time; others are read again. */
const maxInUse = 1_000;

/**
 * Returns a function that reads an integration and its secrets for requests. Callers share one object until the
 * integration or its secrets change.
 */
export function createReadIntegrationInUse({
  store,
  collections: { integrations },
}: IntegrationsInUseOptions): (ref: IntegrationRef) => Promise<IntegrationWithSecrets> {
  const cache = createLateCache<CachedIntegration>({ max: maxInUse });
  return async (ref) => {
    const { environment, key } = ref;
    if (namesNothing(environment, key)) throw unknownIntegration(ref);
    const at = integrationKey(environment, key);
    const [entry, sealed] = await store.getMany([at, integrationSecretsKey(environment, key)]);
    if (entry === undefined) throw unknownIntegration(ref);
    const [revision, secretsRevision] = [entry.revision, sealed?.revision ?? 0];
    const known = cache.get(at);
    if (known?.revision === revision && known.secretsRevision === secretsRevision) return known;
    const integration = integrations.read(entry, revision)?.value;
    if (integration === undefined) throw unknownIntegration(ref);
    const secrets = sealed && fromBinary(IntegrationSecretsSchema, sealed.value);
    const read = { integration, secrets, revision, secretsRevision };
    cache.set(at, read);
    return read;
  };
}
