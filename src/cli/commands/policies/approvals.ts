import { durationFromMs, durationMs as msOf } from "@bufbuild/protobuf/wkt";
import { type Command, Option } from "commander";
import { approvalStateName, approvalStatesByName } from "../../../core/approvals/approval-state.ts";
import { requesterName } from "../../../core/approvals/requester.ts";
import {
  type Approval,
  ApprovalSchema,
  ApprovalService,
  ApprovalState,
  DenyApprovalResponseSchema,
  GrantApprovalResponseSchema,
} from "../../../gen/latchkey/v1/approval_pb.ts";
import type { Act, CommandSession } from "../../session.ts";
import { requireYes, withYes, type YesOption } from "../../terminal/confirm.ts";
import { escapeControl } from "../../terminal/escape-control.ts";
import { durationMs } from "../../terminal/option-values.ts";
import { type Column, createTable } from "../../terminal/table.ts";
import { write } from "../../terminal/terminal.ts";
import { UsageMistake } from "../../terminal/usage-mistake.ts";
import { type ListExtent, printList, withExtent } from "../command-kinds.ts";
import { showLive } from "../following.ts";

interface AnswerOptions extends YesOption {
  readonly remember?: number;
  readonly reason?: string;
}

interface ApprovalListOptions {
  readonly state?: string;
  readonly follow?: boolean;
}

const defaultLimit = 100;

/** Adds the `approvals` commands. */
export function addApprovals(program: Command, act: Act): void {
  const group = program.command("approvals").summary("answer requests that policies hold for a person");
  const list = group
    .command("list")
    .summary("list approvals of --environment, newest first")
    .addOption(new Option("--state <state>", "only those in this state").choices([...approvalStatesByName.keys()]));
  list.option("-f, --follow", "print approvals as they are asked for, answered and used, until interrupted");
  withExtent(list, defaultLimit);
  list.action(
    act((session, given: ApprovalListOptions & ListExtent) => {
      const { follow, limit, all } = given;
      if (follow !== true) return listApprovals(session, given);
      if (limit !== undefined || all === true)
        throw new UsageMistake("--follow cannot be combined with --limit or --all");
      return followApprovals(session, given);
    }),
  );
  addShow(group, act);
  addApprove(group, act);
  addDeny(group, act);
}

const stateOf = ({ state = "" }: ApprovalListOptions): ApprovalState =>
  approvalStatesByName.get(state) ?? ApprovalState.UNSPECIFIED;

const listApprovals = (session: CommandSession, given: ApprovalListOptions & ListExtent): Promise<void> =>
  printList(
    session,
    {
      schema: ApprovalSchema,
      none: "no approvals",
      defaultLimit,
      fetch: async (page) => {
        const request = { environment: session.environment, state: stateOf(given), ...page };
        const { approvals, nextPageToken } = await session.client(ApprovalService).listApprovals(request);
        return { items: approvals, nextPageToken };
      },
      columns,
    },
    given,
  );

function followApprovals(session: CommandSession, given: ApprovalListOptions): Promise<void> {
  const { client, environment, output, terminal } = session;
  const table = createTable(columns, output.paint, output.layout);
  const state = stateOf(given);
  return showLive(session, {
    steps: client(ApprovalService).watchApprovals({ environment }),
    what: "approvals",
    show(event) {
      if (event.case !== "approval") return undefined;
      if (state !== ApprovalState.UNSPECIFIED && event.value.state !== state) return undefined;
      return output.json ? output.one(ApprovalSchema, event.value) : write(terminal.stdout, table.draw([event.value]));
    },
  });
}

function addShow(group: Command, act: Act): void {
  group
    .command("show")
    .argument("<id>", "ID of the approval")
    .summary("show an approval with the headers and the body of its request")
    .action(
      act(async (session, id: string) => {
        const { client, output, environment } = session;
        const { approval } = await client(ApprovalService).getApproval({ environment, id });
        if (approval === undefined) return;
        if (output.json) await output.one(ApprovalSchema, approval);
        else await showApproval(session, approval);
      }),
    );
}

