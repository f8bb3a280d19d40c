import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import type { Command } from "commander";
import { createReplay, type ReplayDifference, recordedRequest } from "../../../core/policies/replay.ts";
import { type Policy, PolicyService } from "../../../gen/latchkey/v1/policy_pb.ts";
import type { Act, CommandSession } from "../../session.ts";
import { escapeControl } from "../../terminal/escape-control.ts";
import { exitCodes } from "../../terminal/exit-codes.ts";
import { formatCount } from "../../terminal/format.ts";
import { UsageMistake } from "../../terminal/usage-mistake.ts";
import { policiesInFile } from "./policy-files.ts";

interface CandidateOptions {
  readonly candidate: string;
  readonly inForce?: string;
  readonly replace?: boolean;
  readonly allowUnknown?: boolean;
}

/** Adds `policies test`. */
export function addReplay(group: Command, act: Act): void {
  group
    .command("test")
    .summary("replay recorded requests against other policies; exit code 1 if an outcome changes")
    .argument("<file>", "process log with the lines of use_record: path, one JSON object a line")
    .requiredOption("--candidate <file>", "YAML file with policies; they are added, or replace those of the same id")
    .option("--replace", "the candidate replaces all policies of its environments")
    .option("--in-force <file>", "YAML file with the policies to compare with (default: those of the running Latchkey)")
    .option("--allow-unknown", "exit code 0 although outcomes depend on values that are not recorded")
    .action(
      act(async (session, file: string, given: CandidateOptions) => {
        const candidate = required(given.candidate);
        const environments = [...new Set(candidate.map(({ environment }) => environment))];
        const before =
          given.inForce === undefined ? await policiesInForce(session, environments) : required(given.inForce);
        const after = given.replace === true ? replaced(before, environments, candidate) : merged(before, candidate);
        return report(session, { file, given, ...(await replay(file, createReplay(before, after))) });
      }),
    );
}

interface ReplayCounts {
  readonly count: number;
  readonly differences: readonly ReplayDifference[];
}

async function replay(file: string, { compare }: ReturnType<typeof createReplay>): Promise<ReplayCounts> {
  const differences: ReplayDifference[] = [];
  let count = 0;
  const lines = createInterface({ input: createReadStream(file), crlfDelay: Number.POSITIVE_INFINITY });
  try {
    for await (const line of lines) {
      const request = recordedRequest(line);
      if (request === undefined) continue;
      count += 1;
      const difference = compare(request);
      if (difference !== undefined) differences.push(difference);
    }
  } catch (error) {
    throw new UsageMistake(`${file} cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (count === 0) {
    throw new UsageMistake(
      `${file} has no recorded requests: set use_record: path for an integration, and use its log`,
    );
  }
  return { count, differences };
}

async function report(
  { output }: CommandSession,
  { given, count, differences }: ReplayCounts & { readonly file: string; readonly given: CandidateOptions },
): Promise<number> {
  const isUnknown = ({ before, after }: ReplayDifference) => before === "unknown" || after === "unknown";
  const unknown = differences.filter(isUnknown);
  const changed = differences.filter((one) => !isUnknown(one));
  for (const one of differences) {
    if (output.json) await output.document(one);
    else await output.line(escapeControl(lineOf(one)));
  }
  await output.note(
    `${formatCount(count, "request")} replayed: ${changed.length} changed, ${unknown.length} unknown, ${count - differences.length} unchanged`,
  );
  if (unknown.length > 0) {
    const reasons = [...new Set(unknown.flatMap((one) => one.reasons))].sort();
    await output.note(`Not known, because records do not hold it: ${reasons.join("; ")}.`);
  }
  const isSame = changed.length === 0 && (unknown.length === 0 || given.allowUnknown === true);
  return isSame ? exitCodes.ok : exitCodes.failed;
}

function lineOf({ request, before, after, policies }: ReplayDifference): string {
  const { time, key, method = "?", host = "?", path = "?", integration, connection } = request;
  const by = policies.length === 0 ? "" : ` (${policies.join(", ")})`;
  return `${time} ${method} ${host}${path} key=${key} connection=${integration}/${connection}: ${before} -> ${after}${by}`;
}

function required(file: string): readonly Policy[] {
  const { policies, mistakes } = policiesInFile(file);
  if (mistakes.length > 0) throw new UsageMistake(`the policies are not valid:\n${mistakes.join("\n")}`);
  return policies;
}

async function policiesInForce({ client }: CommandSession, environments: readonly string[]): Promise<Policy[]> {
  const found: Policy[] = [];
  for (const environment of environments) {
    for (let pageToken = ""; ; ) {
      const page = await client(PolicyService).listPolicies({ environment, pageSize: 1_000, pageToken });
      found.push(...page.policies);
      pageToken = page.nextPageToken;
      if (pageToken === "") break;
    }
  }
  return found;
}

const nameOf = ({ environment, id }: Policy): string => `${environment}\0${id}`;

function merged(before: readonly Policy[], candidate: readonly Policy[]): Policy[] {
  const names = new Set(candidate.map(nameOf));
  return [...before.filter((policy) => !names.has(nameOf(policy))), ...candidate];
}

const replaced = (
  before: readonly Policy[],
  environments: readonly string[],
  candidate: readonly Policy[],
): Policy[] => [...before.filter(({ environment }) => !environments.includes(environment)), ...candidate];
