import { create } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import { sequentialId } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import type { LogFieldValues } from "../../core/logs/log-fields.ts";
import { createLineCollector, keptLines, type RawLine } from "../../core/logs/log-lines.ts";
import type { ScriptFailure } from "../../core/scripts/script.ts";
import { withoutSecrets } from "../../core/scripts/script-failure.ts";
import { createRedaction } from "../../core/secrets/redaction.ts";
import { type Log, type LogLine, LogSchema } from "../../gen/latchkey/v1/log_pb.ts";
import type { Change, Store } from "../../store/contract.ts";
import type { PageRequest, PositionedRecord } from "../../store/records.ts";
import type { Collections } from "../collections.ts";
import { namesNothing } from "../stored/name-tables.ts";
import { type BoundedPage, type PageOf, siftedPage } from "../stored/paging.ts";

/** What a log is about. */
export interface LogSubject {
  /** What is done, such as `auth.refresh`: of a few words that the code names, never of a caller's. */
  readonly operation: string;
  readonly environment: string;
  /** Empty: of no integration, of no connection. */
  readonly integration?: string;
  readonly connectionId?: string;
  /** Every secret that may come up: of the connection, of its integration. Whoever learns of another hides it. */
  readonly secrets: Iterable<string>;
}

/** Tells one operation, line by line, in memory; nothing is stored before its end. */
export interface LogWriter {
  /** The `log_id`: sorts by time. */
  readonly id: string;
  debug(sentence: string, fields?: LogFieldValues): void;
  info(sentence: string, fields?: LogFieldValues): void;
  warn(sentence: string, fields?: LogFieldValues): void;
  error(sentence: string, fields?: LogFieldValues): void;
  /** A failure that is shown beside it, without the secrets that it was told to hide; the rest of it is left as it is. */
  redactedFailure(failure: ScriptFailure): ScriptFailure;
  /** Secrets that were not known when it began, such as a token that has just come. */
  hide(...secrets: readonly string[]): void;
  /** Names, ids and hashes of ours, which are shown though they look like tokens. */
  show(...known: readonly string[]): void;
  /** As it stands now. A commit that is decided anew may end it again. */
  end(outcome: LogOutcome): EndedLog;
}

export interface LogOutcome {
  readonly failed: boolean;
  /** Said behind all others, each time it is ended. */
  readonly last?: readonly Omit<RawLine, "atMs">[];
}

export interface EndedLog {
  readonly id: string;
  /** As they are stored: without secrets, and bounded. */
  readonly lines: readonly LogLine[];
  /** For the commit of what it tells of, so that neither is there alone. */
  changes(): Change[];
  /** A commit of its own. */
  write(): Promise<void>;
}

export interface LogFilter {
  readonly environment: string;
  readonly integration: string;
  readonly connectionId: string;
  readonly operation: string;
  readonly failed: boolean;
}

export interface Logs {
  begin(subject: LogSubject): LogWriter;
  get(at: { readonly environment: string; readonly id: string }): Promise<Log>;
  list(filter: LogFilter, page: BoundedPage): Promise<PageOf<Log>>;
}

interface LogsOptions {
  readonly store: Store;
  readonly collections: Collections;
  readonly world: World;
}

export function createLogs({ store, collections, world }: LogsOptions): Logs {
  const { logs } = collections;

  return {
    begin: (subject) => createWriter(subject, { store, collections, world }),
    async get({ environment, id }) {
      const beginning = await beginningOf(environment, collections);
      const found = beginning === undefined || namesNothing(id) ? undefined : await logs.get(environment, id);
      if (found === undefined || begunAt(found.value) < (beginning ?? 0)) {
        throw new Fault("not_found", `there is no log "${id}", or not any more`);
      }
      return found.value;
    },
    async list(filter, { size, token, maxBytes }) {
      const { environment, integration, connectionId, operation } = filter;
      const beginning = await beginningOf(environment, collections);
      const isNone = beginning === undefined || namesNothing(integration, connectionId, operation);
      return siftedPage({
        question: ["logs", filter],
        page: { size, token },
        read: isNone ? () => Promise.resolve([]) : sourceOf(collections, filter),
        isWanted: (log) => matches(log, filter),
        isPast: (log) => begunAt(log) < (beginning ?? 0),
        maxBytes,
      });
    },
  };
}

/** The narrowest way there is to what is asked for, the newest first. */
function sourceOf({ logs }: Collections, filter: LogFilter) {
  const { environment, integration, connectionId, operation, failed } = filter;
  const by =
    (index: "connection" | "integration" | "operation" | "failed", under: readonly string[]) =>
    (request: Pick<PageRequest, "after" | "limit">): Promise<readonly PositionedRecord<Log>[]> =>
      logs.pageBy(index, { under, reverse: true, ...request });
  if (integration !== "" && connectionId !== "") return by("connection", [environment, integration, connectionId]);
  if (integration !== "") return by("integration", [environment, integration]);
  if (failed) return by("failed", [environment]);
  if (operation !== "") return by("operation", [environment, operation]);
  return (request: Pick<PageRequest, "after" | "limit">) =>
    logs.page({ under: [environment], reverse: true, ...request });
}

const matches = (log: Log, { integration, connectionId, operation, failed }: LogFilter): boolean =>
  (integration === "" || log.integration === integration) &&
  (connectionId === "" || log.connectionId === connectionId) &&
  (operation === "" || log.operation === operation) &&
  (!failed || log.failed);

export const begunAt = ({ createdAt }: Log): number => (createdAt === undefined ? 0 : timestampMs(createdAt));

function createWriter(subject: LogSubject, { store, collections, world }: LogsOptions): LogWriter {
  const beganMs = world.now();
  const id = sequentialId(beganMs);
  const secrets = new Set(subject.secrets);
  const { environment, integration = "", connectionId = "" } = subject;
  const known = new Set([id, environment, integration, connectionId]);
  const collector = createLineCollector();
  const at =
    (level: RawLine["level"]) =>
    (sentence: string, fields: LogFieldValues = {}) =>
      collector.add({ atMs: world.now(), level, sentence, fields });

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
    show(...more) {
      for (const one of more) known.add(one);
    },
    end({ failed, last = [] }) {
      const behind = last.map((line) => ({ ...line, atMs: world.now() }));
      // Blanked at the end: a secret that became known late is blanked in the first line as well.
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
 * When an environment was made; undefined: there is none. Of one that was deleted, and made again under its name,
 * nothing comes back.
 */
async function beginningOf(
  environment: string,
  { environments }: Pick<Collections, "environments">,
): Promise<number | undefined> {
  const found = namesNothing(environment) ? undefined : await environments.get(environment);
  if (found === undefined) return undefined;
  return found.value.createdAt === undefined ? 0 : timestampMs(found.value.createdAt);
}
