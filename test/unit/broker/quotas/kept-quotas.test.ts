import { expect, it, vi } from "vitest";
import { createKeptQuotas } from "../../../../src/broker/quotas/kept-quotas.ts";
import type { SharedQuota } from "../../../../src/broker/quotas/share-exchange.ts";
import { testWorld } from "../world.ts";

it("divides each of more limits than one exchange takes", async () => {
  const asked = new Set<string>();
  const kept = createKeptQuotas({
    exchange: {
      async exchange(all: readonly SharedQuota[]) {
        for (const { name } of all) asked.add(name);
        return all.map(() => ({ share: 0.5, heldUntilMs: 0 }));
      },
      leave: async () => undefined,
    },
    world: testWorld(),
  });
  const names = Array.from({ length: 1_200 }, (_, i) => `e0f1\0crm\0connection\0${i}`);
  for (const name of names) kept.of(name, { requests: 100, periodMs: 1_000 });
  await vi.waitFor(() => expect(asked.size).toBe(names.length), { timeout: 30_000 });
  await kept.close();
});
