import { expect, it } from "vitest";
import { ageSlot } from "../../../src/broker/channels/rules/aging.ts";
import {
  beginWatch,
  maySendWatch,
  recordMade,
  recordNotMade,
  replaceRefusedId,
} from "../../../src/broker/channels/rules/making.ts";
import type { ChannelChanges } from "../../../src/broker/channels/rules/move.ts";
import { requestedChannel } from "../../../src/broker/channels/rules/request.ts";
import {
  currentOf,
  idOf,
  isCurrent,
  isOver,
  isWanted,
  type Slot,
  stateOf,
} from "../../../src/broker/channels/rules/slot.ts";
import { recordNotStopped, recordStopped, requestStop } from "../../../src/broker/channels/rules/stopping.ts";
import { tasksOf } from "../../../src/broker/channels/rules/tasks.ts";
import { answerMs, claimMs } from "../../../src/broker/channels/rules/times.ts";
import type { StoredChannel } from "../../../src/gen/latchkey/stored/v1/stored_pb.ts";
import { Channel_State as State } from "../../../src/gen/latchkey/v1/channel_pb.ts";
import { seeded } from "../../support/runner/seeded.ts";
import { creation, dayMs, lifeMs, place } from "./calendar-slot.ts";

interface AtProvider {
  readonly token: string;
  readonly resourceId: string;
  readonly untilMs: number;
}

/** Longer: `CHANNEL_SCHEDULES=1000000`. */
const schedules = Number(process.env["CHANNEL_SCHEDULES"] ?? 8_000);
const stepsOfSchedule = 60;
const knownResource = "resource";

/**
 * Two replicas, a provider with every kind of failure, crashes between any two steps, and clocks that jump. A replica
 * reads, decides and commits under the revision it read, as `broker/channel-slots` does.
 */
