import { timestampMs } from "@bufbuild/protobuf/wkt";
import { Forward_State } from "../../gen/latchkey/v1/webhook_pb.ts";
import { type Change, type Condition, StaleWrite, type Store } from "../../store/contract.ts";
import type { Lease } from "../../store/leases.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import { receivedAt } from "./notifications.ts";
import { createSeenMarks, type SeenMarks } from "./seen-marks.ts";
import { seenForMs, seenKey, type WebhookCollections } from "./webhook-collections.ts";

interface DeliverySweepRequest {
  readonly maxAgeMs: number;
  readonly nowMs: number;
  readonly lease: Pick<Lease, "fence">;
  /** Stops the sweep between two commits. */
  readonly signal: AbortSignal;
}

/** Deletes old webhook data that is no longer pending: forwards first, then notifications without any forward left. */
export type DeliverySweep = (request: DeliverySweepRequest) => Promise<number>;

interface DeliverySweepOptions {
  readonly store: Store;
  readonly collections: SetupCollections & WebhookCollections;
}

/** A page of records to check, in one environment. */
interface SweepPageRequest {
  readonly environment: string;
  readonly after: string | undefined;
  /** Records from before this time are old. */
  readonly cutoffMs: number;
  /**
   * Id of the current environment; undefined if there is none. A record with another id is left over from a deleted
   * environment, whose name may be in use again.
   */
  readonly environmentId: string | undefined;
  readonly nowMs: number;
}

/** The changes that delete the deletable records of a page, and how many they are. */
interface SweepPage {
  readonly changes: readonly Change[];
  readonly deleted: number;
  /** Position of the next page; undefined if no old records follow. */
  readonly next: string | undefined;
}

const pageSize = 200;
/** Smaller page: notifications are read with their bodies, of at most 5 MiB each. */
const notificationsPageSize = 20;
/** Limits the deletions of one round, because other work needs the store too. */
const mostPerRound = 20_000;

export function createDeliverySweep({ store, collections }: DeliverySweepOptions): DeliverySweep {
  const marks = createSeenMarks(store);
  const pages = [
    (request: SweepPageRequest) => forwardsPage(collections, request),
    (request: SweepPageRequest) => notificationsPage(collections, marks, request),
  ];

  /** Returns false if a record was replayed or a message came again, or another process sweeps now. */
  async function commit(changes: readonly Change[], fence: Condition): Promise<boolean> {
    try {
      await store.commit(changes, [fence]);
      return true;
    } catch (error) {
      if (!(error instanceof StaleWrite)) throw error;
      return false;
    }
  }

  return async ({ maxAgeMs, nowMs, lease, signal }) => {
    const cutoffMs = nowMs - maxAgeMs;
    let total = 0;
    for (const [environment, environmentId] of await environmentsWithAny(collections)) {
      for (const readPage of pages) {
        let after: string | undefined;
        do {
          if (signal.aborted || total >= mostPerRound) return total;
          const { changes, deleted, next } = await readPage({ environment, after, cutoffMs, environmentId, nowMs });
          after = next;
          if (changes.length === 0) continue;
          // The next round continues.
          if (!(await commit(changes, lease.fence))) return total;
          total += deleted;
        } while (after !== undefined);
      }
    }
    for (let changes = await marks.orphans(nowMs); changes.length > 0; changes = await marks.orphans(nowMs)) {
      if (signal.aborted || !(await commit(changes, lease.fence))) return total;
    }
    return total;
  };
}

async function forwardsPage(
  { forwards }: Pick<WebhookCollections, "forwards">,
  { environment, after, cutoffMs, environmentId }: SweepPageRequest,
): Promise<SweepPage> {
  const page = await forwards.pageBy("made", { under: [environment], after, limit: pageSize });
  const isLeftOver = ({ value }: (typeof page)[number]) => isOfDeleted(value.environmentId, environmentId);
  const old = page.filter(
    (one) => isLeftOver(one) || (one.value.createdAt === undefined ? 0 : timestampMs(one.value.createdAt)) < cutoffMs,
  );
  // A pending forward is kept for as long as it is pending.
  const deletable = old.filter((one) => one.value.state !== Forward_State.PENDING || isLeftOver(one));
  const changes = deletable.flatMap((before) => forwards.change({ before, after: undefined }));
  return { changes, deleted: deletable.length, next: old.length < pageSize ? undefined : page.at(-1)?.position };
}

async function notificationsPage(
  { forwards, notifications }: Pick<WebhookCollections, "forwards" | "notifications">,
  marks: SeenMarks,
  { environment, after, cutoffMs, environmentId, nowMs }: SweepPageRequest,
): Promise<SweepPage> {
  const page = await notifications.page({ under: [environment], after, limit: notificationsPageSize });
  const old = page.filter(
    ({ value: { notification, environmentId: ofId } }) =>
      notification === undefined || isOfDeleted(ofId, environmentId) || receivedAt(notification) < cutoffMs,
  );
  const changes: Change[] = [];
  let deleted = 0;
  for (const before of old) {
    const { id = "", integration = "", messageId = "" } = before.value.notification ?? {};
    const [left] = await forwards.pageBy("made", { under: [environment, id], limit: 1 });
    if (left !== undefined) continue;
    deleted += 1;
    changes.push(...notifications.change({ before, after: undefined }));
    if (messageId === "") continue;
    // A deleted environment receives no repeated messages.
    const isLeftOver = isOfDeleted(before.value.environmentId, environmentId);
    const seenUntilMs = isLeftOver ? Number.POSITIVE_INFINITY : nowMs - seenForMs;
    changes.push(...(await marks.deletionOf(seenKey(environment, integration, messageId), id, seenUntilMs)));
  }
  return { changes, deleted, next: old.length < notificationsPageSize ? undefined : page.at(-1)?.position };
}

/** Returns all environments, existing or deleted, that still have records, with the id of the current one. */
async function environmentsWithAny(
  collections: SetupCollections & WebhookCollections,
): Promise<ReadonlyMap<string, string | undefined>> {
  const { environments, forwards, notifications } = collections;
  const idsNow = new Map<string, string | undefined>();
  const firstAfter = {
    forwards: async (after: string | undefined) =>
      (await forwards.page({ under: [], after, limit: 1 }))[0]?.value.environment,
    notifications: async (after: string | undefined) =>
      (await notifications.page({ under: [], after, limit: 1 }))[0]?.value.notification?.environment,
  };
  for (const next of Object.values(firstAfter)) {
    // Continue after all keys of this environment: NUL separates key parts.
    for (let found = await next(undefined); found !== undefined; found = await next(`${found}\x01`)) {
      idsNow.set(found, (await environments.get(found))?.value.id);
    }
  }
  return idsNow;
}

/** Compares ids instead of creation times, because the clock may have been set back. */
const isOfDeleted = (ofId: string, environmentId: string | undefined): boolean =>
  environmentId === undefined || (ofId !== "" && ofId !== environmentId);
