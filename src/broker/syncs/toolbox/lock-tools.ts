import type { JsonValue } from "@bufbuild/protobuf";
import type { NamedTools } from "./tool.ts";
import { invalidArgument, objectArgument, textArgument } from "./tool-arguments.ts";

const defaultTtlMs = 60_000;
const maxTtlMs = 3_600_000;
const maxKeyLength = 255;

/** Tools for locks between the runs of an environment. */
export const lockTools: NamedTools = {
  async tryAcquireLock({ locks, isDryRun, log }, [lock]) {
    const { key, ttlMs } = lockArgument(lock);
    if (!isDryRun) return locks.acquire(key, ttlMs);
    log.info("a lock would be acquired", { key });
    return true;
  },
  releaseLock: ({ locks }, [lock]) => locks.release(lockArgument(lock).key),
  async releaseAllLocks({ locks }) {
    await locks.releaseAll();
    return undefined;
  },
};

function lockArgument(given: JsonValue | undefined): { readonly key: string; readonly ttlMs: number } {
  const { key, ttlMs = defaultTtlMs } = objectArgument(given, "lock");
  const name = textArgument(key, "key");
  if (name.length > maxKeyLength) throw invalidArgument(`\`key\` must have at most ${maxKeyLength} characters`);
  if (typeof ttlMs === "number" && Number.isInteger(ttlMs) && ttlMs >= 1 && ttlMs <= maxTtlMs) {
    return { key: name, ttlMs };
  }
  throw invalidArgument(`\`ttlMs\` must be a whole number from 1 to ${maxTtlMs}`);
}
