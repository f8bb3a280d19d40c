import type { CelList, CelMap } from "@bufbuild/cel";
import type { EvaluationFailure, EvaluationResult } from "./values.ts";
import type { PolicyVariable } from "./variables.ts";

/** The headers of a request: looked up by name, or as a map. Names are in lower case. */
export interface HeaderFacts {
  get(name: string): string | undefined;
  readonly map: CelMap;
}

/** The values of a request that conditions read. Those that take work are made when the first condition reads them. */
export interface RequestFacts {
  readonly method: string | EvaluationFailure;
  readonly host: string | EvaluationFailure;
  readonly path: string | EvaluationFailure;
  readonly rawPath: string | EvaluationFailure;
  readonly query: CelMap | EvaluationFailure;
  readonly headers: HeaderFacts | EvaluationFailure;
  readonly body: EvaluationResult;
  readonly size: bigint | EvaluationFailure;
  readonly time: EvaluationResult;
  readonly mcpMethod: string | EvaluationFailure;
  readonly mcpTool: string | EvaluationFailure;
  readonly mcpArguments: EvaluationResult;
  readonly callerKey: string | EvaluationFailure;
  readonly callerSession: string | EvaluationFailure;
  readonly callerIdentity: CelMap | EvaluationFailure;
  readonly callerScript: string | EvaluationFailure;
  readonly callerScopes: CelList | EvaluationFailure;
  readonly integrationKey: string | EvaluationFailure;
  readonly integrationProvider: string | EvaluationFailure;
  readonly integrationEnvironment: string | EvaluationFailure;
  readonly connectionId: string | EvaluationFailure;
  readonly connectionTags: CelMap | EvaluationFailure;
  readonly connectionMetadata: CelMap | EvaluationFailure;
}

/** An evaluation of the conditions of one request. */
export interface Evaluation {
  readonly facts: RequestFacts;
  /** Values of the variables of macros, by depth. */
  readonly locals: EvaluationResult[];
  /** Steps that are left. */
  steps: number;
}

/** Reads each variable. */
export const readVariable: Readonly<Record<PolicyVariable, (evaluation: Evaluation) => EvaluationResult>> = {
  "request.method": ({ facts }) => facts.method,
  "request.host": ({ facts }) => facts.host,
  "request.path": ({ facts }) => facts.path,
  "request.raw_path": ({ facts }) => facts.rawPath,
  "request.query": ({ facts }) => facts.query,
  "request.headers": ({ facts }) => ("map" in facts.headers ? facts.headers.map : facts.headers),
  "request.body": ({ facts }) => facts.body,
  "request.size": ({ facts }) => facts.size,
  "request.time": ({ facts }) => facts.time,
  "mcp.method": ({ facts }) => facts.mcpMethod,
  "mcp.tool": ({ facts }) => facts.mcpTool,
  "mcp.arguments": ({ facts }) => facts.mcpArguments,
  "caller.key": ({ facts }) => facts.callerKey,
  "caller.session": ({ facts }) => facts.callerSession,
  "caller.identity": ({ facts }) => facts.callerIdentity,
  "caller.script": ({ facts }) => facts.callerScript,
  "caller.scopes": ({ facts }) => facts.callerScopes,
  "integration.key": ({ facts }) => facts.integrationKey,
  "integration.provider": ({ facts }) => facts.integrationProvider,
  "integration.environment": ({ facts }) => facts.integrationEnvironment,
  "connection.id": ({ facts }) => facts.connectionId,
  "connection.tags": ({ facts }) => facts.connectionTags,
  "connection.metadata": ({ facts }) => facts.connectionMetadata,
};
