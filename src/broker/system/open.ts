import type { World } from "../../base/world.ts";
import type { Backend } from "../../store/contract.ts";
import type { SealedStore } from "../../store/sealed/sealed.ts";
import type { Partitions } from "../partitions/partitions.ts";
import { createSealedTexts, type SealedTexts } from "../stored/sealed-texts.ts";
import { createReplicas, type Replicas } from "./replicas.ts";
import { createUpkeep, type Upkeep } from "./upkeep.ts";
import { createWarnings, type Warnings, type WarningsOptions } from "./warnings.ts";

/** Opened before the rest of this room: edges need the authority. */
export { type Authorities, openAuthorities } from "../authority/authorities.ts";

/** What operators ask about the deployment as a whole. */
export interface SystemRoom {
  readonly upkeep: Upkeep;
  readonly replicas: Replicas;
  readonly warnings: Warnings;
  /** Texts that callers keep for us. */
  readonly sealedTexts: SealedTexts;
}

interface SystemOptions extends Omit<WarningsOptions, "upkeep" | "replicas"> {
  readonly store: SealedStore;
  readonly backend: Backend;
  readonly partitions: Partitions;
  /** Name of the host or pod. */
  readonly host: string;
  readonly world: World;
}

export function openSystem(options: SystemOptions): SystemRoom {
  const replicas = createReplicas(options);
  const upkeep = createUpkeep(options);
  return {
    upkeep,
    replicas,
    warnings: createWarnings({ ...options, upkeep, replicas }),
    sealedTexts: createSealedTexts(options.store),
  };
}
