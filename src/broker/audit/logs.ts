import { create } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import { sequentialId } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import type { LogFieldValues } from "../../core/logs/log-fields.ts";
import { createLineCollector, keptLines, type LiveLines, linesFrom, type RawLine } from "../../core/logs/log-lines.ts";
import type { ScriptFailure } from "../../core/scripts/script.ts";
import { withoutSecrets } from "../../core/scripts/script-failure.ts";
import { createRedaction } from "../../core/secrets/redaction.ts";
import type { Environment } from "../../gen/latchkey/v1/environment_pb.ts";
import { type Log, type LogLine, LogSchema } from "../../gen/latchkey/v1/log_pb.ts";
import type { Change, Store } from "../../store/contract.ts";
import type { Records } from "../../store/records.ts";
import { namesNothing } from "../stored/name-tables.ts";
import { type BoundedPage, type PageOf, siftedPage } from "../stored/paging.ts";
import type { LogCollections } from "./log-collections.ts";
import { begunAt, type LogFilter, logMatcher, logSource } from "./log-filter.ts";

/** Subject of a log. */
export interface LogSubject {
  /** Operation name, such as `auth.refresh`: from a small set fixed in the code, never from a caller. */
  readonly operation: string;
  readonly environment: string;
  /** Empty if the log concerns no integration, or no connection. */
  readonly integration?: string;
  readonly connectionId?: string;
  /**
   * All secrets that may appear in the log: of the connection and of its integration. Code that learns another secret
   * calls `hide`.
   */
  readonly secrets: Iterable<string>;
}

/** Logs one operation, line by line, in memory; stores nothing before the end. */
export interface LogWriter {
  /** The `log_id`; ids sort by time. */
  readonly id: string;
  debug(sentence: string, fields?: LogFieldValues): void;
  info(sentence: string, fields?: LogFieldValues): void;
  warn(sentence: string, fields?: LogFieldValues): void;
  error(sentence: string, fields?: LogFieldValues): void;
  /**
   * Returns the failure shown beside the log, without the secrets that `hide` was told; the rest of the failure stays
   * unchanged.
   */
  redactedFailure(failure: ScriptFailure): ScriptFailure;
  /** Adds secrets that were not known at the start, such as a newly issued token. */
  hide(...secrets: readonly string[]): void;
  /** Returns the secrets known so far. */
  hidden(): readonly string[];
  /**
   * Returns the lines from a position on, for a live view: without the secrets known so far, and those of `hidden`. Not
   * all lines are kept: `missed` says how many are gone, between the position and the first returned line.
   */
  linesFrom(position: number, hidden: Iterable<string>): LiveLines;
  /** Calls back after each new line. Returns a function that ends this. */
  onLine(listener: () => void): () => void;
  /** Adds our own names, ids and hashes, which stay readable although they look like tokens. */
  show(...known: readonly string[]): void;
  /** Returns the log as of now. A retried commit may call `end` again. */
  end(outcome: LogOutcome): EndedLog;
}

export interface LogOutcome {
  readonly failed: boolean;
  /** Lines appended after all others, each time the log is ended. */
  readonly last?: readonly Omit<RawLine, "atMs">[];
}

export interface EndedLog {
  readonly id: string;
  /** Lines as they are stored: without secrets, and bounded. */
  readonly lines: readonly LogLine[];
  /** Returns the log for the commit of the operation it describes, so that neither exists alone. */
  changes(): Change[];
  /** Stores the log in a commit of its own. */
  write(): Promise<void>;
}

export interface Logs {
  begin(subject: LogSubject): LogWriter;
  get(at: { readonly environment: string; readonly id: string }): Promise<Log>;
  find(at: { readonly environment: string; readonly id: string }): Promise<Log | undefined>;
  list(filter: LogFilter, page: BoundedPage): Promise<PageOf<Log>>;
}

/** The logs, and the environments that they belong to. */
export type LogStore = LogCollections & { readonly environments: Records<Environment> };

/** Logs whose texts are searched in one go; other work runs in between. */
const searchedAtOnce = 25;

interface LogsOptions {
  readonly store: Store;
  readonly collections: LogStore;
  readonly world: World;
}