function addApprove(group: Command, act: Act): void {
  withYes(group.command("approve"))
    .argument("<id>", "ID of the approval")
    .option("--remember <duration>", "do not ask about such requests of this caller for so long", durationMs)
    .option("--reason <text>", "text that the caller of the request sees")
    .summary("show a request and approve it; it can then be sent once")
    .action(
      act(async (session, id: string, { remember, reason = "", yes }: AnswerOptions) => {
        const { client, output, environment, terminal } = session;
        const { approval } = await client(ApprovalService).getApproval({ environment, id });
        if (approval === undefined) return;
        if (!output.json && yes !== true) await showApproval(session, approval);
        await requireYes(terminal, `Approve ${escapeControl(requestText(approval))}?`, yes);
        const answer = await client(ApprovalService).grantApproval({
          environment,
          id,
          digest: approval.digest,
          reason,
          ...(remember !== undefined && { remember: durationFromMs(remember) }),
        });
        await output.done(GrantApprovalResponseSchema, answer, `approved ${id}`);
      }),
    );
}

function addDeny(group: Command, act: Act): void {
  group
    .command("deny")
    .argument("<id>", "ID of the approval")
    .option("--reason <text>", "text that the caller of the request sees")
    .summary("deny a request, take back an approval, or end what is remembered")
    .action(
      act(async ({ client, output, environment }, id: string, { reason = "" }: AnswerOptions) => {
        const answer = await client(ApprovalService).denyApproval({ environment, id, reason });
        await output.done(DenyApprovalResponseSchema, answer, `denied ${id}`);
      }),
    );
}

/** Shows a request as text. Nothing of it may control the terminal. */
async function showApproval({ output }: CommandSession, approval: Approval): Promise<void> {
  const { id, state, policies, method, url, tool, digest, content, longestMemory, reason, decidedBy } = approval;
  const rows: readonly (readonly [string, string])[] = [
    ["id", id],
    ["state", approvalStateName(state)],
    [
      "policies",
      policies.map((one) => (one.description === "" ? one.id : `${one.id} (${one.description})`)).join(", "),
    ],
    ["requester", requesterText(approval)],
    ["connection", connectionText(approval)],
    ["tool", tool],
    ["request", `${method} ${url}`],
    ["digest", digest],
    ["answered by", decidedBy],
    ["reason", reason],
    ["remember at most", longestMemory === undefined ? "" : `${msOf(longestMemory) / 1_000}s`],
  ];
  for (const [name, value] of rows) {
    if (value !== "") await output.line(`${name.padEnd(18)}${escapeControl(value)}`);
  }
  if (content === undefined) return;
  for (const { name, value } of content.headers) await output.line(escapeControl(`  ${name}: ${value}`));
  const size = Number(content.bodySize);
  if (size === 0) return;
  await output.line(`body, ${size} bytes${size > content.body.length ? `, the first ${content.body.length}` : ""}:`);
  for (const line of Buffer.from(content.body).toString("utf8").split("\n")) await output.line(escapeControl(line));
}

const requesterText = ({ requester }: Approval): string => (requester === undefined ? "" : requesterName(requester));
/** All tools of an MCP server have one URL: the name of the tool says more. */
const requestText = ({ method, url, tool }: Approval): string =>
  tool === "" ? `${method} ${url}` : `tool ${tool} of ${url}`;
const connectionText = ({ connection }: Approval): string =>
  connection === undefined ? "" : `${connection.integration}/${connection.id}`;

const columns: readonly Column<Approval>[] = [
  { title: "ID", text: ({ id }) => id },
  { title: "STATE", text: ({ state }) => approvalStateName(state) },
  { title: "REQUESTER", text: requesterText },
  { title: "CONNECTION", text: connectionText },
  { title: "REQUEST", text: requestText },
  { title: "UNTIL", time: ({ expiresAt }) => expiresAt },
];
