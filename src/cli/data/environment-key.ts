import { type KeyOptions, readIfThere, readSecretVariable, validKey } from "../key.ts";
import { devKeyValue, findDevState } from "../process/dev-state.ts";
import { readSecret } from "../terminal/input.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { UsageMistake } from "../terminal/usage-mistake.ts";

/** Returns the key of an environment, which the data listener accepts. */
export async function findEnvironmentKey({ key, keyFile }: KeyOptions, terminal: Terminal): Promise<string> {
  if (key !== undefined) return validKey(key, "--key");
  if (keyFile !== undefined) return validKey(await readSecret(keyFile, terminal), keyFile);
  for (const name of ["LATCHKEY_SECRET_KEY", "LATCHKEY_KEY"]) {
    const found = await readSecretVariable(name, terminal);
    if (found !== undefined) return found;
  }
  const dev = findDevState();
  const found = (dev && devKeyValue(dev.secretKey)) ?? (await readIfThere("secret-key", terminal.env));
  if (found !== undefined) return found;
  throw new UsageMistake(
    "give the key of an environment with --key-file FILE or LATCHKEY_SECRET_KEY; `latchkey keys create` makes one",
  );
}
