import { create, equals } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Fault, type Mistake } from "../../base/fault.ts";
import { randomId } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import { checkWebhookUrl } from "../../core/connection-rules.ts";
import type { DeclaredEnvironment } from "../../core/declared.ts";
import { isOrigin } from "../../core/outgoing/origin.ts";
import { type Environment, EnvironmentSchema } from "../../gen/latchkey/v1/environment_pb.ts";
import type { Store } from "../../store/contract.ts";
import { type StoredRecordOf, transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import { requireRevision } from "../stored/conflict.ts";
import { namesNothing } from "../stored/name-tables.ts";
import { listPage, type PageOf, type PageOptions } from "../stored/paging.ts";
import type { Access } from "./access.ts";
import type { Caller } from "./caller.ts";
import type { SetupCollections } from "./setup-collections.ts";
import type { SigningSecrets } from "./signing-secrets.ts";
import { unknownEnvironment } from "./unknown-environment.ts";

export interface Environments {
  create(wanted: EnvironmentSettings & { readonly name: string }, actor: string): Promise<Environment>;
  get(name: string): Promise<Environment>;
  list(page: PageOptions): Promise<PageOf<Environment>>;
  update(asked: EnvironmentUpdate, actor: string): Promise<Environment>;
  delete(asked: { readonly name: string; readonly expectedRevision: bigint }, actor: string): Promise<void>;
  /**
   * Creates or updates the environments that the configuration file declares. Environments no longer declared become
   * editable again.
   */
  declare(declared: readonly DeclaredEnvironment[]): Promise<void>;
  /**
   * Returns the environment of a request. For a key with an environment: that environment, and no other. For a control
   * key: the named environment, or the only one that exists. Throws `unknown_environment`, with the names of the
   * existing environments, if a control key names an unknown one.
   */
  of(caller: Caller, named: string): Promise<string>;
}

export interface EnvironmentSettings {
  readonly forwardUrl: string;
  readonly secondaryForwardUrl: string;
  readonly allowedOrigins: readonly string[];
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
  readonly audit: Audit;
  readonly world: World;
}

export function createEnvironments(options: EnvironmentsOptions): Environments {
  const { store, collections, access, signingSecrets, audit, world } = options;
  const { environments, integrations } = collections;

  /** Time of the last read of an environment, by name: an import names the same environment a thousand times. */
  const seen = new Map<string, number>();

  async function find(name: string): Promise<StoredRecordOf<Environment>> {
    const found = namesNothing(name) ? undefined : await environments.get(name);
    if (found === undefined) throw await unknownEnvironment(collections, name);
    return found;
  }

  async function requireKnown(name: string): Promise<string> {
    const since = seen.get(name);
    if (since !== undefined && performance.now() - since < seenForMs) return name;
    await find(name);
    if (seen.size >= mostSeen) seen.clear();
    seen.set(name, performance.now());
    return name;
  }

  function newEnvironment({ name, ...settings }: EnvironmentSettings & { readonly name: string }): Environment {
    const now = timestampFromMs(world.now());
    const allowedOrigins = [...settings.allowedOrigins];
    return create(EnvironmentSchema, {
      ...settings,
      allowedOrigins,
      name,
      id: randomId(),
      createdAt: now,
      updatedAt: now,
    });
  }

  async function bringIntoLine(name: string, declared: DeclaredEnvironment | undefined): Promise<void> {
    await transact(store, async () => {
      const before = await environments.get(name);
      const base = before?.value ?? newEnvironment({ ...noSettings, name });
      const after: Environment = { ...base, ...inLineWith(declared, base) };
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

  return {
    async create(wanted, actor) {
      check(wanted);
      const environment = newEnvironment(wanted);
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
      check(settings);
      const { result, revision } = await transact(store, async () => {
        const before = await find(name);
        requireRevision(before, expectedRevision);
        requireUndeclared(before.value, Object.keys(settings));
        const after: Environment = {
          ...before.value,
          ...settings,
          allowedOrigins: [...(settings.allowedOrigins ?? before.value.allowedOrigins)],
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
        requireUndeclared(before.value, ["name"]);
        const [held] = await integrations.page({ under: [name], limit: 1 });
        if (held !== undefined) {
          throw new Fault("in_use", `the environment "${name}" still has the integration "${held.value.key}"`);
        }
        const secrets = await signingSecrets.deletionOf(name);
        return {
          changes: [
            ...environments.change({ before, after: undefined }),
            ...(await access.deletionOfAll(name)),
            ...secrets.changes,
            ...audit.changes({ actor, action: "environment.delete", environment: name, targets: [name] }),
          ],
          conditions: [integrations.none([name]), ...secrets.conditions],
          result: undefined,
        };
      });
      seen.delete(name);
    },
    async declare(declared) {
      for (const wanted of declared) await bringIntoLine(wanted.name, wanted);
      const all = await environments.page({ under: [], limit: Number.MAX_SAFE_INTEGER });
      for (const { value } of all) {
        if (!declared.some(({ name }) => name === value.name)) await bringIntoLine(value.name, undefined);
      }
    },
    async of(caller, named) {
      if (caller.environment !== undefined) {
        if (named === "" || named === caller.environment) return caller.environment;
        throw new Fault("missing_scope", `the key "${caller.keyId}" belongs to another environment`);
      }
      if (named !== "") return requireKnown(named);
      const [first, second] = await environments.page({ under: [], limit: 2 });
      if (first !== undefined && second === undefined) return first.value.name;
      const message = "the environment must be named: the key belongs to none, and there is not exactly one";
      throw new Fault("invalid_body", message, { mistakes: [{ path: ["environment"], message }] });
    },
  };
}

const seenForMs = 1_000;
const mostSeen = 1_000;

const noSettings: EnvironmentSettings = { forwardUrl: "", secondaryForwardUrl: "", allowedOrigins: [] };

/** Names of the settings in the proto. */
const fieldNames: Readonly<Record<string, string>> = {
  name: "name",
  forwardUrl: "forward_url",
  secondaryForwardUrl: "secondary_forward_url",
  allowedOrigins: "allowed_origins",
};

/** Earlier versions declared an environment with all of its fields, and stored no list of the fields. */
const declaredFieldsOf = ({ declared, declaredFields }: Environment): readonly string[] =>
  declared && declaredFields.length === 0 ? Object.values(fieldNames) : declaredFields;

/**
 * Returns the fields that the configuration sets; a field that it no longer sets becomes empty. Undefined: the
 * environment is no longer declared.
 */
function inLineWith(declared: DeclaredEnvironment | undefined, base: Environment): Partial<Environment> {
  if (declared === undefined) return { declared: false, declaredFields: [] };
  const before = declaredFieldsOf(base);
  const { name, forwardUrl, secondaryForwardUrl, allowedOrigins } = declared;
  const wanted = {
    name,
    forwardUrl: forwardUrl || undefined,
    secondaryForwardUrl: secondaryForwardUrl || undefined,
    allowedOrigins: allowedOrigins && [...allowedOrigins],
  };
  /** A field that was declared before is emptied; a field that was never declared keeps its value. */
  const left = <F extends keyof EnvironmentSettings>(field: F, none: Environment[F]): Environment[F] =>
    before.includes(fieldNames[field] ?? "") ? none : base[field];
  return {
    declared: true,
    declaredFields: Object.entries(wanted).flatMap(([field, said]) =>
      said === undefined ? [] : (fieldNames[field] ?? []),
    ),
    forwardUrl: wanted.forwardUrl ?? left("forwardUrl", ""),
    secondaryForwardUrl: wanted.secondaryForwardUrl ?? left("secondaryForwardUrl", ""),
    allowedOrigins: wanted.allowedOrigins ?? left("allowedOrigins", []),
  };
}

function requireUndeclared(environment: Environment, fields: readonly string[]): void {
  const declared = declaredFieldsOf(environment);
  const fixed = fields.map((field) => fieldNames[field] ?? field).filter((field) => declared.includes(field));
  if (fixed.length === 0) return;
  const of = fixed.includes("name") ? "" : `${fixed.join(" and ")} of `;
  throw new Fault(
    "read_only",
    `${of}the environment "${environment.name}" is declared in the configuration, a file or variables such as LATCHKEY_FORWARD_URL, and is changed there`,
  );
}

function check({ forwardUrl = "", secondaryForwardUrl = "", allowedOrigins = [] }: Partial<EnvironmentSettings>): void {
  const mistakes: Mistake[] = [
    ...checkWebhookUrl(forwardUrl, ["forward_url"]),
    ...checkWebhookUrl(secondaryForwardUrl, ["secondary_forward_url"]),
    ...allowedOrigins.flatMap((origin, i) =>
      isOrigin(origin)
        ? []
        : [{ path: ["allowed_origins", String(i)], message: "must be an origin such as https://app.example.com" }],
    ),
  ];
  if (mistakes.length > 0) throw new Fault("invalid_body", "the environment is not valid", { mistakes });
}
