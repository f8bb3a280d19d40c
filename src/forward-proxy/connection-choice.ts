import { Fault } from "../base/fault.ts";
import type { Caller } from "../broker/setup/caller.ts";
import type { ProxyConnectionName } from "../data-plane/proxy/forwarding/forward-target.ts";
import type { RouteTable, TableRow } from "./route-tables.ts";

interface ChoiceInput {
  readonly caller: Caller;
  readonly table: RouteTable;
  /** `host[:port]`, for messages. */
  readonly authority: string;
  readonly path: string;
}

/** Most names that a message lists. */
const mostNamed = 10;

/**
 * Returns the connection that a request without a name is for: the only one of the integrations that the host and the
 * path fit best. Throws `unknown_connection`, or `ambiguous_connection` with the choices.
 */
export function chosenConnection({ caller, table, authority, path }: ChoiceInput): ProxyConnectionName {
  const all = table.rows.map((row) => withinLimits(row, caller));
  const allowed = all.filter((row) => row !== undefined);
  if (allowed.length === 0) refuseAll(caller);
  const rows = fittingRows(allowed, path);
  const names = rows.flatMap(({ integration, ids }) => ids.map((id) => ({ integration, id })));
  const [first] = names;
  const hasMore = rows.some((row) => row.hasMore);
  if (first === undefined) {
    const integrations = rows.map(({ integration }) => JSON.stringify(integration)).join(", ");
    throw new Fault(
      "unknown_connection",
      `no connection of ${integrations} has the host ${authority}; connect one first`,
    );
  }
  if (names.length === 1 && !hasMore) return first;
  const listed = names.slice(0, mostNamed).map(({ integration, id }) => `${integration}/${id}`);
  const more = hasMore || names.length > mostNamed ? " and more" : "";
  throw Fault.withoutStack(
    "ambiguous_connection",
    `${authority} fits several connections: ${listed.join(", ")}${more}; name one as the proxy's user name, as in http://${encodeURIComponent(listed[0] ?? "")}:<key>@host:port`,
  );
}

/**
 * Returns the row with the connections that the caller's limits name: a caller that is limited to one never has to name
 * it. Undefined if the limits name none of the integration's.
 */
function withinLimits(row: TableRow, { limits }: Caller): TableRow | undefined {
  if (limits?.integrations === undefined) return row;
  const { integration } = row;
  if (!limits.integrations.has(integration)) return undefined;
  const named = limits.given.connections.filter((one) => one.integration === integration).map(({ id }) => id);
  return named.includes("") ? row : { ...row, ids: [...new Set(named)], hasMore: false };
}

/** A limited caller gets the same refusal whether the host is that of another connection or of none. */
function refuseAll({ limits }: Caller): never {
  if (limits?.integrations === undefined) {
    throw new Fault("host_not_allowed", "no integration of this environment has that host");
  }
  throw new Fault("not_in_session", "the caller's limits include no connection with that host");
}

/** The rows whose base path is the longest that the path begins with; all rows if it begins with none. */
function fittingRows(rows: readonly TableRow[], path: string): readonly TableRow[] {
  const fitting = rows.filter(({ basePath }) => isUnder(path, basePath));
  if (fitting.length === 0) return rows;
  const longest = Math.max(...fitting.map(({ basePath }) => basePath.length));
  return fitting.filter(({ basePath }) => basePath.length === longest);
}

const isUnder = (path: string, base: string): boolean =>
  base === "" || (path.startsWith(base) && /^(?:$|[/?#])/.test(path.slice(base.length)));

/** Returns whether every path of the host leads to the same connection. */
export const isForAnyPath = ({ rows }: RouteTable): boolean =>
  rows.every(({ basePath }) => basePath === rows[0]?.basePath);
