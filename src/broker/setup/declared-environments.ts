import { equals } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { World } from "../../base/world.ts";
import type { DeclaredEnvironment } from "../../core/declared.ts";
import { EnvironmentSchema } from "../../gen/latchkey/v1/environment_pb.ts";
import type { Store } from "../../store/contract.ts";
import { transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import { declaredEnvironment, type EnvironmentSettings, newEnvironment } from "./environment-rules.ts";
import type { SetupCollections } from "./setup-collections.ts";

interface DeclaredEnvironmentsOptions {
  readonly store: Store;
  readonly collections: Pick<SetupCollections, "environments">;
  readonly audit: Audit;
  readonly world: World;
}

/** Applies the environments of the configuration file. */
export type DeclareEnvironments = (declared: readonly DeclaredEnvironment[]) => Promise<void>;

const noSettings: EnvironmentSettings = { forwardUrl: "", secondaryForwardUrl: "", allowedOrigins: [] };

export function createDeclareEnvironments(options: DeclaredEnvironmentsOptions): DeclareEnvironments {
  const { store, collections, audit, world } = options;
  const { environments } = collections;

  /** Brings one environment in line with the file; undefined: the file declares it no longer. */
  async function apply(name: string, declared: DeclaredEnvironment | undefined): Promise<void> {
    await transact(store, async () => {
      const before = await environments.get(name);
      const base = before?.value ?? newEnvironment({ ...noSettings, name }, world.now());
      const after = declaredEnvironment(declared, base);
      if (before !== undefined && equals(EnvironmentSchema, before.value, after))
        return { changes: [], result: undefined };
      after.updatedAt = timestampFromMs(world.now());
      return {
        changes: [
          ...environments.change({ before, after }),
          ...audit.changes({ actor: "config", action: "environment.declare", environment: name, targets: [name] }),
        ],
        result: undefined,
      };
    });
  }

  return async (declared) => {
    for (const wanted of declared) await apply(wanted.name, wanted);
    const all = await environments.page({ under: [], limit: Number.MAX_SAFE_INTEGER });
    for (const { value } of all) {
      if (!declared.some(({ name }) => name === value.name)) await apply(value.name, undefined);
    }
  };
}
