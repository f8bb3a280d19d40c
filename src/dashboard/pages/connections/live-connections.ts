import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Connection, WatchConnectionsResponse } from "../../../gen/latchkey/v1/connection_pb.ts";
import { msOf } from "../../data/format.ts";
import { useWatch, type WatchState } from "../../data/watch.ts";
import { connections } from "../../state/clients.ts";
import type { ConnectionCounts } from "./connection-counts.ts";
import type { ConnectionRows, ListedConnection } from "./connection-list.ts";

export interface LiveConnections {
  readonly state: WatchState;
  /** Connections that were created since the list was read. */
  readonly newCount: number;
  forgetNew(): void;
}

const applyMs = 250;
const topPx = 200;

/** Names a connection within its environment. */
export const nameOf = (ref: Connection["ref"]): string => `${ref?.integration}\0${ref?.id}`;

/** Changes rows in place, a few times a second at most; new connections are only counted, so that nothing moves. */
export function useLiveConnections(
  environment: string,
  rows: ConnectionRows,
  counts: ConnectionCounts,
  isOn: boolean,
): LiveConnections {
  const fresh = useRef(new Set<string>());
  const newCount = useSignal(0);
  const changed = useRef(new Map<string, Connection | undefined>());
  const since = useRef(Date.now());
  const planned = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const current = useRef({ rows, counts });
  current.current = { rows, counts };

  function apply(): void {
    planned.current = undefined;
    const changes = changed.current;
    changed.current = new Map();
    current.current.rows.edit((row) => {
      const name = nameOf(row.connection.ref);
      if (!changes.has(name)) return row;
      const connection = changes.get(name);
      return connection === undefined ? { ...row, isDeleted: true } : kept(row, connection);
    });
    current.current.counts.refresh();
    newCount.value = fresh.current.size;
  }

  function note({ event }: WatchConnectionsResponse): void {
    if (event.case === "put") {
      const name = nameOf(event.value.ref);
      changed.current.set(name, event.value);
      if ((msOf(event.value.createdAt) ?? 0) > since.current && fresh.current.size < 10_000) fresh.current.add(name);
    } else if (event.case === "deleted") {
      changed.current.set(nameOf(event.value.ref), undefined);
      fresh.current.delete(nameOf(event.value.ref));
    } else return;
    planned.current ??= setTimeout(apply, applyMs);
  }

  /** After a break, changes are missing. A person who reads further down keeps the rows. */
  function readAgain(): void {
    current.current.counts.refresh();
    if (window.scrollY < topPx) current.current.rows.reload();
  }

  useEffect(() => () => clearTimeout(planned.current), []);
  const state = useWatch(
    (signal) => connections.watchConnections({ environment, changesOnly: true }, { signal }),
    note,
    { isOn, dependencies: [environment], onReopen: readAgain },
  );
  return {
    state,
    newCount: newCount.value,
    forgetNew() {
      since.current = Date.now();
      fresh.current.clear();
      newCount.value = 0;
    },
  };
}

/** The watch does not know the time of the last use. */
const kept = (row: ListedConnection, { lastFetchedAt = row.connection.lastFetchedAt, ...connection }: Connection) => ({
  connection: { ...connection, ...(lastFetchedAt && { lastFetchedAt }) },
  isDeleted: false,
});
