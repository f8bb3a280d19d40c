import type { UnixAddress } from "../../base/http/listener.ts";
import type { IdentityRules } from "../../core/identities/identity-rules.ts";
import type { ConfigSource } from "../config.ts";
import type { ConfigFile } from "../file.ts";
import { identitiesOf } from "../identities/identities.ts";
import { ConfigMistakes } from "../mistakes.ts";
import { readConfigFile, withPlace } from "../read-file.ts";
import type { FileReader } from "../secrets.ts";
import type { Refuse } from "../values.ts";

/** Callers of an edge that prove who they are: the edge checks them itself. */
export interface EdgeIdentityConfig {
  readonly identities: IdentityRules;
  readonly identitySockets: readonly UnixAddress[];
  /** Path of the configuration file; undefined: there is none. */
  readonly configFile: string | undefined;
  /** Reads the rules again. Throws a `ConfigMistakes`. */
  readIdentities(): IdentityRules;
}

interface EdgeRulesSource {
  readonly file: ConfigFile;
  readonly files: FileReader;
  readonly refuse: Refuse;
}

/** Reads the rules of an edge. Each needs an environment: control identities are for brokers. */
export function edgeRulesOf({ file, files, refuse }: EdgeRulesSource): IdentityRules {
  const rules = identitiesOf({ file, files, refuse });
  for (const [i, { environment }] of rules.grants.entries()) {
    if (environment === undefined) refuse(`identities.rules.${i}: needs an environment: an edge serves no admin`);
  }
  return rules;
}

/** Returns a function that reads the rules of an edge again. */
export const createEdgeRulesReader =
  (path: string | undefined, { files }: Pick<ConfigSource, "files">, first: IdentityRules) =>
  (): IdentityRules => {
    if (path === undefined) return first;
    const mistakes: string[] = [];
    const refuse = (message: string) => void mistakes.push(message);
    const read = readConfigFile({ path, files, refuse });
    const rules = edgeRulesOf({ file: read.file, files, refuse: withPlace(read, refuse) });
    if (mistakes.length > 0) throw new ConfigMistakes(mistakes);
    return rules;
  };
