import { equals } from "@bufbuild/protobuf";
import type { ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import { type Credentials, CredentialsSchema } from "../../../gen/latchkey/v1/credentials_pb.ts";
import type { Integration, IntegrationSecrets } from "../../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../../gen/latchkey/v1/provider_pb.ts";
import type { ConnectionHealth } from "../../connections/health/health.ts";
import type { ConnectionSnapshot } from "../../connections/health/snapshot.ts";
import { unknownConnection } from "../../connections/unknown-connection.ts";
import type { Integrations } from "../../setup/integrations.ts";
import type { Providers } from "../../setup/providers.ts";

/** A connection as it was read, with what its refresh needs. */
export interface RefreshTarget {
  readonly known: ConnectionSnapshot;
  readonly integration: Integration;
  readonly secrets: IntegrationSecrets | undefined;
  readonly provider: Provider;
}

/** Rejects with a Fault if the connection does not exist. */
export type ReadTarget = (ref: ConnectionRef) => Promise<RefreshTarget>;

interface TargetSource {
  readonly health: ConnectionHealth;
  readonly integrations: Integrations;
  readonly providers: Providers;
}

export function createTargetReader({ health, integrations, providers }: TargetSource): ReadTarget {
  return async (ref) => {
    const { environment, integration: key } = ref;
    const at = { environment, key };
    const [known, { integration, secrets }] = await Promise.all([health.read(ref), integrations.inUse(at)]);
    if (known === undefined) throw unknownConnection(ref);
    return { known, integration, secrets, provider: await providers.findNow(known.connection.value.provider) };
  };
}

/** Compares by value: a re-seal rewrites the same credentials. */
export const hasCredentials = ({ known }: RefreshTarget, credentials: Credentials): boolean =>
  equals(CredentialsSchema, known.credentials, credentials);

/** The provider has refused the grant for good. */
export const isDead = ({ known: { record } }: RefreshTarget): boolean =>
  record !== undefined && record.value.deadReason !== "";

/** The fields that name a connection in a log line. */
export const logFieldsOf = ({ environment, integration, id }: ConnectionRef) => ({
  environment,
  integration,
  connection: id,
});
