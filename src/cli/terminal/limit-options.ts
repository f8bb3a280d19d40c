import { create } from "@bufbuild/protobuf";
import { InvalidArgumentError, Option } from "commander";
import {
  AccessLimitsSchema,
  type LimitedConnection,
  LimitedConnectionSchema,
} from "../../gen/latchkey/v1/access_pb.ts";
import { listed } from "./option-values.ts";

/** Values of the options that limit a key or an access session. */
export interface LimitOptions {
  readonly limitConnection?: readonly LimitedConnection[];
  readonly limitMethod?: readonly string[];
  readonly limitPath?: readonly string[];
  readonly limitHost?: readonly string[];
  readonly limitTool?: readonly string[];
}

/** Options that limit a key or an access session. Each may be repeated. */
export const limitOptions = {
  connection: () =>
    new Option(
      "--limit-connection <integration/id>",
      "a connection that may be used; github/* for all of an integration; repeatable",
    ).argParser(limitedConnections),
  method: () =>
    new Option("--limit-method <method>", "a method that may be sent, such as GET; repeatable").argParser(listed),
  path: () =>
    new Option(
      "--limit-path <pattern>",
      "a path at the provider, such as /repos/*/issues or /user/**; repeatable",
    ).argParser(listed),
  host: () =>
    new Option(
      "--limit-host <host>",
      "a host of the provider, such as api.example.com or *.example.com; repeatable",
    ).argParser(listed),
  tool: () =>
    new Option(
      "--limit-tool <name>",
      "a tool of MCP servers that may be called, such as search or read_*; repeatable",
    ).argParser(listed),
} as const;

/** Returns the limits that options give; nothing if there is no such option. */
export function limitsIn(options: LimitOptions) {
  const { limitConnection = [], limitMethod = [], limitPath = [], limitHost = [], limitTool = [] } = options;
  const limits = {
    connections: [...limitConnection],
    methods: [...limitMethod],
    paths: [...limitPath],
    hosts: [...limitHost],
    tools: [...limitTool],
  };
  const isEmpty = Object.values(limits).every((list) => list.length === 0);
  return isEmpty ? {} : { limits: create(AccessLimitsSchema, limits) };
}

/** Collects connections: `github/ada`, or `github/*` for all of an integration. */
export function limitedConnections(
  text: string,
  before: readonly LimitedConnection[] = [],
): readonly LimitedConnection[] {
  const at = text.indexOf("/");
  const [integration, id] = [text.slice(0, at), text.slice(at + 1)];
  if (at < 1 || id === "") {
    throw new InvalidArgumentError("It must be integration/connection, or integration/* for all of them.");
  }
  return [...before, create(LimitedConnectionSchema, { integration, id: id === "*" ? "" : id })];
}
