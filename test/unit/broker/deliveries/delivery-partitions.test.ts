import { expect, it, onTestFinished } from "vitest";
import { createDeliveryPartitions } from "../../../../src/broker/deliveries/delivery-partitions.ts";
import type { PartitionListener } from "../../../../src/broker/partitions/ownership.ts";
import { openPartitions } from "../../../../src/broker/partitions/partitions.ts";
import { openTestStore, testWorld } from "../world.ts";

it("ends every hand-over that waits for an attempt, if its partition is lost twice meanwhile", async () => {
  const world = testWorld();
  const store = await openTestStore(world);
  const partitions = await openPartitions({ store, isShared: false, world });
  onTestFinished(() => partitions.close());
  const listeners: PartitionListener[] = [];
  const listen = (listener: PartitionListener) => void listeners.push(listener);
  const deliveries = createDeliveryPartitions({
    store,
    partitions: { ...partitions, listen },
    onChange: () => {},
    world,
  });
  await partitions.start();
  const [listener] = listeners;
  const partition = partitions.held(5);
  if (listener === undefined || partition === undefined) throw new Error("the partition is held and followed");

  deliveries.begun({ partition: 5 });
  listener.onTaken(partition);
  const first = listener.onLost(partition);
  listener.onTaken(partition);
  const second = listener.onLost(partition);
  const other = { ...partition, number: 6 };
  expect(listener.onLost(other)).toBeUndefined();
  let isOver = false;
  void first?.then(() => {
    isOver = true;
  });
  await new Promise(setImmediate);
  expect(isOver).toBe(false);
  deliveries.ended({ partition: 5 });
  await Promise.all([first, second]);
  expect(isOver).toBe(true);
});
