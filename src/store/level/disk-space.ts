import type { Log } from "../../base/log.ts";
import type { Metrics } from "../../base/metrics/metrics.ts";
import { StoreUnavailable } from "../contract.ts";
import type { Refusals } from "./refusals.ts";
import { lackOfRoom, roomIn } from "./space.ts";

/** Refuses writes before the disk is full, and accepts them once there is space again. */
export interface DiskSpace {
  /** Checks the disk now. Never rejects. */
  check(): Promise<void>;
  /** Called before a write of this size. Rejects when the disk is nearly full. */
  require(bytes: number): Promise<void>;
  close(): void;
}

interface DiskSpaceOptions {
  readonly folder: string;
  readonly refusals: Refusals;
  readonly log: Log;
  readonly metrics: Metrics;
}

export async function watchDiskSpace({ folder, refusals, log, metrics }: DiskSpaceOptions): Promise<DiskSpace> {
  let room = await roomIn(folder);
  let writtenSinceCheck = 0;
  let isClosed = false;

  async function check(): Promise<void> {
    try {
      room = await roomIn(folder);
    } catch (err) {
      if (!isClosed) log.warn("could not read the free space of the store's disk; will retry", { err });
      return;
    }
    if (isClosed) return;
    writtenSinceCheck = 0;
    metrics.storeFreeBytes.set(room.freeBytes);
    const wasLacking = refusals.of("diskFull") !== undefined;
    const reason = lackOfRoom(room, wasLacking);
    if (reason !== undefined && !wasLacking) log.error("store stopped before the disk is full", { reason });
    if (reason === undefined && wasLacking)
      log.info("the disk has free space again; the store accepts writes", { freeBytes: room.freeBytes });
    refusals.set("diskFull", reason === undefined ? undefined : new StoreUnavailable(reason));
  }

  return {
    check,
    async require(bytes) {
      // Between two periodic checks, a large import could fill the disk.
      writtenSinceCheck += 2 * bytes;
      if (room.freeBytes - writtenSinceCheck < room.reserveBytes) await check();
      const lack = refusals.of("diskFull");
      if (lack !== undefined) throw lack;
    },
    close() {
      isClosed = true;
    },
  };
}
