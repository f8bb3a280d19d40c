/** Number of partitions of all kinds of background work. Enough that nine replicas get even shares. */
export const partitionCount = 64;

const offset = 0x811c9dc5;
const prime = 0x01000193;

/**
 * Returns the partition of a text: FNV-1a over its UTF-16 code units. No result is stored, so all replicas that run at
 * the same time must agree, and no others.
 */
export function partitionOf(text: string): number {
  let hash = offset;
  for (let i = 0; i < text.length; i += 1) hash = Math.imul(hash ^ text.charCodeAt(i), prime);
  // Include the high bits: the low ones of FNV-1a depend on few bits of the text.
  return (hash ^ (hash >>> 8) ^ (hash >>> 16) ^ (hash >>> 24)) & (partitionCount - 1);
}
