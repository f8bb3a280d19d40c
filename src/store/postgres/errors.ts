import { DatabaseError } from "pg";
import { StoreUnavailable } from "../contract.ts";

/** Raised by the commit functions. Classes from I on are free for applications (PostgreSQL manual, appendix A). */
export const sqlStates = { overdue: "LK001", moved: "LK002", lost: "LK003", vanished: "LK004" } as const;

const stateOf = (error: unknown): string | undefined => (error instanceof DatabaseError ? error.code : undefined);
const classOf = (error: unknown): string | undefined => stateOf(error)?.slice(0, 2);

/**
 * Reports whether the server is healthy and refused only this statement: its data, a limit, or a lock conflict. The
 * next statement may succeed.
 */
export const isOfStatement = (error: unknown): boolean => ["22", "23", "40", "54", "55"].includes(classOf(error) ?? "");

/** Reports whether the statement did not get a lock. */
export const isOfLock = (error: unknown): boolean => ["40", "55"].includes(classOf(error) ?? "");

/** Reports whether the connection broke or the server ended it: another connection may work. */
export const isBroken = (error: unknown): boolean =>
  !(error instanceof StoreUnavailable) && ["08", "57", undefined].includes(classOf(error));

/** Reports whether a retry would fail the same way: address, account, permissions, or the server's certificate. */
export const needsOperator = (error: unknown): boolean =>
  ["28", "3D", "3F", "42"].includes(classOf(error) ?? "") || isOfTls(error);

/**
 * Reports whether the server lost commits that this replica has seen: everything must be read again before the next
 * commit.
 */
export const isOfLostCommits = (error: unknown): boolean => stateOf(error) === sqlStates.lost;

/** Reports whether a page of a table or an index is damaged. */
export const isDamage = (error: unknown): boolean => ["XX001", "XX002"].includes(stateOf(error) ?? "");

export const isForbidden = (error: unknown): boolean => stateOf(error) === "42501";

/** Describes an error briefly for an operator. Neither pg nor PostgreSQL puts passwords into messages. */
export function reasonOf(error: unknown): string {
  // A name with several addresses, all of which failed.
  if (error instanceof AggregateError) return reasonOf(error.errors[0]);
  if (!(error instanceof Error)) return "unknown";
  // pg's "Query read timeout", and its message for a slow connection.
  if (!(error instanceof DatabaseError) && error.message.includes("timeout")) return "no answer in time";
  const state = stateOf(error);
  return state === undefined || Object.values<string>(sqlStates).includes(state)
    ? error.message
    : `${error.message} (SQLSTATE ${state})`;
}

/** Matches certificate errors of OpenSSL and Node (`X509_V_ERR_*`), and pg's error for a server without TLS. */
function isOfTls(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code = "" } = error as { readonly code?: string };
  return /CERT|SIGNATURE|_ISSUER|_TLS_|_SSL_/.test(code) || error.message.includes("SSL connection");
}
