import { hash } from "node:crypto";
import { ownTools, type ScriptToolTarget } from "./tool.ts";

/** Clients and models take names of letters, digits, `_` and `-`. Some cut longer names. */
const maxLength = 64;
const suffixLength = 8;

/** Returns the tools by their names, in the order of the names. The name of a tool depends on no order of targets. */
export function toolsByName(targets: readonly ScriptToolTarget[]): ReadonlyMap<string, ScriptToolTarget> {
  const taken = new Map<string, number>(ownTools.map((name) => [name, 1]));
  for (const target of targets) taken.set(plainName(target), (taken.get(plainName(target)) ?? 0) + 1);
  const named = targets.map((target) => {
    const plain = plainName(target);
    // Each of those that would share a name gets a suffix: none takes a name over when another one comes.
    const isPlain = taken.get(plain) === 1 && plain.length <= maxLength;
    return [isPlain ? plain : suffixed(plain, target), target] as const;
  });
  return new Map(named.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** `github_create-issue`, `github_list_Issue`. */
function plainName(target: ScriptToolTarget): string {
  const integration = wordOf(target.integration);
  return target.kind === "action"
    ? `${integration}_${wordOf(target.script.name)}`
    : `${integration}_list_${wordOf(target.model)}`;
}

const wordOf = (text: string): string => text.replaceAll(/[^A-Za-z0-9_-]/g, "_");

function suffixed(plain: string, target: ScriptToolTarget): string {
  const { kind, integration, script } = target;
  const model = target.kind === "records" ? target.model : "";
  const digest = hash("sha256", [kind, integration, script.name, model].join("\0"));
  return `${plain.slice(0, maxLength - suffixLength - 1)}_${digest.slice(0, suffixLength)}`;
}
