import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { PartitionOwnerSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Change, Entry } from "../../store/contract.ts";
import { partsOf } from "../../store/keys.ts";
import { ownerKey, partitionSpace } from "./held-partition.ts";
import { partitionCount } from "./partition-of.ts";

/** The stored owner of a partition. */
export interface StoredOwner {
  /** ID of the member; empty: none. */
  readonly member: string;
  /** Revision of the record; 0 if there is none. */
  readonly revision: number;
}

export const nobody: StoredOwner = { member: "", revision: 0 };

export function readOwner({ value, revision }: Pick<Entry, "revision"> & Pick<Change, "value">): StoredOwner {
  return { member: value === undefined ? "" : fromBinary(PartitionOwnerSchema, value).member, revision };
}

/** The change that makes a member the owner; it depends on the owner before. */
export const ownerChange = (number: number, member: string, before: Pick<StoredOwner, "revision">): Change => ({
  key: ownerKey(number),
  value: toBinary(PartitionOwnerSchema, create(PartitionOwnerSchema, { member })),
  expect: before.revision,
});

/** Returns the number of the partition that a key is about; undefined if it is about none. */
export function partitionIn(key: string): number | undefined {
  if (!key.startsWith(`${partitionSpace}\0`)) return undefined;
  const number = Number(partsOf(key)[1]);
  return number < partitionCount ? number : undefined;
}
