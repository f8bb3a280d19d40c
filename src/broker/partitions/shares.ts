/** The owner of each partition by its number; undefined: none. */
export type PartitionOwners = readonly (string | undefined)[];

/**
 * Returns who should own each partition: even shares of the living members, and as few moves as possible. Replicas that
 * see the same owners and members get the same result, so they need not talk about it.
 */
export function fairOwners(owners: PartitionOwners, living: readonly string[]): PartitionOwners {
  const room = sharesOf(owners, living);
  const kept = owners.map((owner) => (owner !== undefined && takesOne(room, owner) ? owner : undefined));
  const receivers = [...room.keys()];
  return kept.map((owner) => owner ?? receivers.find((member) => takesOne(room, member)));
}

/** Returns how many partitions each living member gets. The members that own most get those that are left over. */
function sharesOf(owners: PartitionOwners, living: readonly string[]): Map<string, number> {
  const owned = new Map(living.map((member) => [member, 0]));
  for (const owner of owners) {
    const count = owner === undefined ? undefined : owned.get(owner);
    if (owner !== undefined && count !== undefined) owned.set(owner, count + 1);
  }
  const ranked = [...owned].sort(([a, ofA], [b, ofB]) => ofB - ofA || (a < b ? -1 : 1));
  const each = Math.floor(owners.length / living.length);
  const over = owners.length % living.length;
  return new Map(ranked.map(([member], i) => [member, each + (i < over ? 1 : 0)]));
}

function takesOne(room: Map<string, number>, member: string): boolean {
  const left = room.get(member) ?? 0;
  if (left > 0) room.set(member, left - 1);
  return left > 0;
}
