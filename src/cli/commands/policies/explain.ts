import type { Command } from "commander";
import { scopeText } from "../../../core/policies/policy-rule.ts";
import { effectText, scopeOf } from "../../../core/policies/policy-rules.ts";
import {
  ExplainPoliciesResponseSchema,
  PolicyOutcome,
  PolicyResultSchema,
  PolicyService,
} from "../../../gen/latchkey/v1/policy_pb.ts";
import type { Act } from "../../session.ts";
import { escapeControl } from "../../terminal/escape-control.ts";
import { exitCodes } from "../../terminal/exit-codes.ts";
import { listed } from "../../terminal/option-values.ts";
import { UsageMistake } from "../../terminal/usage-mistake.ts";

interface ExplainedRequest {
  readonly connection: string;
  readonly method: string;
  readonly path: string;
  readonly header?: readonly string[];
  readonly body?: string;
  readonly keyId?: string;
  readonly accessSession?: string;
}

/** Adds `policies explain`. */
export function addExplain(group: Command, act: Act): void {
  group
    .command("explain")
    .summary("show what the policies in force say about a request; exit code 1 if it is refused or held")
    .requiredOption("--connection <integration/id>", "connection whose credentials the request would carry")
    .option("--method <method>", "HTTP method", "GET")
    .requiredOption("--path <path>", "path and query at the provider, as after /proxy")
    .option("--header <name: value>", "header of the request; repeatable", listed)
    .option("--body <json>", "body of the request")
    .option("--key-id <id>", "key that would send the request (default: that of this command)")
    .option("--access-session <id>", "access session that would send the request")
    .action(
      act(async ({ client, output, environment }, given: ExplainedRequest) => {
        const answer = await client(PolicyService).explainPolicies({
          connection: { environment, ...connectionOf(given.connection) },
          method: given.method,
          path: given.path,
          headers: Object.fromEntries((given.header ?? []).map(headerOf)),
          body: Buffer.from(given.body ?? ""),
          key: given.keyId ?? "",
          accessSession: given.accessSession ?? "",
        });
        const isAllowed = answer.outcome === PolicyOutcome.ALLOWED;
        if (output.json) await output.one(ExplainPoliciesResponseSchema, answer);
        else {
          async function* pages() {
            yield answer.policies;
          }
          await output.many({
            schema: PolicyResultSchema,
            none: "no policy is about this request",
            pages: pages(),
            columns: [
              { title: "POLICY", text: ({ policy }) => policy?.id ?? "" },
              { title: "EFFECT", text: ({ policy }) => effectText(policy?.effect ?? 0) ?? "" },
              { title: "ABOUT", text: ({ policy }) => scopeText(scopeOf(policy?.about)) },
              {
                title: "RESULT",
                text: ({ matched, error }) => (error !== "" ? "error" : matched ? "match" : "no match"),
              },
              { title: "ERROR", text: ({ error }) => error },
            ],
          });
          const isHeld = answer.outcome === PolicyOutcome.HELD;
          const outcome = isAllowed
            ? output.paint("good", "allowed")
            : output.paint("bad", isHeld ? "held for approval" : "refused");
          await output.line(`${outcome}: ${escapeControl(answer.reason)}`);
        }
        return isAllowed ? exitCodes.ok : exitCodes.failed;
      }),
    );
}

function connectionOf(text: string): { readonly integration: string; readonly id: string } {
  const at = text.indexOf("/");
  if (at <= 0 || at === text.length - 1) throw new UsageMistake("--connection must be INTEGRATION/ID");
  return { integration: text.slice(0, at), id: text.slice(at + 1) };
}

function headerOf(text: string): readonly [string, string] {
  const at = text.indexOf(":");
  if (at <= 0) throw new UsageMistake("--header must be NAME: VALUE");
  return [text.slice(0, at).trim(), text.slice(at + 1).trim()];
}
