import { credentialsExpireAt } from "../../../auth/credential-life.ts";
import type { ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import { type Credentials, CredentialsSchema } from "../../../gen/latchkey/v1/credentials_pb.ts";
import { type IntegrationSecrets, IntegrationSecretsSchema } from "../../../gen/latchkey/v1/integration_pb.ts";
import type { EndedLog, Logs, LogWriter } from "../../audit/logs.ts";
import { secretValues } from "../../audit/secret-values.ts";
import { msIn } from "./health-messages.ts";

export interface LogAbout {
  readonly operation: string;
  readonly ref: ConnectionRef;
  readonly credentials: Credentials;
  readonly secrets: IntegrationSecrets | undefined;
}

/** Begins a log of an operation on the connection's credentials, with the secrets to redact. */
export function beginCredentialsLog(logs: Logs, { operation, ref, credentials, secrets }: LogAbout): LogWriter {
  return logs.begin({
    operation,
    environment: ref.environment,
    integration: ref.integration,
    connectionId: ref.id,
    secrets: [
      ...secretValues(CredentialsSchema, credentials),
      ...(secrets === undefined ? [] : secretValues(IntegrationSecretsSchema, secrets)),
    ],
  });
}

/** Logs why the connection must be re-authorized when only time has passed. All values in the log are our own. */
export function logExpiry(logs: Logs, ref: ConnectionRef, credentials: Credentials): EndedLog {
  const { environment, integration, id: connectionId } = ref;
  const log = logs.begin({ operation: "auth.expire", environment, integration, connectionId, secrets: [] });
  const expiresAt = credentialsExpireAt(credentials);
  log.error("the credentials have expired and cannot be refreshed: the end user must authorize again", {
    credentials: credentials.kind.case,
    credentials_expire_at: msIn(expiresAt),
  });
  return log.end({ failed: true });
}
