import { create } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { type Command, Option } from "commander";
import type { LimitedConnection, Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import {
  AccessAudienceSchema,
  AccessSessionSchema,
  AccessSessionService,
  CreateAccessSessionResponseSchema,
  EndAccessSessionResponseSchema,
} from "../../../gen/latchkey/v1/access_session_pb.ts";
import type { Act } from "../../session.ts";
import { type LimitOptions, limitedConnections, limitOptions, limitsIn } from "../../terminal/limit-options.ts";
import { count, durationMs, listed } from "../../terminal/option-values.ts";
import { listCommand, objectCommand } from "../command-kinds.ts";
import { scopeName, scopes } from "../scope-names.ts";
import { addSessionExplain } from "./session-explain.ts";

interface SessionCreateOptions extends Omit<LimitOptions, "limitConnection"> {
  readonly allowSeveral?: boolean;
  readonly scope?: readonly Scope[];
  readonly for?: number;
  readonly budget?: number;
  readonly label?: string;
  readonly listener?: readonly string[];
  readonly address?: readonly string[];
  readonly certificateName?: readonly string[];
  readonly serviceAccount?: readonly string[];
}

interface AccessSessionListOptions {
  readonly ended?: boolean;
  readonly inUse?: boolean;
}

/** Adds the `access-sessions` commands. */
export function addAccessSessions(program: Command, act: Act): void {
  const group = program
    .command("access-sessions")
    .summary("create and end short-lived tokens that may use named connections only");
  addCreate(group, act);
  const list = group
    .command("list")
    .summary("list the sessions of --environment that can be used, newest first")
    .option("--ended", "list those that have ended, for 7 days")
    .option("--in-use", "list those that the sidecar has seen requests of, latest use first");
  listCommand(list, act, {
    schema: AccessSessionSchema,
    none: "no access sessions",
    defaultLimit: 100,
    rpc: ({ client, environment }, page, { ended = false, inUse = false }: AccessSessionListOptions) =>
      client(AccessSessionService).listAccessSessions({ environment, ended, inUse, ...page }),
    items: ({ sessions }) => sessions,
    columns: [
      { title: "ID", text: ({ id }) => id },
      { title: "CONNECTIONS", text: ({ limits }) => (limits?.connections ?? []).map(connectionText).join(",") },
      { title: "SCOPES", text: (session) => session.scopes.map(scopeName).join(",") },
      { title: "LABEL", text: ({ label }) => label },
      { title: "CREATED BY", text: ({ createdBy }) => createdBy },
      { title: "EXPIRES", time: ({ expiresAt }) => expiresAt },
      { title: "USED", time: ({ use }) => use?.lastUsedAt },
      { title: "REQUESTS", text: ({ use }) => (use === undefined ? "" : String(use.requests)) },
    ],
  });
  const show = group
    .command("get")
    .alias("show")
    .argument("<id>", "id of the session")
    .summary("show a session, with what is left of its budget");
  objectCommand(show, act, AccessSessionSchema, async ({ client, environment }, id: string) => {
    const { session } = await client(AccessSessionService).getAccessSession({ environment, id });
    return session;
  });
  addSessionExplain(group, act);
  group
    .command("end")
    .argument("<id>", "id of the session")
    .summary("end a session; takes effect within a second on every replica")
    .action(
      act(async ({ client, output, environment }, id: string) => {
        const answer = await client(AccessSessionService).endAccessSession({ environment, id });
        await output.done(EndAccessSessionResponseSchema, answer, `ended access session ${id}`);
      }),
    );
}

function addCreate(group: Command, act: Act): void {
  group
    .command("create")
    .argument("<connections...>", "connections, as integration/connection; integration/* with --allow-several")
    .option("--allow-several", "accept several connections of one integration")
    .addOption(limitOptions.method())
    .addOption(limitOptions.path())
    .addOption(limitOptions.host())
    .addOption(limitOptions.tool())
    .addOption(
      new Option(
        "--scope <scopes>",
        "proxy, syncs, connections:read; repeatable or comma-separated (default: proxy)",
      ).argParser(scopes),
    )
    .option("--for <duration>", "how long it can be used: up to 24h, or as the server allows (default: 1h)", durationMs)
    .option("--budget <count>", "number of requests that it may send in all (default: any number)", count)
    .option("--label <text>", "what it is for")
    .option("--listener <name>", "listener that it may use: data, control, forward; repeatable", listed)
    .option("--address <address>", "address or network of its callers, such as 10.0.0.0/8; repeatable", listed)
    .option("--certificate-name <name>", "name in the client certificate, such as CN:agent; repeatable", listed)
    .option("--service-account <name>", "service account of the edges that may use it; repeatable", listed)
    .summary("create a session for --environment and show its token once")
    .action(
      act(async ({ client, output, environment }, names: readonly string[], options: SessionCreateOptions) => {
        const { allowSeveral = false, scope = [], for: lifetimeMs, budget = 0, label = "", ...rest } = options;
        const limitConnection = names.reduce<readonly LimitedConnection[]>(
          (before, name) => limitedConnections(name, before),
          [],
        );
        const answer = await client(AccessSessionService).createAccessSession({
          environment,
          ...limitsIn({ ...rest, limitConnection }),
          allowSeveral,
          scopes: [...scope],
          budget: BigInt(budget),
          label,
          audience: audienceIn(rest),
          ...(lifetimeMs !== undefined && { lifetime: durationFromMs(lifetimeMs) }),
        });
        await output.one(CreateAccessSessionResponseSchema, answer);
        if (!output.json) await output.note("Save the token now: it is not shown again.");
      }),
    );
}

const connectionText = ({ integration, id }: LimitedConnection): string => `${integration}/${id === "" ? "*" : id}`;

const audienceIn = ({ listener = [], address = [], certificateName = [], serviceAccount = [] }: SessionCreateOptions) =>
  create(AccessAudienceSchema, {
    listeners: [...listener],
    addresses: [...address],
    certificateNames: [...certificateName],
    serviceAccounts: [...serviceAccount],
  });
