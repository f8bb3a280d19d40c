import { hash } from "node:crypto";

const record = { id: "ada", provider: "example", tags: { team: "shop" }, metadata: { plan: "free", seats: 3 } };

/**
 * The processor time of the same work each time: objects to JSON and back, hashes, a map. A yardstick for figures that
 * have no peer: it tells a slower machine from a slower program.
 */
export function fixedWorkMs(): number {
  once();
  const begin = process.cpuUsage();
  for (let i = 0; i < 5; i += 1) once();
  const { user, system } = process.cpuUsage(begin);
  return (user + system) / 5_000;
}

function once(): void {
  const seen = new Map<string, string>();
  for (let i = 0; i < 20_000; i += 1) {
    const text = JSON.stringify({ ...record, id: `user-${i}` });
    seen.set(hash("sha256", text), (JSON.parse(text) as { readonly id: string }).id);
  }
  if (seen.size !== 20_000) throw new Error("two records had one hash");
}
