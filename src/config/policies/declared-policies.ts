import { pathText } from "../../base/yaml-places.ts";
import { conditionPosition, mistakesInPolicies, policyOf } from "../../core/policies/policy-file.ts";
import type { Policy } from "../../gen/latchkey/v1/policy_pb.ts";
import type { ReadFile } from "../read-file.ts";
import type { Refuse } from "../values.ts";

interface PolicySource extends ReadFile {
  readonly refuse: Refuse;
}

/** Returns the policies that the configuration file declares. Reports mistakes with their place in the file. */
export function declaredPolicies({ file, text = "", locate, refuse }: PolicySource): readonly Policy[] {
  const { policies = [] } = file;
  for (const { path, message, place } of mistakesInPolicies(policies)) {
    const at = locate(path);
    const [, name = "", line = "1", column = "1"] = /^(.*):(\d+):(\d+)$/.exec(at) ?? [];
    const key = { line: Number(line), column: Number(column) };
    const exact = place === undefined ? key : conditionPosition({ text, key }, place);
    refuse(`${name}:${exact.line}:${exact.column}: ${pathText(path)}: ${message}`);
  }
  return policies.map(policyOf);
}
