import type { StoredForward_Address } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { partitionOf } from "../../partitions/partition-of.ts";
import { readWaiting } from "./waiting-bytes.ts";

/** A waiting forward, with only the fields that are needed to choose the next one. */
export interface QueuedForward {
  /** Environment and id in one string. */
  readonly name: string;
  readonly environment: string;
  readonly id: string;
  readonly dueMs: number;
  /** Time when the due time was set. The forward waits at most from `sinceMs` to `dueMs`, however the clock changes. */
  readonly sinceMs: number;
  readonly createdMs: number;
  readonly address: StoredForward_Address;
  readonly overrideUrl: string;
  /** First attempts of forwards with the same key are made in order; empty: in any order. */
  readonly orderKey: string;
  readonly number: string;
  /** All forwards with the same order key are in one partition, so one replica keeps their order. */
  readonly partition: number;
  /** True before the first attempt. */
  readonly first: boolean;
}

/** Identifies the destination of a forward. */
export type DestinationRef = Pick<QueuedForward, "environment" | "address" | "overrideUrl">;

/** Returns the same text as last time for the same destination: a webhook asks five times. */
export function destinationKey({ environment, address, overrideUrl }: DestinationRef): string {
  const { of } = lastKey;
  if (of.environment !== environment || of.address !== address || of.overrideUrl !== overrideUrl) {
    const key = `${environment}\0${address}\0${overrideUrl}`;
    lastKey = { of: { environment, address, overrideUrl }, key };
  }
  return lastKey.key;
}

let lastKey: { readonly of: DestinationRef; readonly key: string } = {
  of: { environment: "", address: 0, overrideUrl: "" },
  key: "\x000\0",
};

/** Reads the outbox entry of a forward. */
export function readQueued(name: string, value: Uint8Array): QueuedForward {
  const end = name.indexOf("\0");
  const [environment, id] = [name.slice(0, end), name.slice(end + 1)];
  const { address, overrideUrl, lane, number, dueMs, sinceMs, createdMs, first } = readWaiting(value);
  const partition = partitionOf(`${environment}\0${lane === "" ? id : lane}`);
  // Fields are listed explicitly: rest and spread of this many fields take longer than decoding them.
  return {
    name,
    environment,
    id,
    address,
    overrideUrl,
    orderKey: lane,
    number,
    partition,
    dueMs,
    sinceMs,
    createdMs,
    first,
  };
}
