import { type Credentials, CredentialsSchema } from "../../gen/latchkey/v1/credentials_pb.ts";
import type { LogWriter } from "../audit/logs.ts";
import { secretValues } from "../audit/secret-values.ts";
import type { LiveConnection } from "../credentials/live-connections.ts";

/** Credentials that a run has used. Redacted if a provider echoed a credential into the run's failure. */
export interface UsedCredentials {
  readonly live: () => Promise<LiveConnection>;
  hideIn(log: Pick<LogWriter, "hide">): void;
}

/** Limits the remembered credentials: a run of 15 minutes sees one or two refreshes. */
const maxRemembered = 8;

export function rememberCredentials(live: () => Promise<LiveConnection>): UsedCredentials {
  const used = new Set<Credentials>();
  return {
    async live() {
      const found = await live();
      if (used.size < maxRemembered) used.add(found.credentials);
      return found;
    },
    hideIn(log) {
      for (const credentials of used) log.hide(...secretValues(CredentialsSchema, credentials));
    },
  };
}