export function createLogs({ store, collections, world }: LogsOptions): Logs {
  const { logs } = collections;

  async function find({ environment, id }: { readonly environment: string; readonly id: string }) {
    const beginning = await beginningOf(environment, collections);
    const found = beginning === undefined || namesNothing(id) ? undefined : await logs.get(environment, id);
    return found === undefined || begunAt(found.value) < (beginning ?? 0) ? undefined : found.value;
  }

  return {
    begin: (subject) => createWriter(subject, { store, collections, world }),
    find,
    async get({ environment, id }) {
      const found = await find({ environment, id });
      if (found === undefined) throw new Fault("not_found", `there is no log "${id}"; it may have been deleted`);
      return found;
    },
    async list(filter, { size, token, maxBytes }) {
      const { environment, integration, connectionId, operation, sinceMs = 0, text = "" } = filter;
      const beginning = await beginningOf(environment, collections);
      const isNone = beginning === undefined || namesNothing(integration, connectionId, operation);
      const { read, start } = logSource(collections, filter);
      const firstMs = Math.max(beginning ?? 0, sinceMs);
      return siftedPage({
        question: ["logs", filter],
        page: { size, token },
        read: isNone ? () => Promise.resolve([]) : read,
        start,
        isWanted: logMatcher(filter),
        isPast: (log) => begunAt(log) < firstMs,
        maxBytes,
        ...(text !== "" && { chunk: searchedAtOnce }),
      });
    },
  };
}

function createWriter(subject: LogSubject, { store, collections, world }: LogsOptions): LogWriter {
  const beganMs = world.now();
  const id = sequentialId(beganMs);
  const secrets = new Set(subject.secrets);
  const { environment, integration = "", connectionId = "" } = subject;
  const known = new Set([id, environment, integration, connectionId]);
  const collector = createLineCollector();
  /** Lines that the end appended. */
  let behind: readonly RawLine[] = [];
  /** Created with the first listener: most logs never have one. */
  let listeners: Set<() => void> | undefined;
  const at =
    (level: RawLine["level"]) =>
    (sentence: string, fields: LogFieldValues = {}) => {
      collector.add({ atMs: world.now(), level, sentence, fields });
      if (listeners !== undefined) for (const listener of listeners) listener();
    };

  return {
    id,
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    redactedFailure: (failure) =>
      secrets.size === 0 ? failure : withoutSecrets(failure, createRedaction(secrets, known, { guesses: false })),
    hide(...more) {
      for (const secret of more) secrets.add(secret);
    },
    hidden: () => [...secrets],
    linesFrom(position, hidden) {
      const { head, tail, count } = collector;
      const all = { head, tail: [...tail, ...behind], count: count + behind.length };
      return linesFrom(all, position, () => createRedaction(new Set([...secrets, ...hidden]), known));
    },
    onLine(listener) {
      listeners ??= new Set();
      listeners.add(listener);
      return () => listeners?.delete(listener);
    },
    show(...more) {
      for (const one of more) known.add(one);
    },
    end({ failed, last = [] }) {
      behind = last.map((line) => ({ ...line, atMs: world.now() }));
      // Redact at the end: a secret that became known late is then redacted in the first line as well.
      const { head, tail, isTruncated } = collector;
      const kept = keptLines({ head, tail: [...tail, ...behind], isTruncated }, createRedaction(secrets, known));
      const log = create(LogSchema, {
        id,
        environment,
        integration,
        connectionId,
        operation: subject.operation,
        failed,
        lines: kept.lines,
        createdAt: timestampFromMs(beganMs),
        truncated: kept.isTruncated,
      });
      const changes = () => collections.logs.change({ before: undefined, after: log });
      return {
        id,
        lines: kept.lines,
        changes,
        async write() {
          await store.commit(changes());
        },
      };
    },
  };
}

/**
 * Returns when an environment was created; undefined if there is none. Hides the logs of a deleted environment from a
 * new environment of the same name.
 */
async function beginningOf(
  environment: string,
  { environments }: Pick<LogStore, "environments">,
): Promise<number | undefined> {
  const found = namesNothing(environment) ? undefined : await environments.get(environment);
  if (found === undefined) return undefined;
  return found.value.createdAt === undefined ? 0 : timestampMs(found.value.createdAt);
}
