import { createHash } from "node:crypto";
import { Fault } from "../../base/fault.ts";

/**
 * Position where a page ended, with a hash of the query: a token of another filter is rejected instead of answered with
 * a wrong page. The token reveals only what its reader has seen.
 */
export interface PageTokens {
  write(position: string): string;
  /** Returns undefined for the first page. */
  read(token: string): string | undefined;
}

const hashBytes = 8;

/**
 * Creates the tokens for lists with the same query. `question` is everything that decides the items and their order.
 */
export function pageTokens(question: unknown): PageTokens {
  const hash = createHash("sha256").update(JSON.stringify(question)).digest().subarray(0, hashBytes);
  return {
    write: (position) => Buffer.concat([hash, Buffer.from(position)]).toString("base64url"),
    read(token) {
      if (token === "") return undefined;
      const bytes = Buffer.from(token, "base64url");
      if (bytes.toString("base64url") !== token || !bytes.subarray(0, hashBytes).equals(hash)) {
        const message = "the page token must come from a page of the same list with the same filters";
        throw new Fault("invalid_query_params", message, { mistakes: [{ path: ["cursor"], message }] });
      }
      return bytes.subarray(hashBytes).toString();
    },
  };
}
