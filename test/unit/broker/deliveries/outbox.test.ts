import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect, it, onTestFinished } from "vitest";
import { openOutbox } from "../../../../src/broker/deliveries/outbox/outbox.ts";
import { createWebhookCollections } from "../../../../src/broker/deliveries/webhook-collections.ts";
import {
  type StoredForward,
  StoredForward_Address,
  StoredForwardSchema,
} from "../../../../src/gen/latchkey/stored/v1/stored_pb.ts";
import { Forward_State } from "../../../../src/gen/latchkey/v1/webhook_pb.ts";
import type { StoredRecordOf } from "../../../../src/store/records.ts";
import { below, seeded } from "../../../support/runner/seeded.ts";
import { openTestStore, testWorld } from "../world.ts";

const environment = "dev";

async function open() {
  const world = testWorld();
  const store = await openTestStore(world);
  const { forwards } = createWebhookCollections(store);
  const outbox = await openOutbox({ store, world });
  onTestFinished(() => outbox.close());
  const forward = (id: string, more: Omit<MessageInitShape<typeof StoredForwardSchema>, "$typeName"> = {}) =>
    create(StoredForwardSchema, {
      ...{ id, environment, sequence: id, state: Forward_State.PENDING, address: StoredForward_Address.PRIMARY },
      ...{ createdAt: timestampFromMs(world.now()), ...more },
    });
  const put = async (after: StoredForward) =>
    void (await store.commit(forwards.change({ before: await forwards.get(environment, after.id), after })));
  return { world, store, forwards, outbox, forward, put };
}

it("knows the oldest delivery after any additions and removals", async () => {
  const { world, forwards, outbox, forward, put } = await open();
  const random = seeded(11);
  const seen = new Set<number | undefined>();
  for (let step = 0; step < 400; step += 1) {
    // The clock is set back now and then.
    world.advance(below(random, 1_000) - 300);
    const id = `f${below(random, 6)}`;
    const before: StoredRecordOf<StoredForward> | undefined = await forwards.get(environment, id);
    const state = random() < 0.5 ? Forward_State.PENDING : Forward_State.DELIVERED;
    const { createdAt } = before?.value ?? {};
    await put(forward(id, { state, ...(createdAt !== undefined && random() < 0.5 && { createdAt }) }));
    const wanted = [...outbox.all()].reduce<number | undefined>(
      (least, { createdMs }) => (least === undefined ? createdMs : Math.min(least, createdMs)),
      undefined,
    );
    if (random() < 0.7) expect(outbox.oldestMs()).toBe(wanted);
    seen.add(wanted);
  }
  expect(seen.size).toBeGreaterThan(30);
  expect(seen).toContain(undefined);
});

it("caches due deliveries as committed, for each destination", async () => {
  const { store, forwards, outbox, forward, put } = await open();
  const overrideUrl = "https://dead.example/";
  const dead = { address: StoredForward_Address.OVERRIDE, overrideUrl };
  const many = Array.from({ length: 1_500 }, (_, i) => forward(`dead${i}`, dead));
  await store.commit(many.flatMap((after) => forwards.added(after)));
  expect(outbox.size).toBe(1_500);
  const isKnown = (id: string) => outbox.committed({ name: `${environment}\0${id}` }) !== undefined;
  expect(many.map(({ id }) => isKnown(id))).toEqual(many.map((_, i) => i < 1_000));
  expect(outbox.isSoon({ environment, ...dead })).toBe(false);
  const another = forward("one");
  expect(outbox.isSoon(another)).toBe(true);
  await put(another);
  expect(isKnown("one")).toBe(true);
  // The current state, not an earlier one.
  await put({ ...another, attemptCount: 1 });
  const found = outbox.committed({ name: `${environment}\0one` });
  expect(forwards.read(found?.change ?? { key: "", value: undefined }, 1)?.value?.attemptCount).toBe(1);
  await put({ ...another, state: Forward_State.DELIVERED });
  expect(isKnown("one")).toBe(false);
});
