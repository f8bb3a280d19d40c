import { fromBinary } from "@bufbuild/protobuf";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { type NotificationSeen, NotificationSeenSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { Forward_State } from "../../gen/latchkey/v1/webhook_pb.ts";
import { type Change, StaleWrite, type Store } from "../../store/contract.ts";
import type { Lease } from "../../store/leases.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import { receivedAt } from "./notifications.ts";
import {
  orphanedSeenKey,
  orphanedSeenUntil,
  seenForMs,
  seenKey,
  seenKeyOf,
  type WebhookCollections,
} from "./webhook-collections.ts";

interface DeliverySweepRequest {
  readonly maxAgeMs: number;
  readonly nowMs: number;
  readonly lease: Pick<Lease, "fence">;
  /** Stops the sweep between two commits. */
  readonly signal: AbortSignal;
}

/** Deletes old webhook data that is no longer pending: forwards first, then notifications without any forward left. */
export type DeliverySweep = (request: DeliverySweepRequest) => Promise<number>;

const pageSize = 200;
/** Smaller page: notifications are read with their bodies, of at most 5 MiB each. */
const notificationsPage = 20;
/** Limits the deletions of one round, because other work needs the store too. */
const mostPerRound = 20_000;

export function createDeliverySweep({
  store,
  collections,
}: {
  store: Store;
  collections: SetupCollections & WebhookCollections;
}): DeliverySweep {
  const { environments, forwards, notifications } = collections;

  /** A page of old records, and the changes that delete the deletable ones. */
  interface Stretch {
    readonly changes: readonly Change[];
    readonly gone: number;
    readonly next: string | undefined;
  }

  interface Sought {
    readonly environment: string;
    readonly after: string | undefined;
    readonly cutoff: number;
    /**
     * Id of the current environment; undefined if there is none. A record with another id is left over from a deleted
     * environment, whose name may be in use again.
     */
    readonly environmentId: string | undefined;
    readonly nowMs: number;
  }

  async function forwardsOf({ environment, after, cutoff, environmentId }: Sought): Promise<Stretch> {
    const page = await forwards.pageBy("made", { under: [environment], after, limit: pageSize });
    const isOver = ({ value }: (typeof page)[number]) => isLeft(value.environmentId, environmentId);
    const old = page.filter(
      (one) => isOver(one) || (one.value.createdAt === undefined ? 0 : timestampMs(one.value.createdAt)) < cutoff,
    );
    // A pending forward is kept for as long as it is pending.
    const over = old.filter((one) => one.value.state !== Forward_State.PENDING || isOver(one));
    const changes = over.flatMap((before) => forwards.change({ before, after: undefined }));
    return { changes, gone: over.length, next: old.length < pageSize ? undefined : page.at(-1)?.position };
  }

  async function notificationsOf({ environment, after, cutoff, environmentId, nowMs }: Sought): Promise<Stretch> {
    const page = await notifications.page({ under: [environment], after, limit: notificationsPage });
    const old = page.filter(
      ({ value: { notification, environmentId: ofId } }) =>
        notification === undefined || isLeft(ofId, environmentId) || receivedAt(notification) < cutoff,
    );
    const changes: Change[] = [];
    let gone = 0;
    for (const before of old) {
      const { id = "", integration = "", messageId = "" } = before.value.notification ?? {};
      const [left] = await forwards.pageBy("made", { under: [environment, id], limit: 1 });
      if (left !== undefined) continue;
      gone += 1;
      changes.push(...notifications.change({ before, after: undefined }));
      // A deleted environment receives no repeated messages.
      const isOver = isLeft(before.value.environmentId, environmentId);
      const seenUntil = isOver ? Number.POSITIVE_INFINITY : nowMs - seenForMs;
      if (messageId !== "")
        changes.push(...(await unseen(seenKey(environment, integration, messageId), id, seenUntil)));
    }
    return { changes, gone, next: old.length < notificationsPage ? undefined : page.at(-1)?.position };
  }

  /**
   * Deletes the mark that a message was seen, unless the message came again since: that repeat's day is not over. A
   * message that came after `untilMs` may still be repeated, even if its notification is deleted now. Its mark is then
   * scheduled for deletion.
   */
  async function unseen(key: string, notificationId: string, untilMs: number): Promise<Change[]> {
    const seen = await store.get(key);
    if (seen === undefined) return [];
    const mark = fromBinary(NotificationSeenSchema, seen.value);
    if (mark.notificationId !== notificationId) return [];
    const cameMs = cameAt(mark);
    if (cameMs <= untilMs) return [{ key, value: undefined, expect: seen.revision }];
    return [{ key: orphanedSeenKey(key, cameMs), value: new Uint8Array() }];
  }

  /** Returns the deletions of marks that outlived their notifications and whose day is over. */
  async function orphansOf({ nowMs }: Pick<DeliverySweepRequest, "nowMs">): Promise<Change[]> {
    const untilMs = nowMs - seenForMs;
    const orphans = await store.list({ ...orphanedSeenUntil(untilMs), limit: pageSize });
    const seen = await store.getMany(orphans.map(({ key }) => seenKeyOf(key)));
    return orphans.flatMap(({ key }, i): Change[] => {
      const mark = seen[i];
      const gone: Change = { key, value: undefined };
      // A message that has come again since belongs to another notification.
      const isOver = mark !== undefined && cameAt(fromBinary(NotificationSeenSchema, mark.value)) <= untilMs;
      return isOver ? [gone, { key: mark.key, value: undefined, expect: mark.revision }] : [gone];
    });
  }

  /** Returns all environments, existing or deleted, that still have records. */
  async function environmentsWithAny(): Promise<ReadonlyMap<string, string | undefined>> {
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

  return async ({ maxAgeMs, nowMs, lease, signal }) => {
    const cutoff = nowMs - maxAgeMs;
    let deleted = 0;
    for (const [environment, environmentId] of await environmentsWithAny()) {
      for (const stretchOf of [forwardsOf, notificationsOf]) {
        let after: string | undefined;
        do {
          if (signal.aborted || deleted >= mostPerRound) return deleted;
          const { changes, gone, next } = await stretchOf({ environment, after, cutoff, environmentId, nowMs });
          after = next;
          if (changes.length === 0) continue;
          try {
            await store.commit(changes, [lease.fence]);
            deleted += gone;
          } catch (error) {
            // A record was replayed, or another process sweeps now: the next round continues.
            if (!(error instanceof StaleWrite)) throw error;
            return deleted;
          }
        } while (after !== undefined);
      }
    }
    for (let changes = await orphansOf({ nowMs }); changes.length > 0; changes = await orphansOf({ nowMs })) {
      if (signal.aborted) return deleted;
      try {
        await store.commit(changes, [lease.fence]);
      } catch (error) {
        // A message has come again, or another process sweeps now.
        if (!(error instanceof StaleWrite)) throw error;
        return deleted;
      }
    }
    return deleted;
  };
}

const cameAt = ({ receivedAt: at }: NotificationSeen): number => (at === undefined ? 0 : timestampMs(at));

/** Compares ids instead of creation times, because the clock may have been set back. */
const isLeft = (ofId: string, environmentId: string | undefined): boolean =>
  environmentId === undefined || (ofId !== "" && ofId !== environmentId);
