import { setImmediate } from "node:timers/promises";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import type { Log } from "../../base/log.ts";
import { ResealStateSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { type Backend, type Change, type Entry, StaleWrite, StoreDamaged } from "../contract.ts";
import { after as keyAfter } from "../keys.ts";
import { isKeyringKey } from "./data-key-wrapping.ts";
import type { Keyring } from "./keyring.ts";
import type { ValueEnvelope } from "./value-envelope.ts";

const pageEntries = 500;
const authenticatingKey = "seal-authenticating";
const resealKey = "seal-resealing";
const everything = { from: "\x01", to: "\u{10ffff}" };

interface RewriteParts {
  readonly backend: Backend;
  readonly keyring: Keyring;
  readonly frames: ValueEnvelope;
}

interface RewriteScan extends RewriteParts {
  /** Key under which the progress is stored. */
  readonly at: string;
  readonly epoch: number;
  /** Returns the new value; undefined to keep the old one. */
  readonly rewrite: (entry: Entry) => Uint8Array | undefined;
}

/** Scans everything and rewrites some values, one commit per page. An interrupted scan can be resumed. */
async function* rewriteAll({ backend, at, epoch, rewrite }: RewriteScan): AsyncGenerator<number> {
  const state = await backend.get(at);
  let after = state === undefined ? everything.from : fromBinary(ResealStateSchema, state.value).after;
  for (;;) {
    const page = await backend.list({ from: keyAfter(after), to: everything.to, limit: pageEntries });
    const changes = page.flatMap((entry): Change[] => {
      const value = isKeyringKey(entry.key) ? undefined : rewrite(entry);
      return value === undefined ? [] : [{ key: entry.key, value, expect: entry.revision }];
    });
    const last = page.at(-1)?.key;
    if (last === undefined) return;
    if (changes.length > 0) {
      const next = toBinary(ResealStateSchema, create(ResealStateSchema, { epoch, after: last }));
      try {
        await backend.commit([...changes, { key: at, value: next }]);
      } catch (error) {
        // A value changed meanwhile: read the page again.
        if (error instanceof StaleWrite) continue;
        throw error;
      }
    }
    after = last;
    yield changes.length;
    await setImmediate();
  }
}

/** Adds authentication codes to all values of a store that has none yet. */
export async function authenticateAll({
  backend,
  keyring,
  frames,
  log,
}: RewriteParts & { readonly log: Log }): Promise<void> {
  log.info("adding authentication codes to the store's values");
  const rewrite = (entry: Entry) => {
    if (isSealed(frames, entry)) return undefined;
    return frames.close({ key: entry.key, value: entry.value });
  };
  const { epoch } = keyring.current().stored;
  for await (const _ of rewriteAll({ backend, keyring, frames, at: authenticatingKey, epoch, rewrite }));
  const rewrapped = await Promise.all(keyring.held().map((held) => keyring.change(held, {})));
  await backend.commit([...rewrapped, { key: authenticatingKey, value: undefined }]);
  await keyring.refresh();
}

/** Reports whether the value decrypts: no other bytes do. */
function isSealed(frames: ValueEnvelope, entry: Entry): boolean {
  if (frames.epochOf(entry.value) === undefined) return false;
  try {
    frames.open(entry);
    return true;
  } catch (error) {
    if (error instanceof StoreDamaged) return false;
    throw error;
  }
}

export interface ResealProgress {
  readonly done: number;
  readonly total: number;
}

interface Reseal extends RewriteParts {
  /** Stops the initial count; after that, the reader stops the iteration. */
  readonly signal?: AbortSignal;
}

/**
 * Encrypts every secret again with the data key of a new epoch, under the first seal key, and removes the older data
 * keys: the store then no longer depends on other seal keys. Stops when its reader stops, and resumes there the next
 * time.
 */
export async function* reseal({ backend, keyring, frames, signal }: Reseal): AsyncGenerator<ResealProgress> {
  await keyring.refresh();
  const state = await backend.get(resealKey);
  const epoch = state === undefined ? undefined : fromBinary(ResealStateSchema, state.value).epoch;
  const target =
    keyring.held().find(({ stored }) => stored.epoch === epoch) ?? (await beginReseal({ backend, keyring }));
  const older = () => keyring.held().filter(({ stored }) => stored.epoch !== 0 && stored.epoch < target.stored.epoch);
  // From here on, commits with an older key are refused and use the new one, so no new values appear under older keys.
  const open = older().filter(({ stored }) => !stored.closed);
  if (open.length > 0) {
    await backend.commit(await Promise.all(open.map((held) => keyring.change(held, { closed: true }))));
    await keyring.refresh();
  }
  const counts = await countSealed({ backend, frames, ...(signal && { signal }) });
  const total = [...counts.values()].reduce((sum, count) => sum + count, 0);
  let done = [...counts].reduce((sum, [of, count]) => (of >= target.stored.epoch ? sum + count : sum), 0);
  yield { done, total };
  const rewrite = (entry: Entry) => {
    const of = frames.epochOf(entry.value);
    if (of === undefined || of >= target.stored.epoch) return undefined;
    return frames.close({ key: entry.key, value: frames.open(entry), secret: true });
  };
  const at = resealKey;
  for await (const resealed of rewriteAll({ backend, keyring, frames, at, epoch: target.stored.epoch, rewrite })) {
    done += resealed;
    if (resealed > 0) yield { done, total: Math.max(done, total) };
  }
  const authentication = keyring.held().find(({ stored }) => stored.epoch === 0);
  await backend.commit([
    ...older().map((held) => keyring.removal(held)),
    ...(authentication === undefined ? [] : [await keyring.change(authentication, { rewrap: true })]),
    { key: resealKey, value: undefined },
  ]);
  await keyring.refresh();
  yield { done, total: done };
}

async function beginReseal({ backend, keyring }: Pick<RewriteParts, "backend" | "keyring">) {
  const begun = await keyring.begin();
  const state = create(ResealStateSchema, { epoch: begun.stored.epoch, after: everything.from });
  await backend.commit([{ key: resealKey, value: toBinary(ResealStateSchema, state) }]);
  return begun;
}

interface Count extends Pick<RewriteParts, "backend" | "frames"> {
  readonly signal?: AbortSignal;
}

/** Counts the values that each epoch has encrypted. Reads everything; rejects when aborted. */
export async function countSealed({ backend, frames, signal }: Count): Promise<ReadonlyMap<number, number>> {
  const counts = new Map<number, number>();
  let { from } = everything;
  for (;;) {
    signal?.throwIfAborted();
    const page = await backend.list({ from, to: everything.to, limit: 4 * pageEntries });
    for (const { key, value } of page) {
      const epoch = isKeyringKey(key) ? undefined : frames.epochOf(value);
      if (epoch !== undefined) counts.set(epoch, (counts.get(epoch) ?? 0) + 1);
    }
    const last = page.at(-1)?.key;
    if (last === undefined) return counts;
    from = keyAfter(last);
    await setImmediate();
  }
}
