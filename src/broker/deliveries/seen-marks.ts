import { fromBinary } from "@bufbuild/protobuf";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { type NotificationSeen, NotificationSeenSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Change, Store } from "../../store/contract.ts";
import { orphanedSeenKey, orphanedSeenUntil, seenForMs, seenKeyOf } from "./webhook-collections.ts";

/** Deletes the marks that a message was received. A mark outlives its notification while the message may repeat. */
export interface SeenMarks {
  /**
   * Returns the deletion of a mark together with its notification; none if the message came again since: that repeat's
   * day is not over. A message that came after `untilMs` may still be repeated: its mark is scheduled for deletion.
   */
  deletionOf(key: string, notificationId: string, untilMs: number): Promise<Change[]>;
  /** Returns the deletions of marks that outlived their notifications and whose day is over. */
  orphans(nowMs: number): Promise<Change[]>;
}

const pageSize = 200;

export const createSeenMarks = (store: Store): SeenMarks => ({
  async deletionOf(key, notificationId, untilMs) {
    const seen = await store.get(key);
    if (seen === undefined) return [];
    const mark = fromBinary(NotificationSeenSchema, seen.value);
    if (mark.notificationId !== notificationId) return [];
    const receivedMs = receivedMsOf(mark);
    if (receivedMs <= untilMs) return [{ key, value: undefined, expect: seen.revision }];
    return [{ key: orphanedSeenKey(key, receivedMs), value: new Uint8Array() }];
  },
  async orphans(nowMs) {
    const untilMs = nowMs - seenForMs;
    const orphans = await store.list({ ...orphanedSeenUntil(untilMs), limit: pageSize });
    const seen = await store.getMany(orphans.map(({ key }) => seenKeyOf(key)));
    return orphans.flatMap(({ key }, i): Change[] => {
      const mark = seen[i];
      const gone: Change = { key, value: undefined };
      // A message that has come again since belongs to another notification.
      const isOver = mark !== undefined && receivedMsOf(fromBinary(NotificationSeenSchema, mark.value)) <= untilMs;
      return isOver ? [gone, { key: mark.key, value: undefined, expect: mark.revision }] : [gone];
    });
  },
});

const receivedMsOf = ({ receivedAt: at }: NotificationSeen): number => (at === undefined ? 0 : timestampMs(at));
