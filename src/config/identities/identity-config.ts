import type { UnixAddress } from "../../base/http/listener.ts";
import type { EdgeIdentityRules, IdentityRules } from "../../core/identities/identity-rules.ts";
import type { AliasConfig, DoorsConfig } from "../doors.ts";
import { edgeIdentitiesOf } from "../edges/edge-identities.ts";
import type { ConfigFile } from "../file.ts";
import type { FileReader } from "../secrets.ts";
import type { Refuse } from "../values.ts";
import { identitiesOf } from "./identities.ts";
import { withIdentitySockets } from "./identity-sockets.ts";

/** Rules for callers and edges that prove who they are instead of sending a key. */
export interface IdentityConfig {
  readonly edgeIdentities: EdgeIdentityRules;
  readonly identities: IdentityRules;
}

/** Listeners, some of which are for the callers of one identity. */
export interface ListeningConfig {
  readonly doors: DoorsConfig;
  readonly aliases: readonly AliasConfig[];
  readonly identitySockets: readonly UnixAddress[];
}

interface IdentityConfigSource {
  readonly file: ConfigFile;
  readonly files: FileReader;
  readonly refuse: Refuse;
}

/** Reads the rules for identities. Reports all mistakes. */
export const identityConfigOf = (source: IdentityConfigSource): IdentityConfig => ({
  edgeIdentities: edgeIdentitiesOf(source),
  identities: identitiesOf(source),
});

/** Adds the Unix sockets of identities to the listeners. */
export const listeningWithIdentities = (
  { file, refuse }: Pick<IdentityConfigSource, "file" | "refuse">,
  { doors, aliases }: Omit<ListeningConfig, "identitySockets">,
): ListeningConfig => ({ aliases, ...withIdentitySockets({ file, doors, aliases, refuse }) });
