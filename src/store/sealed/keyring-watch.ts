import { setTimeout as sleep } from "node:timers/promises";
import type { World } from "../../base/world.ts";
import type { Backend, Watch } from "../contract.ts";
import { follow } from "../follow.ts";
import type { Keyring } from "./keyring.ts";

interface KeyringWatchOptions {
  readonly backend: Backend;
  readonly keyring: Keyring;
  readonly world: World;
}

const retryEveryMs = 1_000;

/**
 * Keeps the data keys in sync with changes by other replicas, and logs once which seal key this replica lacks: values
 * encrypted under it cannot be read here.
 */
export async function followKeyring({ backend, keyring, world }: KeyringWatchOptions): Promise<Watch> {
  const ended = new AbortController();
  let told: string | undefined;
  let isBehind = false;
  let isReading = false;

  function tell(): void {
    const reason = keyring.missing?.message;
    if (reason === told) return;
    told = reason;
    if (reason === undefined) world.log.info("all encryption keys that the store needs are configured again; ready");
    else world.log.error("an encryption key is missing; this replica is not ready", { reason });
  }

  /** Repeats until the latest commit was read. */
  async function readAgain(): Promise<void> {
    isBehind = true;
    if (isReading) return;
    isReading = true;
    while (isBehind && !ended.signal.aborted) {
      isBehind = false;
      try {
        await keyring.refresh();
        tell();
      } catch (err) {
        isBehind = true;
        world.log.warn("could not read the data keys; will retry", { err });
        await sleep(retryEveryMs, undefined, { signal: ended.signal }).catch(() => {});
      }
    }
    isReading = false;
  }

  const watch = await follow({
    store: backend,
    world,
    spaces: ["seal"],
    read: async () => {
      await keyring.refresh();
      return tell;
    },
    onCommit: () => void readAgain(),
  });
  return {
    close() {
      ended.abort();
      watch.close();
    },
  };
}
