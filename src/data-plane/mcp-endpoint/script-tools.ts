import type { JsonValue } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import { requireRecordsWithin, requireScriptsWithin, spendRequest } from "../../broker/setup/caller.ts";
import { faultOfAction } from "../../broker/syncs/actions.ts";
import { readInstantOrDate } from "../../core/dialect/instant.ts";
import { ContentMistake, readToolContent } from "../../core/mcp-endpoint/content.ts";
import type { ScriptToolTarget } from "../../core/mcp-endpoint/tool.ts";
import { connectionArgument, maxRecords, readActionArguments } from "../../core/mcp-endpoint/tool-schemas.ts";
import { recordActions } from "../../core/scripts/record-change.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import { recordJson } from "../api/record-routes.ts";
import { requireLiveGrant, withConnection } from "./connection-choice.ts";
import { argumentMistake, type CalledTool, ToolArguments, type ToolResult } from "./tool-call.ts";

type TargetOf<K extends ScriptToolTarget["kind"]> = Extract<ScriptToolTarget, { readonly kind: K }>;

/** Runs an action. */
export async function callAction(
  broker: Broker,
  { integration, script }: TargetOf<"action">,
  call: CalledTool,
): Promise<ToolResult> {
  const { connection: asked, input } = readActionArguments(call.given, script.input);
  if (asked !== undefined && typeof asked !== "string") throw argumentMistake(connectionArgument, "must be text");
  requireScriptsWithin(call.caller.caller, call.name);
  return withConnection(broker, { call, integration, asked: asked === "" ? undefined : asked }, async (ref) => {
    await requireAccount(broker, ref);
    const client = call.dialog.clientFor(ref.id);
    await call.admit({ integration, ref, spend: () => spendRequest(call.caller.caller) });
    const { noteProgress, noteLine, ended } = call.watch;
    const { run, outcome } = await broker.actions.run(
      { ref, name: script.name, input },
      { noteProgress, noteLine: noteLine && ((line) => noteLine(line, call.name)), signal: ended(), client },
    );
    if (outcome.kind === "done") return actionResult(script, outcome.output ?? null);
    call.dialog.requireAnswered();
    await requireLiveGrant(broker.connections, ref);
    throw faultOfAction(outcome.failure, run.id);
  });
}

function actionResult({ mcp }: TargetOf<"action">["script"], value: JsonValue): ToolResult {
  if (mcp.kind !== "tool" || mcp.answers === "output") return { value };
  const content = contentOf(() => readToolContent(value));
  return { value, content, ...(content.isError && { isError: true }) };
}

/** Returns what a script has answered with. Throws a Fault that tells its author what is wrong. */
export function contentOf<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof ContentMistake)) throw error;
    throw new Fault("script_failed", `the answer of the script is not valid: ${error.message}`, {
      metadata: { reason: "invalid_output" },
    });
  }
}

/** Throws if the account must be connected again: the script would fail halfway. */
async function requireAccount({ live }: Broker, ref: ConnectionRef): Promise<void> {
  try {
    await live.get(ref);
  } catch (error) {
    if (error instanceof Fault && error.code === "reauthorization_required") throw error;
  }
}

const defaultRecords = 20;
/** Limits what one page brings into the context of a model. */
const maxPageBytes = 1024 * 1024;

/** Lists a page of the records of a model. */
export async function listRecords(
  { records, listing, connections }: Broker,
  { integration, model }: TargetOf<"records">,
  call: CalledTool,
): Promise<ToolResult> {
  const given = new ToolArguments(call.given);
  const cursor = given.text("cursor");
  const limit = given.integer("limit", { max: maxRecords, fallback: defaultRecords });
  const modifiedAfterMs = instantOf(given.text("modified_after"));
  const actions = actionsOf(given);
  const asked = given.text(connectionArgument);
  given.end();
  return withConnection({ listing, connections }, { call, integration, asked }, async (ref) => {
    requireRecordsWithin(call.caller.caller, ref, call.name);
    await call.admit({ integration, ref, spend: () => spendRequest(call.caller.caller) });
    const filter = { cursor: cursor ?? "", limit, actions, modifiedAfterMs, ids: [], maxBytes: maxPageBytes };
    const { records: found, next } = await records.list({ connection: ref, model, variant: "" }, filter);
    return { value: { records: found.map(recordJson), next_cursor: next === "" ? null : next } };
  });
}

function instantOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const ms = readInstantOrDate(text);
  if (ms === undefined) throw argumentMistake("modified_after", "must be a time such as 2026-11-26T12:00:00Z");
  return ms;
}

function actionsOf(given: ToolArguments) {
  const names = given.value("filter") ?? [];
  const known = Array.isArray(names)
    ? names.map((name) => recordActions.find((action) => action.toLowerCase() === name))
    : [undefined];
  return known.map((action) => {
    if (action === undefined) throw argumentMistake("filter", "must be a list of added, updated and deleted");
    return action;
  });
}
