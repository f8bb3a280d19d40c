import type { Log } from "../../src/base/log.ts";
import type { Metrics } from "../../src/base/metrics/metrics.ts";
import type { Backend } from "../../src/store/contract.ts";
import { parseStoreLocation } from "../../src/store/location.ts";
import { openBackend } from "../../src/store/open.ts";

// Like main.ts: a store warns of files that others can read.
process.umask(0o077);

/** Opens the store at a location in the form of LATCHKEY_STORE. */
export async function openLocation(
  text: string,
  world: { readonly log: Log; readonly metrics: Metrics },
): Promise<Backend> {
  const location = parseStoreLocation(text);
  if (location === undefined) throw new Error(`no store lies in ${text}`);
  return openBackend(location, world);
}
