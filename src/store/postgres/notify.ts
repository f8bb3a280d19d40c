import { setTimeout as sleep } from "node:timers/promises";
import type { Log } from "../../base/log.ts";
import type { DedicatedConnection, PostgresConnections } from "./connections.ts";

/** Tells other processes that there is something to read, and hears it of them. A mere bell: missed, it is missed. */
export interface NotifyListener {
  ring(revision: number): void;
  /** Names the session that listens, for `hasEnded`; undefined while none does. */
  session(): string | undefined;
  /** Whether the server has no such session any more. */
  hasEnded(session: string): Promise<boolean>;
  close(): void;
}

interface NotifyListenerOptions {
  readonly connections: PostgresConnections;
  readonly storeId: string;
  readonly log: Log;
  readonly onRing: (revision: number) => void;
}

/** NOTIFY takes a lock that all databases of the server share, so one stands for many commits. */
const ringEveryMs = 20;
const listenAgainAfterMs = 500;
/** With the process id, it names a session for good: process ids come again. */
const startOf = "extract(epoch from backend_start)::text";

export function createNotifyListener({ connections, storeId, log, onRing }: NotifyListenerOptions): NotifyListener {
  const channel = `latchkey_${storeId.replaceAll("-", "")}`;
  const closing = new AbortController();
  let latest = 0;
  let timer: NodeJS.Timeout | undefined;
  let session: string | undefined;
  void listenOnAndOn();

  async function send(): Promise<void> {
    timer = undefined;
    try {
      // Nobody waits for it, so it need not wait for the disk.
      await connections.read("select set_config('synchronous_commit', 'off', true), pg_notify($1, $2)", [
        channel,
        String(latest),
      ]);
    } catch (err) {
      log.debug("other replicas could not be told of a commit at once", { err });
    }
  }

  /** Returns whether it is of use to try again. */
  async function listen(): Promise<boolean> {
    let connection: DedicatedConnection | undefined;
    try {
      connection = await connections.dedicate();
      const [row] = await connection.query<[pid: number, start: string | null]>(
        `select pg_backend_pid(), (select ${startOf} from pg_stat_activity where pid = pg_backend_pid())`,
      );
      if (row?.[0] !== connection.processId) {
        // It would listen on a connection that the next transaction of somebody else is given.
        log.info("PostgreSQL is reached through a pooler: commits of other replicas are heard of twice a second");
        return false;
      }
      connection.onNotification((payload) => onRing(Number(payload)));
      await connection.query(`listen ${channel}`);
      // A server that hides even our own start cannot tell this session from a later one with the same process id.
      if (row[1] !== null) session = `${connection.processId}/${row[1]}`;
      await connection.ended;
    } catch (err) {
      if (!closing.signal.aborted) log.debug("commits of other replicas are heard of twice a second for now", { err });
    } finally {
      session = undefined;
      await connection?.close();
    }
    return true;
  }

  async function listenOnAndOn(): Promise<void> {
    while (!closing.signal.aborted && (await listen())) {
      await sleep(listenAgainAfterMs * (1 + Math.random()), undefined, { signal: closing.signal }).catch(() => {});
    }
  }

  return {
    ring(revision) {
      latest = revision;
      timer ??= setTimeout(() => void send(), ringEveryMs);
    },
    session: () => session,
    async hasEnded(other) {
      const [pid, start = ""] = other.split("/");
      // The start of another role's session is hidden: then the process id alone says that it may still be there.
      const found = await connections.read(
        `select 1 from pg_stat_activity where pid = $1 and (backend_start is null or ${startOf} = $2)`,
        [Number(pid), start],
      );
      return found.length === 0;
    },
    close() {
      closing.abort();
      clearTimeout(timer);
    },
  };
}
