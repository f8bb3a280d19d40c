import { createCallbacks } from "../../base/callbacks.ts";
import type { World } from "../../base/world.ts";
import type { PolicyRule } from "../../core/policies/policy-rule.ts";
import { ruleOf } from "../../core/policies/policy-rules.ts";
import { createPolicySet, type PolicySet } from "../../core/policies/policy-set.ts";
import type { Policy } from "../../gen/latchkey/v1/policy_pb.ts";
import type { Store } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";

/** Compiled policies, by environment. */
export interface PolicySets {
  /** Returns the policies of an environment that are on; undefined: there are none. */
  of(environment: string): PolicySet | undefined;
}

/** All policies, in memory: those of the store and of the configuration file. */
export interface PoliciesInForce extends PolicySets {
  /** Returns all policies of an environment, also those that are off, by ID. */
  all(environment: string): readonly Policy[];
  isDeclared(environment: string, id: string): boolean;
  /** Replaces the policies of the configuration file. They win over stored ones of the same ID. */
  declare(policies: readonly Policy[]): void;
  /** Calls back with the names of environments whose policies have changed, until the returned function is called. */
  listen(onChange: (environments: readonly string[]) => void): () => void;
  close(): void;
}

interface PoliciesInForceOptions {
  readonly store: Store;
  readonly collections: Pick<SetupCollections, "policies">;
  readonly world: World;
}

type PoliciesById = Map<string, Policy>;

export async function openPoliciesInForce(options: PoliciesInForceOptions): Promise<PoliciesInForce> {
  const { store, collections, world } = options;
  const { policies } = collections;
  const stored = new Map<string, PoliciesById>();
  let declared: ReadonlyMap<string, PoliciesById> = new Map();
  const sets = new Map<string, PolicySet>();
  const changed = createCallbacks<readonly string[]>();

  const all = (environment: string): readonly Policy[] =>
    [...new Map([...(stored.get(environment) ?? []), ...(declared.get(environment) ?? [])]).values()].sort((a, b) =>
      a.id < b.id ? -1 : 1,
    );

  function renew(environments: Iterable<string>): void {
    const names = [...new Set(environments)];
    for (const name of names) {
      const set = setOf(all(name));
      if (set === undefined) sets.delete(name);
      else sets.set(name, set);
    }
    if (names.length > 0) changed.run(names);
  }

  const watch = await follow({
    store,
    world,
    spaces: [policies.name],
    async read() {
      const found = await policies.page({ under: [], limit: Number.MAX_SAFE_INTEGER });
      return () => {
        const before = [...stored.keys()];
        stored.clear();
        for (const [environment, list] of byEnvironment(found.map(({ value }) => value))) stored.set(environment, list);
        renew([...before, ...stored.keys()]);
      };
    },
    onCommit({ changes, revision }) {
      const names: string[] = [];
      for (const change of changes) {
        const read = policies.read(change, revision);
        const [environment, id] = read?.parts ?? [];
        if (read === undefined || environment === undefined || id === undefined) continue;
        const list = stored.get(environment) ?? new Map<string, Policy>();
        if (read.value === undefined) list.delete(id);
        else list.set(id, read.value);
        if (list.size === 0) stored.delete(environment);
        else stored.set(environment, list);
        names.push(environment);
      }
      renew(names);
    },
  });

  return {
    of: (environment) => sets.get(environment),
    all,
    isDeclared: (environment, id) => declared.get(environment)?.has(id) === true,
    declare(given) {
      const before = [...declared.keys()];
      declared = byEnvironment(given);
      renew([...before, ...declared.keys()]);
    },
    listen: changed.add,
    close: () => watch.close(),
  };
}

function byEnvironment(policies: readonly Policy[]): Map<string, PoliciesById> {
  const found = new Map<string, PoliciesById>();
  for (const policy of policies) {
    const list = found.get(policy.environment) ?? new Map<string, Policy>();
    found.set(policy.environment, list.set(policy.id, policy));
  }
  return found;
}

/** A policy that did not change is not compiled again. */
const compiled = new WeakMap<Policy, PolicyRule>();

/** Compiles the policies that are on; undefined if there are none. */
export function setOf(policies: readonly Policy[]): PolicySet | undefined {
  const rules = policies.filter(({ disabled }) => !disabled).map(compiledRuleOf);
  return rules.length === 0 ? undefined : createPolicySet(rules);
}

function compiledRuleOf(policy: Policy): PolicyRule {
  const known = compiled.get(policy);
  if (known !== undefined) return known;
  const made = ruleOf(policy);
  compiled.set(policy, made);
  return made;
}
