import { create } from "@bufbuild/protobuf";
import { beginWatch, recordMade, type WatchAnswer } from "../../../src/broker/channels/rules/making.ts";
import { applyChanges } from "../../../src/broker/channels/rules/move.ts";
import { requestedChannel } from "../../../src/broker/channels/rules/request.ts";
import type { Slot } from "../../../src/broker/channels/rules/slot.ts";
import type { StoredChannel } from "../../../src/gen/latchkey/stored/v1/stored_pb.ts";
import { ConnectionRefSchema } from "../../../src/gen/latchkey/v1/connection_pb.ts";

/** The channel slot of a calendar's events, at a provider that gives channels a week: requested, created, renewed. */
export const dayMs = 86_400_000;
export const lifeMs = 7 * dayMs;
export const t0 = 1_800_000_000_000;

const ref = create(ConnectionRefSchema, { environment: "dev", integration: "calendar", id: "ada" });
export const place = { ref, kind: "events", resource: "primary" };

export const wish = (): StoredChannel =>
  requestedChannel({ ...place, id: "a", nowMs: t0, askedLifeMs: 0, isDefault: true, kept: true });

export const ask = (slot: Slot, target: string, id: string, nowMs: number): Slot =>
  applyChanges(
    slot,
    beginWatch(slot, { target, id, tokenHash: `h-${id}`, creation, untilMs: nowMs + lifeMs, nowMs }) ?? never(),
  );

/** Stopped by the ID of its resource, as calendars are. */
export const creation = { key: "", stopsById: false, hasOwnKey: false };

export const answer = (nowMs: number): WatchAnswer => ({
  resourceId: "r",
  resourceUri: "u",
  expiresAtMs: nowMs + lifeMs,
});

export const active = (random = 0.5): Slot => {
  const asked = ask([wish()], "a", "a", t0);
  return applyChanges(asked, recordMade(asked, asked[0] ?? never(), answer(t0), { nowMs: t0, random }));
};

export const renewing = (nowMs: number): Slot => ask(active(), "a", "b", nowMs);

export function never(): never {
  throw new Error("this is there");
}
