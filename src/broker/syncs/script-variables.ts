import type { DeclaredVariable } from "../../core/declared.ts";

/** Variables of an environment's scripts, from configuration and only in memory. */
export interface ScriptVariables {
  of(environment: string): readonly ScriptVariable[];
  declare(declared: readonly DeclaredVariable[]): void;
}

export interface ScriptVariable {
  readonly name: string;
  readonly value: string;
}

export function createScriptVariables(): ScriptVariables {
  let byEnvironment: ReadonlyMap<string, readonly DeclaredVariable[]> = new Map();
  return {
    of: (environment) => (byEnvironment.get(environment) ?? []).map(({ name, value }) => ({ name, value })),
    declare(declared) {
      byEnvironment = Map.groupBy(declared, ({ environment }) => environment);
    },
  };
}
