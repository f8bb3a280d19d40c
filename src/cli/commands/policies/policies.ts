import { create } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { type Command, Option } from "commander";
import { scopeText } from "../../../core/policies/policy-rule.ts";
import { effectsByName, effectText, scopeOf } from "../../../core/policies/policy-rules.ts";
import {
  DeletePolicyResponseSchema,
  type HoldRules,
  HoldRulesSchema,
  type Policy,
  PolicySchema,
  type PolicyScope,
  PolicyScopeSchema,
  PolicyService,
} from "../../../gen/latchkey/v1/policy_pb.ts";
import { addOwnCommand } from "../../process/own-command.ts";
import type { Act } from "../../session.ts";
import { requireYes, withYes, type YesOption } from "../../terminal/confirm.ts";
import { durationMs } from "../../terminal/option-values.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { UsageMistake } from "../../terminal/usage-mistake.ts";
import { listCommand, objectCommand, type RevisionOption, withExpectedRevision } from "../command-kinds.ts";
import { checkPoliciesCommand } from "./check.ts";
import { addExplain } from "./explain.ts";
import { addReplay } from "./replay.ts";

interface PolicyOptions extends RevisionOption {
  readonly effect?: string;
  readonly condition?: string;
  readonly description?: string;
  readonly integration?: string;
  readonly keyId?: string;
  readonly accessSession?: string;
  readonly disabled?: boolean;
  readonly enabled?: boolean;
  readonly answerWithin?: number;
  readonly wait?: number;
  readonly remember?: number;
}

interface PolicyCommandContext {
  readonly terminal: Terminal;
  readonly keepExitCode: (code: number) => void;
}

/** Adds the `policies` commands. */
export function addPolicies(program: Command, act: Act, { terminal, keepExitCode }: PolicyCommandContext): void {
  const group = program.command("policies").summary("decide which requests are sent to providers");
  addList(group, act);
  addShow(group, act);
  addCreate(group, act);
  addUpdate(group, act);
  addDelete(group, act);
  addOwnCommand(group, checkPoliciesCommand(terminal), keepExitCode);
  addExplain(group, act);
  addReplay(group, act);
}

function addList(group: Command, act: Act): void {
  listCommand(group.command("list").summary("list the policies of --environment, by id"), act, {
    schema: PolicySchema,
    none: "no policies",
    rpc: ({ client, environment }, page) => client(PolicyService).listPolicies({ environment, ...page }),
    items: ({ policies }) => policies,
    columns: [
      { title: "ID", text: ({ id }) => id },
      { title: "EFFECT", text: ({ effect }) => effectText(effect) ?? "" },
      { title: "ABOUT", text: ({ about }) => scopeText(scopeOf(about)) },
      { title: "CONDITION", text: ({ condition }) => condition.replaceAll(/\s+/g, " ") },
      { title: "STATE", text: ({ disabled }) => (disabled ? "off" : "on") },
      { title: "DECLARED", text: ({ declared }) => (declared ? "yes" : "") },
    ],
  });
}

function addShow(group: Command, act: Act): void {
  const show = group.command("show").summary("show a policy").argument("<id>", "ID of the policy");
  objectCommand(show, act, PolicySchema, async ({ client, environment }, id: string) => {
    return (await client(PolicyService).getPolicy({ environment, id })).policy;
  });
}

function addCreate(group: Command, act: Act): void {
  const command = withPolicy(group.command("create"))
    .summary("create a policy; it is in force within a second")
    .argument("<id>", "ID of the policy");
  objectCommand(command, act, PolicySchema, async ({ client, environment }, id: string, given: PolicyOptions) => {
    if (given.effect === undefined) throw new UsageMistake("--effect must be allow, deny, hold or log");
    if (given.condition === undefined) throw new UsageMistake("--condition must be a condition in CEL");
    const policy = policyOf(environment, id, given);
    return (await client(PolicyService).createPolicy({ policy })).policy;
  });
}

