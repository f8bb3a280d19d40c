import type { DeclaredSetup } from "../core/declared.ts";
import type { SecretSource } from "./secrets.ts";
import type { Refuse } from "./values.ts";

interface KeySource {
  readonly declared: Pick<DeclaredSetup, "keys">;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly secrets: SecretSource;
  readonly refuse: Refuse;
}

const variableNames = ["LATCHKEY_SECRET_KEY", "LATCHKEY_ADMIN_KEY"] as const;

/** Refuses a secret that two keys share: a caller who sends it would have the scopes of only one of them. */
export function refuseSharedKeys({ declared, env, secrets, refuse }: KeySource): void {
  const pinned = variableNames.map((name) => {
    const file = env[`${name}_FILE`];
    const outcome = file ? secrets.fromFile(file) : secrets.fromVariable(name);
    return { name, value: "value" in outcome ? outcome.value : undefined };
  });
  const names = new Map<string, string>();
  const keys = declared.keys.map(({ id, secret }) => ({ name: `the key "${id}"`, value: secret }));
  for (const { name, value } of [...keys, ...pinned]) {
    if (value === undefined) continue;
    const other = names.get(value);
    if (other === undefined) names.set(value, name);
    else refuse(`${other} and ${name} have the same secret; each key needs its own`);
  }
}
