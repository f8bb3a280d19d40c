import type { Attachment } from "../../../auth/attachment.ts";
import { attachedSecrets } from "../../../core/secrets/attached-secrets.ts";
import { type Credentials, CredentialsSchema } from "../../../gen/latchkey/v1/credentials_pb.ts";
import type { LogWriter } from "../../audit/logs.ts";
import { secretValues } from "../../audit/secret-values.ts";
import type { NoteSent } from "../../credentials/connection-request.ts";
import type { LiveConnection } from "../../credentials/live-connections.ts";

/** Credentials that a run has used. Redacted if a provider echoed a credential into the run's failure. */
export interface UsedCredentials {
  readonly live: () => Promise<LiveConnection>;
  /** A request may go with others than `live` gave: with a minted token, or after the provider refused the first ones. */
  readonly noteSent: NoteSent;
  hideIn(log: Pick<LogWriter, "hide">): void;
  secrets(): string[];
}

/** Limits the remembered credentials: a run of 15 minutes sees one or two refreshes. */
const maxRemembered = 8;

export function rememberCredentials(live: () => Promise<LiveConnection>): UsedCredentials {
  const used = new Set<Credentials>();
  const attached = new Set<Attachment>();
  const secrets = (): string[] => [
    ...[...used].flatMap((credentials) => secretValues(CredentialsSchema, credentials)),
    ...[...attached].flatMap((attachment) => [...attachedSecrets(attachment)]),
  ];
  return {
    secrets,
    hideIn: (log) => log.hide(...secrets()),
    async live() {
      const found = await live();
      if (used.size < maxRemembered) used.add(found.credentials);
      return found;
    },
    noteSent({ credentials, attachment }) {
      if (used.size < maxRemembered) used.add(credentials);
      if (attached.size < maxRemembered) attached.add(attachment);
    },
  };
}
