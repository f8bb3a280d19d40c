import * as v from "valibot";
import { LineCounter } from "yaml";
import { describeYamlError, parseYaml, pathText, positionIn } from "../../base/yaml-places.ts";
import type { Policy } from "../../gen/latchkey/v1/policy_pb.ts";
import { conditionPosition, mistakesInPolicies, policyList, policyOf } from "./policy-file.ts";

/** The policies of a file, or what is wrong with them. */
export interface ReadPolicies {
  readonly policies: readonly Policy[];
  /** `file:line:column: what is wrong`. */
  readonly mistakes: readonly string[];
}

interface PolicyText {
  readonly name: string;
  readonly text: string;
}

/** Reads a YAML file with `policies`, such as a configuration file; its other keys are ignored. */
export function readPolicyFile({ name, text }: PolicyText): ReadPolicies {
  const lines = new LineCounter();
  const document = parseYaml(text, lines);
  const [wrong] = document.errors;
  if (wrong !== undefined) {
    const { line, col } = lines.linePos(wrong.pos[0]);
    return refused(`${name}:${line}:${col}: the file cannot be read: ${describeYamlError(wrong, text)}`);
  }
  const written: unknown = document.toJS();
  const list = Object(written) as { readonly policies?: unknown };
  if (list.policies === undefined) return refused(`${name}:1:1: the file must have a list \`policies\``);
  const result = v.safeParse(policyList, list.policies);
  if (!result.success) {
    const mistakes = result.issues.map((issue) => {
      const path = ["policies", ...(issue.path ?? []).map(({ key }) => key as string | number)];
      const { line, column } = positionIn(document, lines, path);
      return `${name}:${line}:${column}: ${pathText(path)}: ${messageOf(issue)}`;
    });
    return { policies: [], mistakes };
  }
  const mistakes = mistakesInPolicies(result.output).map(({ path, message, place }) => {
    const key = positionIn(document, lines, path);
    const { line, column } = place === undefined ? key : conditionPosition({ text, key }, place);
    return `${name}:${line}:${column}: ${pathText(path)}: ${message}`;
  });
  return { policies: result.output.map(policyOf), mistakes };
}

const refused = (mistake: string): ReadPolicies => ({ policies: [], mistakes: [mistake] });

/** Never quotes the value. */
function messageOf({ type, expected, received, message }: v.BaseIssue<unknown>): string {
  if (type === "strict_object" && expected === "never") return "unknown key";
  if (type === "strict_object" && received === "undefined") return "is required";
  return message.startsWith("Invalid") ? `must be ${expected ?? "something else"}` : message;
}
