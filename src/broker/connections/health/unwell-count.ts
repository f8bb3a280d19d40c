import type { World } from "../../../base/world.ts";
import { type Connection_State, Connection_StateSchema } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { Store, Watch } from "../../../store/contract.ts";
import { follow } from "../../../store/follow.ts";
import { after, partsOf, under } from "../../../store/keys.ts";
import { isWell, unwellSpace } from "../connection-collections.ts";

const pageSize = 2_000;

/**
 * Counts unhealthy connections by state, for the metrics. Reads their secondary keys once and follows changes. Healthy
 * connections, which are nearly all, cost nothing here.
 */
export async function openUnwellCount({ store, world }: { store: Store; world: World }): Promise<Watch> {
  /** Sets of keys: a change that a later one replaced may never be reported, so a mere count would drift. */
  let unwell = new Map<string, Set<string>>();

  function note(into: Map<string, Set<string>>, key: string, isThere: boolean): void {
    const [, , state = ""] = partsOf(key);
    const keys = into.get(state) ?? new Set();
    into.set(state, keys);
    if (isThere) keys.add(key);
    else keys.delete(key);
  }

  function show(): void {
    for (const { number, name } of Connection_StateSchema.values) {
      if (isWell(number as Connection_State)) continue;
      const state = name.replace(/^STATE_/, "").toLowerCase();
      world.metrics.connectionsUnwell.set({ state }, unwell.get(String(number))?.size ?? 0);
    }
  }

  return follow({
    store,
    world,
    spaces: [unwellSpace],
    async read() {
      const fresh = new Map<string, Set<string>>();
      let { from, to } = under(unwellSpace);
      for (;;) {
        const found = await store.list({ from, to, limit: pageSize });
        for (const { key } of found) note(fresh, key, true);
        const last = found.at(-1);
        if (last === undefined || found.length < pageSize) break;
        from = after(last.key);
      }
      return () => {
        unwell = fresh;
        show();
      };
    },
    onCommit({ changes }) {
      for (const { key, value } of changes) {
        if (key.startsWith(`${unwellSpace}\0`)) note(unwell, key, value !== undefined);
      }
      show();
    },
  });
}
