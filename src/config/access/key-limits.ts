import { create } from "@bufbuild/protobuf";
import type { FilePath } from "../../base/yaml-places.ts";
import { mistakesInLimits } from "../../core/access/limit-mistakes.ts";
import { limitableScopes, scopeName } from "../../core/scopes.ts";
import {
  type AccessLimits,
  AccessLimitsSchema,
  LimitedConnectionSchema,
  type Scope,
} from "../../gen/latchkey/v1/access_pb.ts";
import type { FileLimits } from "./access-limits.ts";

interface KeyLimitsSource {
  readonly id: string;
  readonly limits: FileLimits;
  readonly scopes: readonly Scope[];
  readonly locate: (path: FilePath) => string;
  readonly refuse: (mistake: string) => void;
}

/** Returns the limits of a key of the configuration file. Reports all mistakes. */
export function limitsOf({ id, limits: given, scopes, locate, refuse }: KeyLimitsSource): AccessLimits {
  const { connections = [], methods = [], paths = [], hosts = [], tools = [] } = given;
  const named = connections.map(({ integration, id = "" }) => create(LimitedConnectionSchema, { integration, id }));
  const limits = create(AccessLimitsSchema, { connections: named, methods, paths, hosts, tools });
  const whole = ["limits"];
  if (Object.keys(given).length === 0) refuse(`${locate(whole)}: the key "${id}": limits must limit something`);
  for (const { path, message } of mistakesInLimits(limits)) {
    refuse(`${locate([...whole, ...path])}: the key "${id}": limits.${path.join(".")} ${message}`);
  }
  const beyond = scopes.filter((scope) => !limitableScopes.has(scope));
  if (beyond.length > 0) {
    const names = beyond.map(scopeName).join(", ");
    refuse(`${locate(["scopes"])}: the key "${id}": scopes must not contain ${names} for a key with limits`);
  }
  return limits;
}
