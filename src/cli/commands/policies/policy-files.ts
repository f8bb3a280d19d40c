import { readFileSync } from "node:fs";
import { type ReadPolicies, readPolicyFile } from "../../../core/policies/read-policy-file.ts";
import { UsageMistake } from "../../terminal/usage-mistake.ts";

/** Reads the policies of a file that a command names. */
export const policiesInFile = (name: string): ReadPolicies => readPolicyFile({ name, text: textOf(name) });

export function textOf(name: string): string {
  try {
    return readFileSync(name, "utf8");
  } catch (error) {
    throw new UsageMistake(`${name} cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  }
}
