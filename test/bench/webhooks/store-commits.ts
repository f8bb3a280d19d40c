import { hash } from "node:crypto";
import type { SealedStore } from "../../../src/store/sealed/sealed.ts";
import { reserveMessages, type Sending } from "./sending.ts";

interface Named {
  /** The digest of its message. */
  readonly digest: string;
  /** Ascending. */
  readonly id: string;
  /** The id of its delivery. */
  readonly message: string;
}

const named = (at: number): Named => ({
  digest: hash("sha256", `seen ${at}`),
  id: `0mwsi1la2${String(at).padStart(12, "0")}`,
  message: `msg_${hash("sha256", `forward ${at}`, "base64url").slice(0, 32)}`,
});

/**
 * The writes of a notification with one delivery: as many and as large, with the same two that must be absent. Ordered
 * keys stay ordered and random keys random, for which LevelDB takes a sixth longer.
 */
const alike = [
  { key: ({ digest }: Named) => `notification-seen\0bench\0calendar\0${digest}`, bytes: 36, expect: 0 },
  { key: ({ id }: Named) => `notification\0bench\0${id}`, bytes: 337 },
  { key: ({ message }: Named) => `forward\0bench\0${message}`, bytes: 217, expect: 0 },
  { key: ({ id, message }: Named) => `forward.made\0bench\0${id}\0bench\0${message}`, bytes: 0 },
  { key: ({ id, message }: Named) => `forward.connection\0bench\0calendar\0one\0${id}\0bench\0${message}`, bytes: 0 },
  { key: ({ message }: Named) => `forward.waiting\0bench\0${message}`, bytes: 62 },
] as const;

/** Returns the commits a second. */
export async function commitsAlike(store: SealedStore, { senders, count }: Sending): Promise<number> {
  const from = reserveMessages(count);
  // Created in advance: that is not part of a commit.
  const keys = Array.from({ length: count }, (_, i) => alike.map(({ key }) => key(named(from + i))));
  let next = 0;
  const since = performance.now();
  await Promise.all(
    Array.from({ length: senders }, async () => {
      for (let at = next++; at < count; at = next++) {
        await store.commit(
          alike.map(({ bytes, ...rest }, i) => ({ ...rest, key: keys[at]?.[i] ?? "", value: Buffer.alloc(bytes, at) })),
        );
      }
    }),
  );
  return count / ((performance.now() - since) / 1_000);
}
