import { create } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import * as v from "valibot";
import type { FilePath, FilePosition } from "../../base/yaml-places.ts";
import {
  type HoldRules,
  HoldRulesSchema,
  type Policy,
  PolicyEffect,
  PolicySchema,
  type PolicyScope,
  PolicyScopeSchema,
} from "../../gen/latchkey/v1/policy_pb.ts";
import { durationForm, millisecondsIn } from "../duration.ts";
import type { ConditionError } from "./condition.ts";
import { policyLimits } from "./limits.ts";
import { effectsByName, mistakesInPolicy } from "./policy-rules.ts";

const text = (longest: number) => v.pipe(v.string(), v.minLength(1), v.maxLength(longest));

const duration = v.pipe(v.string(), v.regex(durationForm, "must be a duration such as 30s, 15m, 1h or 7d"));

/** The schema of `policies` in the configuration file and in files of candidates. */
export const policyList = v.array(
  v.pipe(
    v.strictObject({
      id: v.pipe(
        v.string(),
        v.regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/, "must be letters, digits and _ . -"),
        v.description("Name of the policy, unique in its environment."),
      ),
      environment: v.pipe(
        v.string(),
        v.regex(/^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$/, "must be lower-case letters, digits and dashes"),
        v.description("Environment whose requests the policy is about."),
      ),
      integration: v.optional(v.pipe(text(255), v.description("Key of an integration: only its requests."))),
      key: v.optional(v.pipe(text(64), v.description("ID of a key: only requests of its callers."))),
      access_session: v.optional(v.pipe(text(64), v.description("ID of an access session: only its requests."))),
      effect: v.pipe(
        v.picklist([...effectsByName.keys()] as [string, ...string[]]),
        v.description("What happens to requests that match."),
      ),
      condition: v.pipe(
        text(policyLimits.text),
        v.description('Condition in CEL, such as request.method == "DELETE".'),
      ),
      description: v.optional(
        v.pipe(v.string(), v.maxLength(512), v.description("Shown to callers that are refused.")),
      ),
      answer_within: v.optional(
        v.pipe(
          duration,
          v.description("For hold: time in which a person may answer; no answer is a no (default: 1h, at most 7d)."),
        ),
      ),
      wait: v.optional(
        v.pipe(
          duration,
          v.description("For hold: time that a request waits on its connection (default: 10s, at most 10m)."),
        ),
      ),
      remember: v.optional(
        v.pipe(
          duration,
          v.description("For hold: longest time for which an answer may be remembered (default: none, at most 24h)."),
        ),
      ),
      enabled: v.optional(v.pipe(v.boolean(), v.description("False turns the policy off (default: true)."))),
    }),
    v.description("A policy: decides which requests are sent to providers."),
  ),
);

export type FilePolicy = v.InferOutput<typeof policyList>[number];

/** Returns a policy of a file as a message. */
export function policyOf(one: FilePolicy): Policy {
  const about = aboutOf(one);
  const hold = holdOf(one);
  return create(PolicySchema, {
    id: one.id,
    environment: one.environment,
    effect: effectsByName.get(one.effect) ?? 0,
    condition: one.condition,
    description: one.description ?? "",
    disabled: one.enabled === false,
    declared: true,
    ...(about && { about }),
    ...(hold && { hold }),
  });
}

type HoldField = "answer_within" | "wait" | "remember";

/** Longest duration of each field of a `hold` policy. */
const longestMs: Readonly<Record<HoldField, number>> = {
  answer_within: 604_800_000,
  wait: 600_000,
  remember: 86_400_000,
};

const holdFields = Object.keys(longestMs) as HoldField[];

const noHold: Pick<FilePolicy, HoldField> = { answer_within: undefined, wait: undefined, remember: undefined };

/** Returns how a policy holds requests; undefined if it says nothing of it. */
function holdOf(one: FilePolicy): HoldRules | undefined {
  if (holdFields.every((field) => one[field] === undefined)) return undefined;
  const { answer_within: answer, wait, remember } = one;
  return create(HoldRulesSchema, {
    ...(answer !== undefined && { answerWithin: durationOf(answer) }),
    ...(wait !== undefined && { wait: durationOf(wait) }),
    ...(remember !== undefined && { remember: durationOf(remember) }),
  });
}

const durationOf = (text: string) => durationFromMs(millisecondsIn(text) ?? 0);

function aboutOf({ integration, key, access_session: accessSession }: FilePolicy): PolicyScope | undefined {
  if (integration !== undefined)
    return create(PolicyScopeSchema, { kind: { case: "integration", value: integration } });
  if (key !== undefined) return create(PolicyScopeSchema, { kind: { case: "key", value: key } });
  if (accessSession === undefined) return undefined;
  return create(PolicyScopeSchema, { kind: { case: "accessSession", value: accessSession } });
}

/** A mistake in the policies of a file; `place` is that in a condition. */
export interface PolicyFileMistake {
  readonly path: FilePath;
  readonly message: string;
  readonly place: Pick<ConditionError, "line" | "column"> | undefined;
}

/** Returns everything that is wrong with the policies of a file, besides their form. */
export function mistakesInPolicies(list: readonly FilePolicy[]): PolicyFileMistake[] {
  const found: PolicyFileMistake[] = [];
  const ids = new Set<string>();
  const counts = new Map<string, number>();
  for (const [i, one] of list.entries()) {
    const refuse = (field: string, message: string, place?: PolicyFileMistake["place"]) =>
      void found.push({ path: ["policies", i, field], message, place });
    const id = `${one.environment}\0${one.id}`;
    if (ids.has(id)) refuse("id", "is the id of two policies of the environment");
    ids.add(id);
    const count = (counts.get(one.environment) ?? 0) + 1;
    counts.set(one.environment, count);
    if (count === policyLimits.policies + 1) {
      refuse("id", `an environment has at most ${policyLimits.policies} policies`);
    }
    for (const field of holdFields) {
      const ms = millisecondsIn(one[field] ?? "");
      if (ms === undefined) continue;
      if (effectsByName.get(one.effect) !== PolicyEffect.HOLD) refuse(field, "is only for policies with effect: hold");
      else if (ms > longestMs[field]) refuse(field, `must be at most ${longestMs[field] / 1_000}s`);
      else if (field === "answer_within" && ms < 1_000) refuse(field, "must be at least 1s");
    }
    const scopes = [one.integration, one.key, one.access_session].filter((scope) => scope !== undefined);
    if (scopes.length > 1) refuse("id", "must have only one of integration, key and access_session");
    for (const { path, message, place } of mistakesInPolicy(policyOf({ ...one, ...noHold })))
      refuse(path[0] ?? "id", message, place);
  }
  return found;
}

interface ConditionText {
  /** The text of the file. */
  readonly text: string;
  /** Position of the key `condition` in the file. */
  readonly key: FilePosition;
}

/** Returns the position in the file of a place in a condition; the position of its key if the form is unusual. */
export function conditionPosition({ text: file, key }: ConditionText, place: FilePosition): FilePosition {
  const lines = file.split("\n");
  const [, before = "", rest = ""] = /^(\s*(?:- )?\s*condition:\s*)(.*)$/.exec(lines[key.line - 1] ?? "") ?? [];
  if (/^\|[-+]?\s*(?:#.*)?$/.test(rest)) {
    const first = lines.slice(key.line).find((line) => line.trim() !== "") ?? "";
    return { line: key.line + place.line, column: first.length - first.trimStart().length + place.column };
  }
  if (rest === "" || rest.startsWith(">") || place.line > 1) return key;
  return { line: key.line, column: before.length + (/^["']/.test(rest) ? 1 : 0) + place.column };
}
