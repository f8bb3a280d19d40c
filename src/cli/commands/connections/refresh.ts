import type { Command } from "commander";
import {
  ConnectionService,
  type ExplainRequestResponse,
  ExplainRequestResponseSchema,
  RefreshConnectionResponseSchema,
  VerifyConnectionResponse_Verdict as Verdict,
  VerifyConnectionResponseSchema,
} from "../../../gen/latchkey/v1/connection_pb.ts";
import type { Act } from "../../session.ts";
import { escapeControl } from "../../terminal/escape-control.ts";
import { exitCodes } from "../../terminal/exit-codes.ts";
import { listed } from "../../terminal/option-values.ts";
import { reconnectByLink } from "../connect.ts";
import { type ConnectionName, connectionName, nameOf, refOf } from "./names.ts";
import { stateText } from "./states.ts";

const connectionArgument = ["<integration/connection>", "for example calendar/ada", connectionName] as const;

const verdictTexts: { readonly [V in Verdict]: string } = {
  [Verdict.UNSPECIFIED]: "unknown",
  [Verdict.ACCEPTED]: "the provider accepts the credentials",
  [Verdict.REFUSED]: "the provider refuses the credentials",
  [Verdict.UNKNOWN]: "unknown: the provider has no verification request, or its response proves nothing",
};

/** Adds `connections refresh`, `verify`, `reconnect` and `explain`. */
export function addRefresh(connections: Command, act: Act): void {
  connections
    .command("verify")
    .argument(...connectionArgument)
    .summary("ask the provider whether it accepts the credentials of a connection")
    .action(
      act(async (session, name: ConnectionName) => {
        const answer = await session.client(ConnectionService).verifyConnection({ ref: refOf(session, name) });
        await session.output.done(
          VerifyConnectionResponseSchema,
          answer,
          `${nameOf(name)}: ${verdictTexts[answer.verdict]}`,
        );
        return answer.verdict === Verdict.REFUSED ? exitCodes.failed : exitCodes.ok;
      }),
    );

  connections
    .command("refresh")
    .argument(...connectionArgument)
    .summary("get a new access token from the provider now")
    .action(
      act(async (session, name: ConnectionName) => {
        const answer = await session.client(ConnectionService).refreshConnection({ ref: refOf(session, name) });
        const state = answer.connection === undefined ? "" : `; state: ${stateText(answer.connection)}`;
        await session.output.done(RefreshConnectionResponseSchema, answer, `refreshed ${nameOf(name)}${state}`);
      }),
    );

  connections
    .command("reconnect")
    .argument(...connectionArgument)
    .option("--scope <scope>", "OAuth scope to request in addition to the integration's; repeatable", listed)
    .option("--wait", "wait until the end user has authorized the connection again")
    .summary("create a link for an end user to authorize a connection again")
    .action(
      act((session, { integration, id }: ConnectionName, given: ReconnectOptions) =>
        reconnectByLink(session, integration, { ...given, id }),
      ),
    );

  connections
    .command("explain")
    .argument(...connectionArgument)
    .argument("[method]", "method of the request", "GET")
    .argument("[path]", "path and query at the provider", "/")
    .option("-H, --header <name>", "name of a header that you would send; repeatable", listed)
    .option("--base-url <origin>", "value of Base-Url-Override")
    .summary("show what Latchkey would send for a proxied request, without sending it")
    .action(
      act(async (session, name: ConnectionName, method: string, path: string, given: ExplainCommandOptions) => {
        const answer = await session.client(ConnectionService).explainRequest({
          ref: refOf(session, name),
          method: method.toUpperCase(),
          path,
          headerNames: (given.header ?? []).map((header) => header.split(":", 1)[0]?.trim() ?? ""),
          baseUrlOverride: given.baseUrl ?? "",
        });
        if (session.output.json) await session.output.one(ExplainRequestResponseSchema, answer);
        else await session.output.line(explained(method.toUpperCase(), answer));
        return answer.problem === undefined ? exitCodes.ok : exitCodes.failed;
      }),
    );
}

interface ReconnectOptions {
  readonly scope?: readonly string[];
  readonly wait?: true;
}

interface ExplainCommandOptions {
  readonly header?: readonly string[];
  readonly baseUrl?: string;
}

function explained(method: string, answer: ExplainRequestResponse): string {
  const { url, provider, credentialsKind, headerNames, injected, dropped, problem } = answer;
  const lines = [
    ...(problem === undefined ? [] : [`refused: ${problem.message} (${problem.code})`]),
    ...(url === "" ? [] : [`${method} ${url}`]),
    ...[
      ["provider", provider],
      ["credentials", credentialsKind],
      ["adds", injected.join(", ")],
      ["sends", headerNames.join(", ")],
      ["drops", dropped.join(", ")],
    ].flatMap(([title = "", text = ""]) => (text === "" ? [] : [`${title.padEnd(12)}${text}`])),
  ];
  return lines.map(escapeControl).join("\n");
}
