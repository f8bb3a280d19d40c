import { useSignal } from "@preact/signals";
import { type Connection, ListConnectionsRequest_Order as Order } from "../../../gen/latchkey/v1/connection_pb.ts";
import { type RowWindow, useRowWindow } from "../../data/row-window.ts";
import { connections } from "../../state/clients.ts";
import { environmentName } from "../../state/environment.ts";
import { type AddressFilter, filterOfAddress } from "./connection-filters.tsx";

/** A connection of the list; it stays in its place when it is deleted. */
export interface ListedConnection {
  readonly connection: Connection;
  readonly isDeleted: boolean;
}

export interface ConnectionRows extends RowWindow<ListedConnection> {
  /** Number of connections that match, if known. */
  readonly total: number | undefined;
  readonly isNewestFirst: boolean;
  /** A search looked at about as many connections so far. */
  readonly lookedAt: number;
}

export const rowsPerPage = 100;
/** A search looks at this many connections in a call. */
const perCall = 2_000;
/** Calls for one page of a search before the person is shown what was found. */
const callsPerPage = 25;

/** The connections that the filters of the address match, newest first where Latchkey can. */
export function useConnectionRows(): ConnectionRows {
  const environment = environmentName.value;
  const filter = filterOfAddress();
  const total = useSignal<number | undefined>(undefined);
  const isNewestFirst = useSignal(true);
  const lookedAt = useSignal(0);
  const rows = useRowWindow<ListedConnection>(
    async (pageToken, signal) => {
      if (pageToken === "") lookedAt.value = 0;
      const found: ListedConnection[] = [];
      let token = pageToken;
      for (let call = 0; call < callsPerPage; call += 1) {
        const page = await connections.listConnections(
          { environment, filter, order: Order.NEWEST_FIRST, pageSize: rowsPerPage - found.length, pageToken: token },
          { signal },
        );
        found.push(...page.connections.map((connection) => ({ connection, isDeleted: false })));
        token = page.nextPageToken;
        total.value = page.totalSize;
        isNewestFirst.value = page.order === Order.NEWEST_FIRST;
        if (token === "" || found.length >= rowsPerPage) break;
        lookedAt.value += perCall;
      }
      return { items: found, nextPageToken: token };
    },
    [environment, JSON.stringify(filter)],
  );
  return { ...rows, total: total.value, isNewestFirst: isNewestFirst.value, lookedAt: lookedAt.value };
}

/** Reads all connections that match, up to a limit: for work over all of them. */
export async function readMatching(
  environment: string,
  filter: AddressFilter,
  {
    most,
    onRead,
    signal,
  }: { readonly most: number; readonly onRead?: (count: number) => void; readonly signal: AbortSignal },
): Promise<readonly Connection[]> {
  const found: Connection[] = [];
  let pageToken = "";
  do {
    const page = await connections.listConnections({ environment, filter, pageSize: 1_000, pageToken }, { signal });
    found.push(...page.connections);
    pageToken = page.nextPageToken;
    onRead?.(found.length);
  } while (pageToken !== "" && found.length < most);
  return found.slice(0, most);
}
