import type { JsonObject } from "@bufbuild/protobuf";
import type { ActionScript, SyncScript } from "../scripts/script.ts";

/** Tools of our own, in the order of the list. */
export const ownTools = [
  "search_tools",
  "call_tool",
  "list_connections",
  "connect_account",
  "provider_request",
] as const;
export type OwnToolName = (typeof ownTools)[number];

/** What a tool does. */
export type ToolTarget =
  | { readonly kind: "own"; readonly tool: OwnToolName }
  | { readonly kind: "action"; readonly integration: string; readonly script: ActionScript }
  | {
      readonly kind: "records";
      readonly integration: string;
      readonly script: SyncScript;
      readonly model: string;
    };

export type ScriptToolTarget = Exclude<ToolTarget, { readonly kind: "own" }>;

export interface EndpointTool {
  readonly name: string;
  readonly target: ToolTarget;
  /** As `tools/list` shows it. */
  readonly shown: JsonObject;
}
