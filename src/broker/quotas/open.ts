import type { World } from "../../base/world.ts";
import type { Store } from "../../store/contract.ts";
import { createKeptQuotas } from "./kept-quotas.ts";
import { createQuotas, type Quotas } from "./quotas.ts";
import { createShareExchange } from "./share-exchange.ts";

export type { Quotas } from "./quotas.ts";

interface QuotaRoomOptions {
  readonly store: Store;
  /** Other processes use the store too. */
  readonly isShared: boolean;
  readonly world: World;
}

export function openQuotas({ store, isShared, world }: QuotaRoomOptions): Quotas {
  const exchange = isShared ? createShareExchange({ store, world }) : undefined;
  return createQuotas({ kept: createKeptQuotas({ exchange, world }), world });
}
