import { setTimeout as sleep } from "node:timers/promises";
import type { Log } from "../../../base/log.ts";
import type { DedicatedConnection, PostgresConnections, SqlQuery } from "../connections.ts";

/**
 * Notifies other processes of commits, and receives their notifications. Delivery is best effort: a missed notification
 * is not repeated.
 */
export interface NotifyListener {
  ring(revision: number): void;
  isListening(): boolean;
  /** Listens on another connection: notifications are missing on this one. */
  listenAgain(): void;
  /** ID of the listening session, for `hasEnded`; undefined while there is none. */
  session(): string | undefined;
  /** Reports whether the session no longer exists on the server. */
  hasEnded(session: string): Promise<boolean>;
  close(): void;
}

interface NotifyListenerOptions {
  readonly connections: PostgresConnections;
  readonly storeId: string;
  readonly log: Log;
  readonly onRing: (revision: number) => void;
  /** Listening ended: no notifications come until it begins again. */
  readonly onEnded: () => void;
}

/** Interval of notifications. NOTIFY takes a lock shared by all databases of the server, so one covers many commits. */
const ringEveryMs = 20;
const listenAgainAfterMs = 500;
/** Start time, which with the process ID identifies a session uniquely: process IDs are reused. */
const startOf = "extract(epoch from backend_start)::text";

export function createNotifyListener(options: NotifyListenerOptions): NotifyListener {
  const { connections, storeId, log, onRing, onEnded } = options;
  const channel = `latchkey_${storeId.replaceAll("-", "")}`;
  const closing = new AbortController();
  let listener: DedicatedConnection | undefined;
  let session: string | undefined;
  const ringer = createRinger({
    // The listening connection has nothing else to do.
    query: (text, values) => (listener?.query ?? connections.readLong)(text, values),
    channel,
    log,
  });
  void listenUntilClosed();

  /** Returns whether a retry makes sense. */
  async function listen(): Promise<boolean> {
    let connection: DedicatedConnection | undefined;
    try {
      connection = await connections.dedicate();
      const [row] = await connection.query<[pid: number, start: string | null]>(
        `select pg_backend_pid(), (select ${startOf} from pg_stat_activity where pid = pg_backend_pid())`,
      );
      if (row?.[0] !== connection.processId) {
        // Behind a pooler, LISTEN would apply to a connection that is handed to other clients.
        log.info("PostgreSQL is behind a pooler; reading commits of other replicas twice a second");
        return false;
      }
      connection.onNotification((payload) => onRing(Number(payload)));
      await connection.query(`listen ${channel}`);
      // If the server hides even our own start time, this session cannot be told from a later one with the same process
      // ID.
      if (row[1] !== null) session = `${connection.processId}/${row[1]}`;
      listener = connection;
      await connection.ended;
    } catch (err) {
      if (!closing.signal.aborted)
        log.debug("could not listen for commits of other replicas; reading them twice a second", { err });
    } finally {
      session = undefined;
      if (listener !== undefined && !closing.signal.aborted) onEnded();
      listener = undefined;
      await connection?.close();
    }
    return true;
  }

  async function listenUntilClosed(): Promise<void> {
    while (!closing.signal.aborted && (await listen())) {
      await sleep(listenAgainAfterMs * (1 + Math.random()), undefined, { signal: closing.signal }).catch(() => {});
    }
  }

  return {
    ring: ringer.ring,
    isListening: () => listener !== undefined,
    listenAgain() {
      log.info("PostgreSQL's notifications of commits do not arrive; listening on another connection");
      void listener?.close();
    },
    session: () => session,
    async hasEnded(other) {
      const [pid, start = ""] = other.split("/");
      // The start time of another role's session is hidden: then only the process ID shows that it may still exist.
      const found = await connections.read(
        `select 1 from pg_stat_activity where pid = $1 and (backend_start is null or ${startOf} = $2)`,
        [Number(pid), start],
      );
      return found.length === 0;
    },
    close() {
      closing.abort();
      ringer.close();
    },
  };
}

interface RingerOptions {
  readonly query: SqlQuery;
  readonly channel: string;
  readonly log: Log;
}

/** Sends notifications one at a time: on a slow connection they would wait in a row, all for the last one's news. */
function createRinger({ query, channel, log }: RingerOptions) {
  let latest = 0;
  /** The latest revision that was sent. */
  let sent = 0;
  let sentAt = Number.NEGATIVE_INFINITY;
  let isSending = false;
  let isClosed = false;
  let timer: NodeJS.Timeout | undefined;

  function sendSoon(): void {
    if (isSending || isClosed) return;
    timer ??= setTimeout(() => void send(), Math.max(0, sentAt + ringEveryMs - performance.now()));
  }

  async function send(): Promise<void> {
    timer = undefined;
    isSending = true;
    sent = latest;
    sentAt = performance.now();
    try {
      // No caller waits for the notification, so it need not be synced to disk.
      await query("select set_config('synchronous_commit', 'off', true), pg_notify($1, $2)", [channel, String(sent)]);
    } catch (err) {
      log.debug("could not notify other replicas of a commit; they read it within half a second", { err });
    }
    isSending = false;
    if (latest > sent) sendSoon();
  }

  return {
    ring(revision: number): void {
      latest = revision;
      sendSoon();
    },
    close(): void {
      isClosed = true;
      clearTimeout(timer);
    },
  };
}
