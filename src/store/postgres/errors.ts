import { DatabaseError } from "pg";
import { StoreUnavailable } from "../contract.ts";

/** Raised by `commit_1`. Classes from I on are free for applications (PostgreSQL manual, appendix A). */
export const sqlStates = { overdue: "LK001", moved: "LK002", lost: "LK003" } as const;

const stateOf = (error: unknown): string | undefined => (error instanceof DatabaseError ? error.code : undefined);
const classOf = (error: unknown): string | undefined => stateOf(error)?.slice(0, 2);

/**
 * The server is well, it was this statement that it did not take: its data, a limit, or others who held what it
 * needed. The next one may fare better.
 */
export const isOfStatement = (error: unknown): boolean => ["22", "23", "40", "54", "55"].includes(classOf(error) ?? "");

/** The connection broke or the server ended it: another connection may do. */
export const isBroken = (error: unknown): boolean =>
  !(error instanceof StoreUnavailable) && ["08", "57", undefined].includes(classOf(error));

/** Trying again would end the same: the address, the account, what it may do, or the server's certificate. */
export const needsOperator = (error: unknown): boolean =>
  ["28", "3D", "3F", "42"].includes(classOf(error) ?? "") || isOfTls(error);

/** The server has lost commits that this replica has seen: it must read everything again before it commits. */
export const isOfLostCommits = (error: unknown): boolean => stateOf(error) === sqlStates.lost;

/** A page of a table or an index is not what the server wrote. */
export const isDamage = (error: unknown): boolean => ["XX001", "XX002"].includes(stateOf(error) ?? "");

export const isForbidden = (error: unknown): boolean => stateOf(error) === "42501";

/** In a few words, for an operator. Neither pg nor PostgreSQL puts a password into a message. */
export function reasonOf(error: unknown): string {
  // Of a name with several addresses, each tried in vain.
  if (error instanceof AggregateError) return reasonOf(error.errors[0]);
  if (!(error instanceof Error)) return "unknown";
  // pg's "Query read timeout", and what it says of a connection that took too long.
  if (!(error instanceof DatabaseError) && error.message.includes("timeout")) return "no answer in time";
  const state = stateOf(error);
  return state === undefined || Object.values<string>(sqlStates).includes(state)
    ? error.message
    : `${error.message} (SQLSTATE ${state})`;
}

/** As OpenSSL and Node name what is wrong with a certificate (`X509_V_ERR_*`), and pg a server without TLS. */
function isOfTls(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code = "" } = error as { readonly code?: string };
  return /CERT|SIGNATURE|_ISSUER|_TLS_|_SSL_/.test(code) || error.message.includes("SSL connection");
}
