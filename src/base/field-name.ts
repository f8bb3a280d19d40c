/** Names of HTTP fields repeat: each is folded once. Bounded, because strangers choose them. */
const folded = new Map<string, string>();
const maxFolded = 4_096;
const maxNameLength = 64;

export function lowerCase(name: string): string {
  const known = folded.get(name);
  if (known !== undefined) return known;
  const lower = name.toLowerCase();
  if (folded.size < maxFolded && name.length <= maxNameLength) folded.set(name, lower);
  return lower;
}
