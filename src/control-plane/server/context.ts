import type { HandlerContext } from "@connectrpc/connect";
import type { Caller } from "../../broker/setup/caller.ts";
import { callerKey } from "./gate.ts";

export function callerOf({ values }: HandlerContext): Caller {
  const caller = values.get(callerKey);
  if (caller === undefined) throw new Error("a method without a scope asks for its caller");
  return caller;
}

const defaultPageSize = 100;

/** Returns the page that a list request asks for. */
export const pageOf = ({ pageSize, pageToken }: { readonly pageSize: number; readonly pageToken: string }) => ({
  size: pageSize === 0 ? defaultPageSize : pageSize,
  token: pageToken,
});
