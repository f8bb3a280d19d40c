import type { World } from "../../base/world.ts";
import type { Store } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import { partsOf, under } from "../../store/keys.ts";

/** Tells whether anything in spaces that are ordered by time may be due: while nothing is, a process reads nothing. */
export interface DueSight {
  mayBeDue(): boolean;
  /** Makes the next answer true. */
  look(): void;
  /** Reads when the first key is due; called after a scan that found nothing to do. */
  rest(): Promise<void>;
  close(): void;
}

interface DueSightOptions {
  readonly store: Store;
  /** Spaces whose keys begin with a sortable time. */
  readonly spaces: readonly string[];
  readonly world: World;
}

export async function openDueSight({ store, spaces, world }: DueSightOptions): Promise<DueSight> {
  let isDirty = true;
  let firstMs = 0;
  const look = () => {
    isDirty = true;
  };
  const watch = await follow({
    store,
    world,
    spaces,
    read: async () => look,
    onCommit({ changes }) {
      if (changes.some(({ key, value }) => value !== undefined && spaces.includes(partsOf(key)[0] ?? ""))) look();
    },
  });
  return {
    mayBeDue: () => isDirty || world.now() >= firstMs,
    look,
    async rest() {
      // Cleared before the read: a commit during the read sets it again.
      isDirty = false;
      const firsts = await Promise.all(spaces.map((space) => store.list({ ...under(space), limit: 1 })));
      firstMs = Math.min(...firsts.map(([one]) => (one === undefined ? Infinity : Number(partsOf(one.key)[1]))));
    },
    close: () => watch.close(),
  };
}
