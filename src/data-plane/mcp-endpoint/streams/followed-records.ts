import { Fault } from "../../../base/fault.ts";
import type { Broker } from "../../../broker/broker.ts";
import { requireConnectionWithin, requireRecordsWithin, requireScriptsWithin } from "../../../broker/setup/caller.ts";
import type { EndpointTool } from "../../../core/mcp-endpoint/tool.ts";
import { withConnection } from "../connection-choice.ts";
import type { EndpointCaller } from "../endpoint-caller.ts";
import { resourceAt } from "../resources.ts";
import { AccountNeeded } from "../tool-call.ts";
import type { ToolCatalog } from "../tool-catalog.ts";
import type { ToolGate } from "../tool-gate.ts";

/** A resource that changes with saved records, and which records these are. */
export interface FollowedResource {
  readonly uri: string;
  readonly scope: Parameters<Broker["records"]["watch"]>[0][number];
}

/** A caller, with the tools and resources that it has now. */
export interface ResourceReader {
  readonly caller: EndpointCaller;
  readonly catalog: ToolCatalog;
}

/** Returns what a URI names; undefined: nothing that changes with records, or that the caller may read. */
export type FindFollowed = (uri: string, reader: ResourceReader) => Promise<FollowedResource | undefined>;

interface FollowedServices {
  readonly broker: Pick<Broker, "connections" | "listing">;
  readonly gate: ToolGate;
}

export function createFindFollowed({ broker, gate }: FollowedServices): FindFollowed {
  return async (uri, { caller, catalog }) => {
    const { tool, given = {} } = resourceAt(catalog.resources, uri) ?? {};
    const model = tool && followedModel(tool);
    if (tool === undefined || tool.target.kind === "own" || model === undefined) return undefined;
    const { kind, integration } = tool.target;
    const { connection: asked } = given;
    const use = { call: { caller, noteConnection() {} }, integration, asked: asked as string | undefined };
    try {
      return await withConnection(broker, use, async (ref) => {
        if (kind === "records") requireRecordsWithin(caller.caller, ref, tool.name);
        else {
          requireConnectionWithin(caller.caller, ref);
          requireScriptsWithin(caller.caller, tool.name);
        }
        const message = { kind: "call", method: "resources/read", tool: tool.name, arguments: given } as const;
        const known = catalog.integrations.get(integration);
        const call = { message, caller, integration: known, becomesRequest: false, approval: "" };
        await gate.admit(call, (await broker.connections.get(ref)).value);
        return { uri, scope: { connection: ref, model, variant: "" } };
      });
    } catch (error) {
      if (error instanceof AccountNeeded || (error instanceof Fault && error.status < 500)) return undefined;
      throw error;
    }
  };
}

/** Returns the model whose records a resource changes with; undefined: it cannot be followed. */
export function followedModel({ target }: EndpointTool): string | undefined {
  if (target.kind === "records") return target.model;
  if (target.kind === "own") return undefined;
  const { mcp } = target.script;
  return mcp.kind === "resource" && mcp.follows !== "" ? mcp.follows : undefined;
}
