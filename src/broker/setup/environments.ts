import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import type { DeclaredEnvironment } from "../../core/declared.ts";
import type { Environment } from "../../gen/latchkey/v1/environment_pb.ts";
import type { Change, Store } from "../../store/contract.ts";
import { type StoredRecordOf, transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import { requireRevision } from "../stored/conflict.ts";
import { namesNothing } from "../stored/name-tables.ts";
import { listPage, type PageOf, type PageOptions } from "../stored/paging.ts";
import type { Access } from "./access.ts";
import { type CallerEnvironments, createCallerEnvironments } from "./caller-environment.ts";
import { createDeclareEnvironments } from "./declared-environments.ts";
import {
  changedEnvironment,
  type EnvironmentSettings,
  type NewEnvironment,
  newEnvironment,
  requireUndeclaredFields,
  requireValidSettings,
} from "./environment-rules.ts";
import type { SetupCollections } from "./setup-collections.ts";
import type { SigningSecrets } from "./signing-secrets.ts";
import { unknownEnvironment } from "./unknown-environment.ts";

export interface Environments extends Pick<CallerEnvironments, "of"> {
  create(wanted: NewEnvironment, actor: string): Promise<Environment>;
  get(name: string): Promise<Environment>;
  list(page: PageOptions): Promise<PageOf<Environment>>;
  update(request: EnvironmentUpdate, actor: string): Promise<Environment>;
  delete(request: { readonly name: string; readonly expectedRevision: bigint }, actor: string): Promise<void>;
  /**
   * Creates or updates the environments that the configuration file declares. Environments no longer declared become
   * editable again.
   */
  declare(declared: readonly DeclaredEnvironment[]): Promise<void>;
}

export interface EnvironmentUpdate {
  readonly name: string;
  readonly settings: Partial<EnvironmentSettings>;
  readonly expectedRevision: bigint;
}

interface EnvironmentsOptions {
  readonly store: Store;
  readonly collections: SetupCollections;
  readonly access: Access;
  readonly signingSecrets: Pick<SigningSecrets, "deletionOf">;
  /** Returns the changes that delete the access sessions of an environment. */
  readonly deletionOfSessions: (environment: string) => Promise<Change[]>;
  readonly audit: Audit;
  readonly world: World;
}

export function createEnvironments(options: EnvironmentsOptions): Environments {
  const { store, collections, access, signingSecrets, deletionOfSessions, audit, world } = options;
  const { environments, integrations } = collections;

  async function find(name: string): Promise<StoredRecordOf<Environment>> {
    const found = namesNothing(name) ? undefined : await environments.get(name);
    if (found === undefined) throw await unknownEnvironment(collections, name);
    return found;
  }

  const callers = createCallerEnvironments({ collections, requireEnvironment: find });

  return {
    async create(wanted, actor) {
      requireValidSettings(wanted);
      const environment = newEnvironment(wanted, world.now());
      const { name } = wanted;
      const { revision } = await transact(store, async () => {
        if ((await environments.get(name)) !== undefined) {
          throw new Fault("already_exists", `there is an environment "${name}" already`);
        }
        return {
          changes: [
            ...environments.change({ before: undefined, after: environment }),
            ...audit.changes({ actor, action: "environment.create", environment: name, targets: [name] }),
          ],
          result: undefined,
        };
      });
      return { ...environment, revision: BigInt(revision) };
    },
    get: async (name) => (await find(name)).value,
    list: (page) =>
      listPage({ question: ["environments"], page, read: (rest) => environments.page({ under: [], ...rest }) }),
    async update({ name, settings, expectedRevision }, actor) {
      requireValidSettings(settings);
      const { result, revision } = await transact(store, async () => {
        const before = await find(name);
        requireRevision(before, expectedRevision);
        requireUndeclaredFields(before.value, Object.keys(settings));
        const after: Environment = {
          ...changedEnvironment(before.value, settings),
          updatedAt: timestampFromMs(world.now()),
        };
        const fields = Object.keys(settings);
        return {
          changes: [
            ...environments.change({ before, after }),
            ...audit.changes({ actor, action: "environment.update", environment: name, targets: [name], fields }),
          ],
          result: after,
        };
      });
      return { ...result, revision: BigInt(revision) };
    },
    async delete({ name, expectedRevision }, actor) {
      await transact(store, async () => {
        const before = await find(name);
        requireRevision(before, expectedRevision);
        requireUndeclaredFields(before.value, ["name"]);
        const [held] = await integrations.page({ under: [name], limit: 1 });
        if (held !== undefined) {
          throw new Fault("in_use", `the environment "${name}" still has the integration "${held.value.key}"`);
        }
        const secrets = await signingSecrets.deletionOf(name);
        const emptying = await collections.emptyings.get(name);
        const policies = await collections.policies.page({ under: [name], limit: Number.MAX_SAFE_INTEGER });
        return {
          changes: [
            ...environments.change({ before, after: undefined }),
            ...policies.flatMap((policy) => collections.policies.change({ before: policy, after: undefined })),
            ...collections.emptyings.change({ before: emptying, after: undefined }),
            ...(await access.deletionOfAll(name)),
            ...(await deletionOfSessions(name)),
            ...secrets.changes,
            ...audit.changes({ actor, action: "environment.delete", environment: name, targets: [name] }),
          ],
          conditions: [integrations.none([name]), ...secrets.conditions],
          result: undefined,
        };
      });
      callers.forget(name);
    },
    declare: createDeclareEnvironments({ store, collections, audit, world }),
    of: callers.of,
  };
}
