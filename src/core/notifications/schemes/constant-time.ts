import { hash, timingSafeEqual } from "node:crypto";

/** Hashes texts to equal lengths, so that the comparison leaks nothing about them. */
export const sha256 = (text: string): string => hash("sha256", text);

/**
 * Compares in constant time, so that timing does not reveal where the texts differ. `timingSafeEqual` throws on unequal
 * lengths.
 */
export function isSame(a: string, b: string): boolean {
  const [one, other] = [Buffer.from(a), Buffer.from(b)];
  return one.length === other.length && timingSafeEqual(one, other);
}