function runSchedule(seed: number): { steps: number; made: number } {
  const random = seeded(seed);
  const chance = (share: number) => random() < share;
  let nowMs = 1_800_000_000_000;
  /** The provider's clock, which does not jump. */
  let providerMs = nowMs;
  let ids = 0;
  let jumped = 0;
  let isQuiet = false;
  const newId = () => `c${++ids}`;
  const stored = new Map<string, { readonly value: StoredChannel; readonly revision: number }>();
  const provider = new Map<string, AtProvider>();
  const usedIds = new Set<string>();
  let revision = 0;
  let countMade = 0;
  let isStopped = false;

  const read = () => new Map(stored);
  const slotOf = (seen: ReturnType<typeof read>): Slot => [...seen.values()].map(({ value }) => value);
  const now = () => ({ nowMs, random: random() });

  function commit(seen: ReturnType<typeof read>, { put, removed }: ChannelChanges): boolean {
    for (const one of [...put, ...removed]) {
      if (seen.get(idOf(one))?.revision !== stored.get(idOf(one))?.revision) return false;
    }
    // A first channel requires that none exists and none was requested.
    revision += 1;
    for (const one of put) stored.set(idOf(one), { value: one, revision });
    for (const one of removed) stored.delete(idOf(one));
    check();
    return true;
  }

  function* move(decide: (slot: Slot) => ChannelChanges | undefined): Generator<void, ChannelChanges | undefined> {
    for (;;) {
      const seen = read();
      const moved = decide(slotOf(seen));
      if (moved === undefined || moved.put.length + moved.removed.length === 0) return undefined;
      yield;
      if (commit(seen, moved)) return moved;
    }
  }

  function* watch(target: string): Generator<void> {
    const isRenewal = currentOf(slotOf(read())) !== undefined;
    let wanted = target;
    let id = isRenewal ? newId() : target;
    for (let tries = 0; tries < 3; tries += 1) {
      const token = `t${seed}-${id}-${tries}`;
      const intent: ChannelChanges | undefined = yield* move((slot) =>
        beginWatch(slot, { target: wanted, id, tokenHash: token, creation, untilMs: nowMs + 30 * dayMs, nowMs }),
      );
      const asked = intent?.put.find((one) => idOf(one) === id && one.tokenHash === token);
      if (asked === undefined) return;
      yield;
      if (!maySendWatch(asked, nowMs)) return;
      const fate = isQuiet ? 1 : random();
      const again = newId();
      if (fate < 0.08 || usedIds.has(id)) {
        yield* move((slot) => replaceRefusedId(slot, id, again, now()));
        if (!isRenewal) wanted = again;
        id = again;
        continue;
      }
      if (fate < 0.2) {
        yield* move((slot) => recordNotMade(slot, id, { kind: "put_off", code: "status_429", newId: again }, now()));
        return;
      }
      if (fate < 0.25) {
        yield* move((slot) => recordNotMade(slot, id, { kind: "unheard", code: "status_500", newId: again }, now()));
        return;
      }
      usedIds.add(id);
      countMade += 1;
      provider.set(id, { token, resourceId: knownResource, untilMs: providerMs + lifeMs });
      const expires = nowMs + lifeMs;
      check();
      yield;
      if (fate < 0.4) {
        yield* move((slot) => recordNotMade(slot, id, { kind: "unheard", code: "closed", newId: again }, now()));
        return;
      }
      yield* move((slot) =>
        recordMade(slot, asked, { resourceId: knownResource, resourceUri: "u", expiresAtMs: expires }, now()),
      );
      return;
    }
  }

  function* stop(id: string, resourceId: string): Generator<void> {
    yield;
    const fate = isQuiet ? 1 : random();
    if (fate < 0.15) {
      yield* move((slot) => recordNotStopped(slot, id, { code: "status_500", isHopeless: false }, now()));
      return;
    }
    expect(resourceId).toBe(knownResource);
    provider.delete(id);
    yield;
    if (fate < 0.3) yield* move((slot) => recordNotStopped(slot, id, { code: "closed", isHopeless: false }, now()));
    else yield* move((slot) => recordStopped(slot, id, nowMs));
  }

  function* tend(): Generator<void> {
    yield* move((slot) => ageSlot(slot, now(), newId));
    for (const task of tasksOf(slotOf(read()), nowMs)) {
      yield;
      if (task.ask === "watch") yield* watch(task.id);
      else yield* stop(task.id, task.resourceId);
    }
  }

  function* stopByCaller(): Generator<void> {
    const current = currentOf(slotOf(read()));
    if (current === undefined) return;
    yield* move((slot) => requestStop(slot, idOf(current), nowMs));
  }

  function check(): void {
    const slot = slotOf(read());
    // Plain throws: this is looked at some ten million times.
    if (slot.filter(isCurrent).length > 1) throw new Error(`schedule ${seed}: two current channels`);
    for (const [id, { token, untilMs }] of provider) {
      if (untilMs <= providerMs) continue;
      const known = stored.get(id)?.value;
      // A replica with a jumped clock may think that it has expired, but still knows its token.
      if (known === undefined) throw new Error(`schedule ${seed}: ${id} is at the provider and not known`);
      if (known.tokenHash !== token) throw new Error(`schedule ${seed}: ${id} would be refused its notifications`);
      if (jumped === 0 && isOver(known)) throw new Error(`schedule ${seed}: ${id} is given up and lives`);
    }
  }

  const first = requestedChannel({ ...place, id: newId(), nowMs, askedLifeMs: 0, isDefault: true, kept: true });
  stored.set(idOf(first), { value: first, revision: ++revision });
  const keepers: (Generator<void> | undefined)[] = [undefined, undefined];
  let steps = 0;
  const mayStop = chance(0.1);
  for (; steps < stepsOfSchedule; steps += 1) {
    const which = chance(0.5) ? 0 : 1;
    const fate = random();
    if (fate < 0.04) keepers[which] = undefined;
    else if (fate < 0.1) pass(random() * 2 * dayMs);
    else if (fate < 0.13) pass(answerMs + 1);
    else if (fate < 0.135) {
      jumped += 1;
      nowMs += (random() - 0.5) * dayMs;
    } else if (fate < 0.14 && mayStop && !isStopped) {
      isStopped = true;
      keepers[which] = stopByCaller();
    } else {
      keepers[which] ??= tend();
      if (keepers[which]?.next().done === true) keepers[which] = undefined;
    }
    check();
  }

  // From now on nothing fails, for long enough.
  isQuiet = true;
  keepers.fill(undefined);
  for (let round = 0; round < 40; round += 1) {
    pass(3_700_000);
    for (const _ of tend());
  }
  // A replaced channel is stopped in a later round if its replacement did not stop it. That round may itself renew, and
  // its replaced channel is still claimed; the round after it stops that one.
  for (let round = 0; round < 2 && slotOf(read()).some((one) => stateOf(one) === State.STOPPING); round += 1) {
    pass(claimMs);
    for (const _ of tend());
  }
  const current = slotOf(read()).filter(isCurrent);
  const alive = [...provider].filter(([, { untilMs }]) => untilMs > providerMs).map(([id]) => id);
  const wants = slotOf(read()).some(isWanted);
  if (!isStopped || wants) expect(current.length, `schedule ${seed}: one in the end`).toBe(1);
  if (jumped === 0) expect(alive.sort(), `schedule ${seed}: and no other at the provider`).toEqual(current.map(idOf));
  return { steps, made: countMade };

  function pass(ms: number): void {
    nowMs += ms;
    providerMs += ms;
  }
}

it(`never has two channels, loses one or refuses one's notifications, in ${schedules} schedules of faults`, {
  timeout: 600_000,
}, () => {
  let steps = 0;
  let channels = 0;
  for (let seed = 1; seed <= schedules; seed += 1) {
    const ran = runSchedule(seed);
    steps += ran.steps;
    channels += ran.made;
  }
  expect(steps).toBe(schedules * stepsOfSchedule);
  expect(channels).toBeGreaterThan(schedules);
});
