import { type DeclaredSetup, defaultEnvironment } from "../core/declared.ts";
import type { ReadFile } from "./read-file.ts";
import type { SecretSource } from "./secrets.ts";
import type { Refuse } from "./values.ts";

interface KeySource extends ReadFile {
  readonly declared: Pick<DeclaredSetup, "keys">;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly secrets: SecretSource;
  readonly refuse: Refuse;
}

const variableNames = ["LATCHKEY_SECRET_KEY", "LATCHKEY_ADMIN_KEY"] as const;

/**
 * Refuses a secret that two keys share: a caller who sends it would have the scopes of only one of them. A key of the
 * default environment may have the secret of LATCHKEY_SECRET_KEY: it replaces that key, with its own scopes.
 */
export function refuseSharedKeys({ declared, env, secrets, refuse, ...read }: KeySource): void {
  const pinned = variableNames.map((name) => {
    const file = env[`${name}_FILE`];
    const outcome = file ? secrets.fromFile(file) : secrets.fromVariable(name);
    return { name, value: "value" in outcome ? outcome.value : undefined };
  });
  const names = new Map<string, string>();
  const keys = declared.keys.map(({ id, secret }) => ({ name: `the key "${id}"`, value: secret, id }));
  for (const { name, value, id } of [...keys, ...pinned.map((one) => ({ ...one, id: undefined }))]) {
    if (value === undefined) continue;
    const other = names.get(value);
    if (name === "LATCHKEY_SECRET_KEY" && replacesSecretKey(declared, value)) continue;
    if (other === undefined) names.set(value, name);
    else
      refuse(
        `${id === undefined ? "" : placeOf(id, read)}${other} and ${name} have the same secret; each key needs its own`,
      );
  }
}

function placeOf(id: string, { file, locate }: ReadFile): string {
  for (const [i, { keys = [] }] of (file.environments ?? []).entries()) {
    const j = keys.findIndex((key) => key.id === id);
    if (j >= 0) return `${locate(["environments", i, "keys", j, "key"])}: `;
  }
  return "";
}

/** Returns whether the file declares the key that LATCHKEY_SECRET_KEY would pin. */
export const replacesSecretKey = ({ keys }: Pick<DeclaredSetup, "keys">, secretKey: string): boolean =>
  keys.some(({ environment, secret }) => environment === defaultEnvironment && secret === secretKey);