function addUpdate(group: Command, act: Act): void {
  const command = withExpectedRevision(withPolicy(group.command("update")))
    .summary("change a policy; settings that you leave out stay the same")
    .argument("<id>", "ID of the policy")
    .option("--enabled", "turn the policy on");
  objectCommand(command, act, PolicySchema, async ({ client, environment }, id: string, given: PolicyOptions) => {
    const { effect, condition, description, disabled, enabled, expectedRevision = 0n } = given;
    const paths = [
      ...(effect === undefined ? [] : ["effect"]),
      ...(condition === undefined ? [] : ["condition"]),
      ...(description === undefined ? [] : ["description"]),
      ...(aboutOf(given) === undefined ? [] : ["about"]),
      ...(disabled === undefined && enabled === undefined ? [] : ["disabled"]),
      ...(holdOf(given) === undefined ? [] : ["hold"]),
    ];
    // An empty mask would mean all fields, and clear those that were not given.
    if (paths.length === 0) throw new UsageMistake("nothing to change: give --condition or another setting");
    const request = { policy: policyOf(environment, id, given), updateMask: { paths }, expectedRevision };
    return (await client(PolicyService).updatePolicy(request)).policy;
  });
}

function addDelete(group: Command, act: Act): void {
  withYes(withExpectedRevision(group.command("delete")))
    .summary("delete a policy; requests that only it refused are sent within a second")
    .argument("<id>", "ID of the policy")
    .action(
      act(async (session, id: string, { expectedRevision = 0n, yes }: RevisionOption & YesOption) => {
        const { client, output, environment } = session;
        await requireYes(session.terminal, `Delete the policy ${id}?`, yes);
        const answer = await client(PolicyService).deletePolicy({ environment, id, expectedRevision });
        await output.done(DeletePolicyResponseSchema, answer, `deleted policy ${id}`);
      }),
    );
}

const withPolicy = (command: Command): Command =>
  command
    .addOption(
      new Option("--effect <effect>", "what happens to requests that match").choices([...effectsByName.keys()]),
    )
    .option("--condition <cel>", "condition in CEL, such as 'request.method == \"DELETE\"'")
    .option("--description <text>", "why the policy exists; callers that it refuses see it")
    .option("--integration <key>", "only requests of this integration")
    .option("--key-id <id>", "only requests of callers with this key")
    .option("--access-session <id>", "only requests of this access session")
    .option("--answer-within <duration>", "for hold: time in which a person may answer (default: 1h)", durationMs)
    .option("--wait <duration>", "for hold: time that a request waits on its connection (default: 10s)", durationMs)
    .option("--remember <duration>", "for hold: longest time for which an answer is remembered", durationMs)
    .option("--disabled", "keep the policy, but turn it off");

const policyOf = (environment: string, id: string, given: PolicyOptions): Policy => {
  const about = aboutOf(given);
  const hold = holdOf(given);
  return create(PolicySchema, {
    environment,
    id,
    effect: effectsByName.get(given.effect ?? "") ?? 0,
    condition: given.condition ?? "",
    description: given.description ?? "",
    disabled: given.disabled === true,
    ...(about && { about }),
    ...(hold && { hold }),
  });
};

function holdOf({ answerWithin, wait, remember }: PolicyOptions): HoldRules | undefined {
  if (answerWithin === undefined && wait === undefined && remember === undefined) return undefined;
  return create(HoldRulesSchema, {
    ...(answerWithin !== undefined && { answerWithin: durationFromMs(answerWithin) }),
    ...(wait !== undefined && { wait: durationFromMs(wait) }),
    ...(remember !== undefined && { remember: durationFromMs(remember) }),
  });
}

function aboutOf({ integration, keyId, accessSession }: PolicyOptions): PolicyScope | undefined {
  const given = [integration, keyId, accessSession].filter((value) => value !== undefined);
  if (given.length > 1) throw new UsageMistake("give only one of --integration, --key-id and --access-session");
  if (integration !== undefined)
    return create(PolicyScopeSchema, { kind: { case: "integration", value: integration } });
  if (keyId !== undefined) return create(PolicyScopeSchema, { kind: { case: "key", value: keyId } });
  if (accessSession === undefined) return undefined;
  return create(PolicyScopeSchema, { kind: { case: "accessSession", value: accessSession } });
}
