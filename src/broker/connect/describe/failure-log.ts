import type { Log } from "../../../base/log.ts";
import type { ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";

export interface DescribeFailureLog {
  warn(ref: ConnectionRef, failure: LoggedFailure): void;
}

interface LoggedFailure {
  readonly reason: string;
  readonly outcome: string;
}

const warnEveryMs = 60_000;
const maxRemembered = 1_000;

/** Logs one line a minute for each integration and reason: 100,000 connections may fail for the same reason. */
export function createFailureLog(log: Log): DescribeFailureLog {
  const warned = new Map<string, { at: number; more: number }>();
  return {
    warn(ref, { reason, outcome }) {
      const at = `${ref.environment}\0${ref.integration}\0${reason}\0${outcome}`;
      const last = warned.get(at);
      if (last !== undefined && performance.now() - last.at < warnEveryMs) {
        last.more += 1;
        return;
      }
      if (warned.size > maxRemembered) warned.clear();
      warned.set(at, { at: performance.now(), more: 0 });
      const next = outcome === "given_up" ? "giving up" : "will retry";
      log.warn(`provider did not describe an imported connection; ${next}`, {
        ...logFieldsOf(ref),
        reason,
        ...(last && last.more > 0 ? { not_logged: last.more } : {}),
      });
    },
  };
}

export const logFieldsOf = ({ environment, integration, id }: ConnectionRef) => ({
  environment,
  integration,
  connection: id,
});
