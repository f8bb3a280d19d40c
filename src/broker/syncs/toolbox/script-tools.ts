import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { Fault } from "../../../base/fault.ts";
import { createLimiter } from "../../../base/limiter.ts";
import type { World } from "../../../base/world.ts";
import { depthOf } from "../../../core/connection-rules.ts";
import { credentialsJson } from "../../../core/dialect/credentials.ts";
import { connectionFull } from "../../../core/dialect/sdk-json.ts";
import { type ScriptOutcome, type ScriptTools, ToolFailure } from "../../../core/scripts/script.ts";
import { baseVariant } from "../../../core/scripts/sync-state.ts";
import type { ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import { CredentialsSchema } from "../../../gen/latchkey/v1/credentials_pb.ts";
import type { PaginationRules } from "../../../gen/latchkey/v1/provider_pb.ts";
import { TriggerSyncRequest_Mode as Mode } from "../../../gen/latchkey/v1/sync_pb.ts";
import type { LogWriter } from "../../audit/logs.ts";
import { secretValues } from "../../audit/secret-values.ts";
import type { Connections } from "../../connections/connections.ts";
import type { NoteSent } from "../../credentials/connection-request.ts";
import type { LiveConnection } from "../../credentials/live-connections.ts";
import type { Integrations } from "../../setup/integrations.ts";
import type { WebhookUrls } from "../../setup/webhook-urls.ts";
import type { Syncs } from "../syncs.ts";
import type { OpenRunLocks, RunLocks } from "./script-locks.ts";
import { scriptRequest } from "./script-request.ts";
import type { SendForScript } from "./script-requests.ts";

/**
 * Functions that scripts may call, on behalf of one connection. None shows a script a credential, unless the
 * integration allows it.
 */
export interface ScriptToolbox {
  of(run: ToolsRun): ScriptTools & {
    /** Releases the locks that the run holds. */
    end(): Promise<void>;
  };
}

/** The properties of a run that its tools need. */
export interface ToolsRun {
  readonly ref: ConnectionRef;
  /** Returns the connection to use; a draft for a connection that is about to be created. */
  readonly live: () => Promise<LiveConnection>;
  /** Is told of the credentials of each request. */
  readonly noteSent?: NoteSent | undefined;
  readonly log: LogWriter;
  readonly signal: AbortSignal;
  /** Tools of a sync's run; undefined for other scripts, which keep no records and have no checkpoint. */
  readonly sync: SyncTools | undefined;
  /** Logs changes instead of making them. */
  readonly isDryRun: boolean;
  /** The connection is about to be created. */
  readonly isDraft?: boolean;
  /** Another script waits for this run. */
  readonly isNested?: boolean;
}

/** Additional tools for a sync's run. Each rejects once another process has ended the run. */
export interface SyncTools {
  save(model: string, records: readonly JsonObject[]): Promise<void>;
  update(model: string, records: readonly JsonObject[]): Promise<void>;
  delete(model: string, records: readonly JsonObject[]): Promise<void>;
  byIds(model: string, ids: readonly string[]): Promise<JsonObject[]>;
  trackDeletes(model: string, step: "start" | "end"): Promise<void>;
  checkpoint(): Promise<JsonObject | undefined>;
  setCheckpoint(checkpoint: JsonObject | undefined): Promise<void>;
}

interface ToolboxOptions {
  readonly send: SendForScript;
  readonly connections: Connections;
  readonly integrations: Integrations;
  readonly urls: WebhookUrls;
  readonly syncs: Pick<Syncs, "trigger" | "start">;
  readonly runAction: (
    asked: {
      readonly ref: ConnectionRef;
      readonly name: string;
      readonly input: JsonValue | undefined;
    },
    signal: AbortSignal,
  ) => Promise<{ readonly outcome: ScriptOutcome }>;
  /** Returns the variables of an environment's scripts: names and values. */
  readonly variablesOf: (environment: string) => readonly { readonly name: string; readonly value: string }[];
  readonly openLocks: OpenRunLocks;
  readonly world: World;
}

/** Nesting limit of values that are stored as protobuf, whose readers allow no more. */
const mostDepth = 32;
const mostCheckpointBytes = 256 * 1024;
/** Minimum length of a redacted value: shorter values would match parts of ordinary words. */
const leastHidden = 8;
/** Larger batches are written by one run at a time: each takes milliseconds of the proxy's thread. */
const fewRecords = 50;
/** The actor in the audit trail. */
const actor = "script";

const usualLockMs = 60_000;
const maxLockMs = 3_600_000;
const maxLockKey = 255;

type Tool = (
  run: ToolsRun & { readonly locks: RunLocks },
  given: readonly JsonValue[],
) => Promise<JsonValue | undefined>;

export function createScriptToolbox(options: ToolboxOptions): ScriptToolbox {
  const { send, connections, integrations, urls, syncs, runAction, variablesOf, openLocks, world } = options;

  async function withMetadata({ ref, isDryRun, log }: ToolsRun, given: JsonValue | undefined, replace: boolean) {
    const metadata = objectOf(given, "metadata");
    if (isDryRun) log.info("the metadata would be changed", { keys: Object.keys(metadata).join(", ") });
    else await connections.updateMetadata([{ ref, metadata, replace, expectedRevision: 0n }], actor);
    return undefined;
  }

  function syncOf({ sync }: ToolsRun, tool: string): SyncTools {
    if (sync !== undefined) return sync;
    throw new ToolFailure("not_a_sync", `${tool} is there for syncs alone`);
  }

  const turn = createLimiter(1);
  const batch =
    (verb: "save" | "update" | "delete"): Tool =>
    async (run, [records, model]) => {
      const of = syncOf(run, `batch${verb}`);
      const name = textOf(model, "model");
      if (!Array.isArray(records) || !records.every(isObject)) throw mistaken("the records must be a list of objects");
      if (run.isDryRun) {
        await of[verb](name, records);
        run.log.info(wouldBe[verb], { model: name, count: records.length });
        return true;
      }
      const done = records.length > fewRecords ? await turn("many") : () => {};
      try {
        await of[verb](name, records);
      } finally {
        done();
      }
      return true;
    };

  const deletes =
    (step: "start" | "end"): Tool =>
    async (run, [model]) => {
      const of = syncOf(run, "trackDeletes");
      await of.trackDeletes(textOf(model, "model"), step);
      return undefined;
    };

  async function viewed(run: ToolsRun): Promise<JsonObject> {
    const { connection, integration, credentials } = await run.live();
    if (!integration.credentialsInScripts) return connectionFull(connection, undefined);
    run.log.hide(...secretValues(CredentialsSchema, credentials));
    return connectionFull(connection, credentials);
  }

  const tools: Readonly<Record<string, Tool>> = {
    proxy: async ({ live, signal, noteSent, isDraft = false }, [request]) =>
      send({ live, signal, noteSent, isDraft }, scriptRequest(request)),
    getConnection: (run) => viewed(run),
    async getMetadata({ live, ref, isDryRun }) {
      const { connection } = await live();
      // Read the current metadata, which may be newer than the connection's credentials.
      const found = isDryRun ? undefined : (await connections.getMany([ref]))[0];
      return (found ?? connection).metadata ?? {};
    },
    setMetadata: (run, [metadata]) => withMetadata(run, metadata, true),
    updateMetadata: (run, [metadata]) => withMetadata(run, metadata, false),
    async getIntegration({ ref }) {
      const { value } = await integrations.get({ environment: ref.environment, key: ref.integration });
      const { key, provider, displayName } = value;
      return { unique_key: key, provider, display_name: displayName };
    },
    async getWebhookURL({ ref }) {
      const { value } = await integrations.get({ environment: ref.environment, key: ref.integration });
      return urls.of(value);
    },
    async getEnvironmentVariables({ ref, log }) {
      const variables = variablesOf(ref.environment);
      log.hide(...variables.map(({ value }) => value).filter((value) => value.length >= leastHidden));
      return variables.map(({ name, value }) => ({ name, value }));
    },
    async getToken(run) {
      const { credentials, integration } = await run.live();
      if (!integration.credentialsInScripts) {
        throw new ToolFailure("missing_scope", "scripts of this integration use credentials without seeing them");
      }
      run.log.hide(...secretValues(CredentialsSchema, credentials));
      const shown = credentialsJson(credentials);
      return shown["access_token"] ?? shown["token"] ?? shown;
    },
    async paginationOf(run) {
      return paginationJson((await run.live()).provider.proxy?.pagination);
    },
    async triggerAction({ ref, isDryRun, isNested, log, signal }, [integration, connectionId, action, input]) {
      requireOwn(ref, integration);
      const name = textOf(action, "action");
      const id = textOf(connectionId, "connectionId");
      if (isDryRun) {
        log.info("an action would be triggered", { script: name });
        return null;
      }
      // Each nested action would wait for a slot while its caller keeps its own.
      if (isNested === true) throw new ToolFailure("too_deep", "an action that a script asked for asks for no other");
      const { outcome } = await runAction({ ref: { ...ref, id }, name, input }, signal);
      if (outcome.kind === "done") return outcome.output ?? null;
      throw new ToolFailure(outcome.failure.code, outcome.failure.message, {
        details: outcome.failure.payload === undefined ? {} : { payload: outcome.failure.payload },
      });
    },
    async startSync({ ref, isDryRun, log }, [integration, names, connectionId]) {
      requireOwn(ref, integration);
      const all = Array.isArray(names) ? names : [names];
      for (const given of all) {
        const [name = "", variant = baseVariant] = syncName(given).split("::");
        if (isDryRun) log.info("a sync would be started", { script: name });
        else {
          const id = textOf(connectionId, "connectionId");
          await syncs.start({ ref: { ...ref, id }, name, variant, expectedRevision: 0n }, actor);
        }
      }
      return undefined;
    },
    async triggerSync({ ref, isDryRun, log }, [integration, connectionId, sync, mode]) {
      requireOwn(ref, integration);
      const name = syncName(sync);
      if (isDryRun) log.info("a sync would be triggered", { script: name });
      else {
        await syncs.trigger(
          {
            environment: ref.environment,
            integration: ref.integration,
            connectionId: textOf(connectionId, "connectionId"),
            names: [name],
            mode: modeOf(mode),
          },
          actor,
        );
      }
      return undefined;
    },
    async tryAcquireLock({ locks, isDryRun, log }, [lock]) {
      const { key, ttlMs } = lockIn(lock);
      if (!isDryRun) return locks.acquire(key, ttlMs);
      log.info("a lock would be taken", { key });
      return true;
    },
    releaseLock: ({ locks }, [lock]) => locks.release(lockIn(lock).key),
    async releaseAllLocks({ locks }) {
      await locks.releaseAll();
      return undefined;
    },
    batchSave: batch("save"),
    batchUpdate: batch("update"),
    batchDelete: batch("delete"),
    async getRecordsByIds(run, [ids, model]) {
      if (!Array.isArray(ids)) throw mistaken("the ids must be a list");
      return syncOf(run, "getRecordsByIds").byIds(textOf(model, "model"), ids.map(String));
    },
    trackDeletesStart: deletes("start"),
    trackDeletesEnd: deletes("end"),
    deleteRecordsFromPreviousExecutions: deletes("end"),
    async getCheckpoint(run) {
      return (await syncOf(run, "getCheckpoint").checkpoint()) ?? null;
    },
    async saveCheckpoint(run, [checkpoint]) {
      const of = syncOf(run, "saveCheckpoint");
      const value = objectOf(checkpoint, "checkpoint");
      if (depthOf(value) > mostDepth || Buffer.byteLength(JSON.stringify(value)) > mostCheckpointBytes) {
        throw mistaken(`checkpoint: must be at most ${mostDepth} deep and ${mostCheckpointBytes / 1024} KiB`);
      }
      await of.setCheckpoint(value);
      return undefined;
    },
    async clearCheckpoint(run) {
      const of = syncOf(run, "clearCheckpoint");
      await of.setCheckpoint(undefined);
      return undefined;
    },
  };

  return {
    of: (asked) => {
      const run = { ...asked, locks: openLocks(asked.ref.environment) };
      return { ...toolsOf(run), end: run.locks.releaseAll };
    },
  };

  function toolsOf(run: Parameters<Tool>[0]): ScriptTools {
    return {
      async call(name, given) {
        const tool = Object.hasOwn(tools, name) ? tools[name] : undefined;
        if (tool === undefined) throw new ToolFailure("unknown_tool", `there is no nango.${name} here`);
        if (run.signal.aborted) throw new ToolFailure("cancelled", "the run has ended");
        try {
          return await tool(run, given);
        } catch (error) {
          if (!(error instanceof Fault)) throw error;
          world.log.debug("a script's request was refused", { tool: name, reason: error.code });
          throw new ToolFailure(error.code, sentenceOf(error), { cause: error });
        }
      },
      log: ({ level, message }) => run.log[level]("the script says", { message }),
    };
  }
}

const wouldBe = {
  save: "records would be saved",
  update: "records would be updated",
  delete: "records would be deleted",
} as const;

const mistaken = (message: string) => new ToolFailure("invalid_request", message);
const isObject = (value: JsonValue | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const sentenceOf = ({ message, mistakes }: Fault): string =>
  mistakes.length === 0
    ? message
    : `${message}: ${mistakes.map((mistake) => `${mistake.path.join(".")} ${mistake.message}`).join("; ")}`;

function objectOf(value: JsonValue | undefined, name: string): JsonObject {
  if (isObject(value)) return value;
  throw mistaken(`${name}: must be an object`);
}

function textOf(value: JsonValue | undefined, name: string): string {
  if (typeof value === "string" && value !== "") return value;
  throw mistaken(`${name}: must be text`);
}

function lockIn(given: JsonValue | undefined): { readonly key: string; readonly ttlMs: number } {
  const { key, ttlMs = usualLockMs } = objectOf(given, "lock");
  const name = textOf(key, "key");
  if (name.length > maxLockKey) throw mistaken(`key: must have at most ${maxLockKey} characters`);
  if (typeof ttlMs === "number" && Number.isInteger(ttlMs) && ttlMs >= 1 && ttlMs <= maxLockMs) {
    return { key: name, ttlMs };
  }
  throw mistaken(`ttlMs: must be a whole number from 1 to ${maxLockMs}`);
}

/** Parses `name`, or `name::variant`. */
function syncName(given: JsonValue | undefined): string {
  if (!isObject(given)) return textOf(given, "sync");
  const { name, variant } = given;
  return typeof variant === "string" ? `${textOf(name, "name")}::${variant}` : textOf(name, "name");
}

function requireOwn(ref: ConnectionRef, integration: JsonValue | undefined): void {
  if (textOf(integration, "providerConfigKey") !== ref.integration) {
    throw mistaken("providerConfigKey: must be the script's own integration");
  }
}

/**
 * Returns the rules under the peer's names. The peer has no name for paging by the last item: such a script passes its
 * own rules.
 */
function paginationJson(rules: PaginationRules | undefined): JsonValue {
  if (rules === undefined || rules.kind === "" || rules.lastItem !== "") return null;
  const { kind, items, next, parameter, limitParameter, limit } = rules;
  const named = {
    response_path: items,
    limit_name_in_request: limitParameter,
    ...(kind === "cursor" && { cursor_path_in_response: next, cursor_name_in_request: parameter }),
    ...(kind === "link" &&
      (next === "" ? { link_rel_in_response_header: "next" } : { link_path_in_response_body: next })),
    ...(kind === "offset" && { offset_name_in_request: parameter }),
  };
  const said = Object.entries(named).filter(([, value]) => value !== "");
  return { type: kind, ...(limit > 0 && { limit }), ...Object.fromEntries(said) };
}

function modeOf(mode: JsonValue | undefined): Mode {
  if (isObject(mode))
    return mode["emptyCache"] === true ? Mode.FULL_REFRESH_AND_CLEAR_CACHE : modeOf(mode["reset"] === true);
  if (mode === false) return Mode.INCREMENTAL;
  if (mode === undefined || mode === null || mode === "incremental") return Mode.INCREMENTAL;
  if (mode === "full_refresh" || mode === true) return Mode.FULL_REFRESH;
  if (mode === "full_refresh_and_clear_cache") return Mode.FULL_REFRESH_AND_CLEAR_CACHE;
  throw mistaken("syncMode: must be incremental, full_refresh or full_refresh_and_clear_cache");
}
