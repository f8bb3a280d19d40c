import { Fault } from "../../base/fault.ts";
import type { Tally } from "../../base/metrics/series.ts";
import type { World } from "../../base/world.ts";
import { decisionOf, type PolicyDecision, refusalText, refusingIds } from "../../core/policies/decisions.ts";
import type { PolicyMatch, Verdict } from "../../core/policies/policy-set.ts";
import type { GatedCaller, ScriptCaller } from "./gated-caller.ts";

/** Counts and logs what policies say. */
export interface VerdictNotes {
  /** Throws `denied_by_policy` unless the verdict allows or holds what was judged. */
  enforce(verdict: Verdict, judged: JudgedSubject): void;
}

/** What was judged, for the log. */
interface JudgedSubject {
  readonly caller: GatedCaller | ScriptCaller;
  readonly environment: string;
  readonly integration: string;
  readonly connection: string | undefined;
  /** Method of HTTP or of MCP. */
  readonly method: string;
}

/** A policy that logs is logged at most once in this time: it may match every request. */
const logEveryMs = 1_000;
const maxLogged = 1_000;

export function createVerdictNotes({ metrics, log, now }: World): VerdictNotes {
  const loggedAt = new Map<string, number>();
  const count = (decision: PolicyDecision) => metrics.policyDecisions.series({ decision });
  const counts: Readonly<Record<PolicyDecision, Tally>> = {
    allowed: count("allowed"),
    denied: count("denied"),
    denied_by_error: count("denied_by_error"),
    not_allowed: count("not_allowed"),
    held: count("held"),
    logged: count("logged"),
    log_failed: count("log_failed"),
  };

  function note(
    { rule, result }: PolicyMatch,
    { caller, environment, integration, connection, method }: JudgedSubject,
  ): void {
    counts[result === true ? "logged" : "log_failed"].add();
    const id = `${environment}\0${rule.id}`;
    const nowMs = now();
    const before = loggedAt.get(id);
    if (before !== undefined && Math.abs(nowMs - before) < logEveryMs) return;
    if (loggedAt.size >= maxLogged) loggedAt.clear();
    loggedAt.set(id, nowMs);
    log.info(result === true ? "a request matched a policy" : "a policy could not be evaluated", {
      policy: rule.id,
      ...("keyId" in caller ? { key: caller.keyId } : { script: caller.script }),
      environment,
      integration,
      connection,
      method,
      ...(typeof result !== "boolean" && { reason: result.message }),
    });
  }

  return {
    enforce(verdict, judged) {
      counts[decisionOf(verdict)].add();
      for (const match of verdict.logged) note(match, judged);
      const message = refusalText(verdict);
      if (message === undefined) return;
      throw new Fault("denied_by_policy", message, {
        metadata: { policies: refusingIds(verdict).slice(0, 10).join(",") },
      });
    },
  };
}
