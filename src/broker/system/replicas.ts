import { randomUUID } from "node:crypto";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { version } from "../../base/version.ts";
import type { World } from "../../base/world.ts";
import { type ReplicaSign, ReplicaSignSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { type Replica, ReplicaSchema } from "../../gen/latchkey/v1/system_pb.ts";
import type { Backend, Change, Store } from "../../store/contract.ts";
import { heldLeases } from "../../store/kept-leases.ts";
import { keyOf, partsOf, under } from "../../store/keys.ts";
import type { Partitions } from "../partitions/partitions.ts";

/**
 * The running replicas. Where others can open the store, each gives a sign of life every 15 seconds: one small commit.
 * Signs expire by themselves; a replica deletes old ones of others when it starts, and its own when it stops.
 */
export interface Replicas {
  list(): Promise<readonly Replica[]>;
  /** Gives the first sign of life. */
  start(): void;
  close(): Promise<void>;
}

interface ReplicasOptions {
  readonly store: Store;
  readonly backend: Pick<Backend, "isShared">;
  readonly partitions: Pick<Partitions, "all">;
  /** Name of the host or pod. */
  readonly host: string;
  readonly world: World;
}

/** Duties of every replica that has partitions. */
const divided = ["channels", "descriptions", "revocations", "runs"];
const signEveryMs = 15_000;
/** A replica whose last sign is older is not listed. */
const aliveMs = 4 * signEveryMs;
/** Signs of replicas that stopped without notice are deleted when they are this old. */
const forgottenMs = 10 * 60_000;
/** Limits the signs that are read: more replicas than anybody runs. */
const mostSigns = 1_000;

export function createReplicas({ store, backend, partitions, host, world }: ReplicasOptions): Replicas {
  const id = randomUUID();
  const own = keyOf("replica", id);
  const startedMs = world.now();
  let timer: NodeJS.Timeout | undefined;
  let behind = 0;
  let isClosed = false;
  let giving: Promise<void> | undefined;

  const signs = () => store.list({ ...under("replica"), limit: mostSigns });
  const dutiesNow = () => [...heldLeases(store), ...(partitions.all().length > 0 ? divided : [])].toSorted();
  const signAt = (seenMs: number): ReplicaSign =>
    create(ReplicaSignSchema, {
      host,
      version,
      startedAt: timestampFromMs(startedMs),
      seenMs,
      duties: dutiesNow(),
      behind: BigInt(behind),
      partitions: partitions.all().length,
    });

  async function give(clearing: boolean): Promise<void> {
    const nowMs = await store.clock();
    const gone = clearing
      ? (await signs())
          .filter(({ value }) => nowMs - fromBinary(ReplicaSignSchema, value).seenMs > forgottenMs)
          .map(({ key }): Change => ({ key, value: undefined }))
      : [];
    const seen = store.status().revision;
    const revision = await store.commit([{ key: own, value: toBinary(ReplicaSignSchema, signAt(nowMs)) }, ...gone]);
    behind = Math.max(0, revision - 1 - seen);
  }

  function giveSign(clearing = false): void {
    // The store reports its own troubles. The next sign is tried in any case.
    giving ??= give(clearing)
      .catch(() => {})
      .finally(() => {
        giving = undefined;
      });
  }

  const shown = (at: string, sign: ReplicaSign, seenAtMs: number): Replica =>
    create(ReplicaSchema, {
      id: at,
      host: sign.host,
      version: sign.version,
      ...(sign.startedAt && { startedAt: sign.startedAt }),
      seenAt: timestampFromMs(Math.round(seenAtMs)),
      duties: sign.duties,
      behind: sign.behind,
      partitions: sign.partitions,
      answering: at === id,
    });

  return {
    start() {
      if (!backend.isShared || timer !== undefined || isClosed) return;
      timer = setInterval(() => giveSign(), signEveryMs);
      timer.unref();
      giveSign(true);
    },
    async list() {
      const nowMs = world.now();
      const itself = shown(id, signAt(0), nowMs);
      if (!backend.isShared) return [itself];
      const [found, clockMs] = [await signs(), await store.clock()];
      const others = found.flatMap(({ key, value }) => {
        const at = partsOf(key)[1] ?? "";
        const sign = fromBinary(ReplicaSignSchema, value);
        const ageMs = Math.max(0, clockMs - sign.seenMs);
        return at === id || ageMs > aliveMs ? [] : [shown(at, sign, nowMs - ageMs)];
      });
      const startOf = ({ startedAt }: Replica) => (startedAt === undefined ? 0 : timestampMs(startedAt));
      return [itself, ...others].toSorted((a, b) => startOf(a) - startOf(b) || (a.id < b.id ? -1 : 1));
    },
    async close() {
      isClosed = true;
      clearInterval(timer);
      if (timer === undefined) return;
      await giving;
      await store.commit([{ key: own, value: undefined }]).catch(() => {
        /* The sign expires on its own. */
      });
    },
  };
}
