import type { Command } from "commander";
import { scopeText } from "../../../core/policies/policy-rule.ts";
import { effectText, scopeOf } from "../../../core/policies/policy-rules.ts";
import {
  type AccessSession,
  type AccessSessionConnection,
  AccessSessionConnectionSchema,
  AccessSessionPolicySchema,
  AccessSessionService,
  AccessSessionToolUseSchema,
  ExplainAccessSessionResponseSchema,
} from "../../../gen/latchkey/v1/access_session_pb.ts";
import type { Act } from "../../session.ts";
import { escapeControl } from "../../terminal/escape-control.ts";
import { exitCodes } from "../../terminal/exit-codes.ts";
import { formatTime } from "../../terminal/format.ts";
import type { Output } from "../../terminal/output.ts";
import { scopeName } from "../scope-names.ts";

/** Adds `access-sessions explain`. */
export function addSessionExplain(group: Command, act: Act): void {
  group
    .command("explain")
    .argument("<id>", "id of the session")
    .summary("show what a session may do now, by its limits, key and policies; exit code 1 if it may do nothing")
    .action(
      act(async ({ client, output, environment }, id: string) => {
        const answer = await client(AccessSessionService).explainAccessSession({ environment, id });
        const { session, refusal, scopes, connections, policies } = answer;
        const code = refusal === "" ? exitCodes.ok : exitCodes.failed;
        if (output.json) {
          await output.one(ExplainAccessSessionResponseSchema, answer);
          return code;
        }
        await showConnections(output, connections);
        await output.line("");
        await output.many({
          schema: AccessSessionPolicySchema,
          none: "no policy is about its requests",
          pages: onePage(policies),
          columns: [
            { title: "POLICY", text: ({ policy }) => policy?.id ?? "" },
            { title: "EFFECT", text: ({ policy }) => effectText(policy?.effect ?? 0) ?? "" },
            { title: "ABOUT", text: ({ policy }) => scopeText(scopeOf(policy?.about)) },
            { title: "CONDITION", text: ({ policy }) => (policy?.condition ?? "").replace(/\s+/g, " ").trim() },
          ],
        });
        await output.line("");
        if (session !== undefined) await showUse(output, session);
        if (refusal !== "") await output.line(`${output.paint("bad", "may do nothing")}: ${escapeControl(refusal)}`);
        else await output.line(`scopes: ${scopes.map(scopeName).join(", ")}`);
        return code;
      }),
    );
}

const showConnections = (output: Output, connections: readonly AccessSessionConnection[]) =>
  output.many({
    schema: AccessSessionConnectionSchema,
    none: "no connections",
    pages: onePage(connections),
    columns: [
      { title: "CONNECTION", text: ({ integration, connection }) => `${integration}/${connection || "*"}` },
      { title: "HOSTS", text: ({ hosts }) => hosts.join(",") },
      { title: "METHODS", text: ({ methods }) => anyOf(methods) },
      { title: "PATHS", text: ({ paths }) => anyOf(paths) },
      { title: "TOOLS", text: ({ mcp, noTools, tools }) => (noTools ? "none" : mcp ? anyOf(tools) : "") },
      { title: "REFUSED", text: ({ refusal }) => refusal, tone: () => "bad" },
    ],
  });

/** Shows what is left of a session, and what it has done. */
async function showUse(output: Output, { expiresAt, budget, budgetLeft, use }: AccessSession): Promise<void> {
  if (expiresAt !== undefined) await output.line(`expires: ${formatTime(expiresAt)}`);
  if (budget > 0n) await output.line(`budget: ${budgetLeft ?? 0n} of ${budget} requests left`);
  if (use === undefined) {
    await output.line("no requests on this replica");
    return;
  }
  const { requests, refused, replica, tools } = use;
  await output.line(`requests on ${escapeControl(replica)}: ${requests}, refused: ${refused}`);
  if (tools.length === 0) return;
  await output.many({
    schema: AccessSessionToolUseSchema,
    none: "",
    pages: onePage(tools),
    columns: [
      { title: "TOOL", text: ({ tool }) => tool },
      { title: "INTEGRATION", text: ({ integration }) => integration },
      { title: "CALLS", text: ({ calls }) => String(calls) },
      { title: "REFUSED", text: ({ refused: count }) => String(count) },
      { title: "LAST", time: ({ lastCalledAt }) => lastCalledAt },
    ],
  });
}

const anyOf = (list: readonly string[]): string => (list.length === 0 ? "any" : list.join(","));

async function* onePage<T>(items: readonly T[]) {
  yield items;
}
