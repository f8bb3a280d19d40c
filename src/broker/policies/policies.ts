import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import { randomId } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import { policyLimits } from "../../core/policies/limits.ts";
import { mistakesInPolicy } from "../../core/policies/policy-rules.ts";
import { type Policy, PolicySchema } from "../../gen/latchkey/v1/policy_pb.ts";
import type { Store } from "../../store/contract.ts";
import { type StoredRecordOf, transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import { unknownEnvironment } from "../setup/unknown-environment.ts";
import { requireRevision } from "../stored/conflict.ts";
import { namesNothing } from "../stored/name-tables.ts";
import { pageTokens } from "../stored/page-token.ts";
import type { PageOf, PageOptions } from "../stored/paging.ts";
import type { PoliciesInForce } from "./policies-in-force.ts";

interface PolicyRef {
  readonly environment: string;
  readonly id: string;
}

/** Creates, lists, changes and deletes policies. Those of the configuration file are read-only. */
export interface Policies {
  create(policy: Policy, actor: string): Promise<Policy>;
  get(ref: PolicyRef): Promise<Policy>;
  list(environment: string, page: PageOptions): Promise<PageOf<Policy>>;
  /** Updates the fields that `paths`, the update mask, names. */
  update(request: PolicyUpdate, actor: string): Promise<Policy>;
  delete(ref: PolicyRef & { readonly expectedRevision: bigint }, actor: string): Promise<void>;
}

export interface PolicyUpdate {
  readonly policy: Policy;
  readonly paths: readonly string[];
  readonly expectedRevision: bigint;
}

interface PoliciesOptions {
  readonly store: Store;
  readonly collections: Pick<SetupCollections, "policies" | "environments">;
  readonly inForce: PoliciesInForce;
  readonly audit: Audit;
  readonly world: World;
}

export function createPolicies({ store, collections, inForce, audit, world }: PoliciesOptions): Policies {
  const { policies, environments } = collections;

  async function find({ environment, id }: PolicyRef): Promise<StoredRecordOf<Policy>> {
    if (inForce.isDeclared(environment, id)) {
      throw new Fault("read_only", `the policy "${id}" is declared in the configuration; change it there`);
    }
    const found = namesNothing(environment, id) ? undefined : await policies.get(environment, id);
    if (found === undefined) throw unknownPolicy(id);
    return found;
  }

  return {
    async create(wanted, actor) {
      const { environment } = wanted;
      const id = wanted.id === "" ? randomId() : wanted.id;
      const now = timestampFromMs(world.now());
      const made = create(PolicySchema, { ...writable(wanted), environment, id, createdAt: now, updatedAt: now });
      requireValid(made);
      const { revision } = await transact(store, async () => {
        await store.caughtUp();
        const home = await environments.get(environment);
        if (home === undefined) throw await unknownEnvironment(collections, environment);
        const all = inForce.all(environment);
        if (all.some((policy) => policy.id === id) || (await policies.get(environment, id)) !== undefined) {
          throw new Fault("already_exists", `there is a policy "${id}" already`);
        }
        if (all.length >= policyLimits.policies) {
          const message = `an environment has at most ${policyLimits.policies} policies`;
          throw new Fault("invalid_body", message, { mistakes: [{ path: ["policy"], message }] });
        }
        return {
          changes: [
            ...policies.change({ before: undefined, after: made }),
            ...audit.changes({ actor, action: "policy.create", environment, targets: [id] }),
          ],
          conditions: [environments.unchanged(home)],
          result: undefined,
        };
      });
      return { ...made, revision: BigInt(revision) };
    },
    async get({ environment, id }) {
      await store.caughtUp();
      const found = inForce.all(environment).find((policy) => policy.id === id);
      if (found === undefined) throw unknownPolicy(id);
      return found;
    },
    async list(environment, { size, token }) {
      const tokens = pageTokens(["policies", environment]);
      const from = tokens.read(token);
      await store.caughtUp();
      const rest = inForce.all(environment).filter(({ id }) => from === undefined || id > from);
      const items = rest.slice(0, size);
      return { items, next: rest.length > size ? tokens.write(items.at(-1)?.id ?? "") : "" };
    },
    async update({ policy, paths, expectedRevision }, actor) {
      const taken = paths.length === 0 ? Object.keys(fields) : paths;
      const { result, revision } = await transact(store, async () => {
        const before = await find(policy);
        requireRevision(before, expectedRevision);
        const after: Policy = { ...before.value, updatedAt: timestampFromMs(world.now()) };
        for (const path of taken) fieldOf(path)(policy, after);
        requireValid(after);
        const { environment, id } = after;
        return {
          changes: [
            ...policies.change({ before, after }),
            ...audit.changes({ actor, action: "policy.update", environment, targets: [id], fields: [...taken] }),
          ],
          result: after,
        };
      });
      return { ...result, revision: BigInt(revision) };
    },
    async delete({ environment, id, expectedRevision }, actor) {
      await transact(store, async () => {
        const before = await find({ environment, id });
        requireRevision(before, expectedRevision);
        return {
          changes: [
            ...policies.change({ before, after: undefined }),
            ...audit.changes({ actor, action: "policy.delete", environment, targets: [id] }),
          ],
          result: undefined,
        };
      });
    },
  };
}

type CopyField = (from: Policy, to: Policy) => void;

/** Fields that an update mask may name. */
const fields: Readonly<Record<string, CopyField>> = {
  about: ({ about }, to) => {
    if (about === undefined) delete to.about;
    else to.about = about;
  },
  effect: ({ effect }, to) => {
    to.effect = effect;
  },
  condition: ({ condition }, to) => {
    to.condition = condition;
  },
  description: ({ description }, to) => {
    to.description = description;
  },
  disabled: ({ disabled }, to) => {
    to.disabled = disabled;
  },
  hold: ({ hold }, to) => {
    if (hold === undefined) delete to.hold;
    else to.hold = hold;
  },
};

function fieldOf(path: string): CopyField {
  const copy = Object.hasOwn(fields, path) ? fields[path] : undefined;
  if (copy !== undefined) return copy;
  const message = `"${path}" must be one of ${Object.keys(fields).join(", ")}`;
  throw new Fault("invalid_body", `the update mask is not valid: ${message}`, {
    mistakes: [{ path: ["update_mask"], message }],
  });
}

const writable = ({ about, effect, condition, description, disabled, hold }: Policy) => ({
  ...(about && { about }),
  ...(hold && { hold }),
  effect,
  condition,
  description,
  disabled,
});

/** Throws with every mistake of a policy, and its place in the condition. */
function requireValid(policy: Policy): void {
  const mistakes = mistakesInPolicy(policy).map(({ path, message, place }) => ({
    path,
    message: place === undefined ? message : `${place.line}:${place.column}: ${message}`,
  }));
  if (mistakes.length === 0) return;
  const text = mistakes.map(({ path, message }) => `${path.join(".")}: ${message}`).join("; ");
  throw new Fault("invalid_body", `the policy is not valid: ${text}`, { mistakes });
}

const unknownPolicy = (id: string) => new Fault("not_found", `there is no policy "${id}" in this environment`);
