import type { Command } from "commander";
import { InvalidArgumentError } from "commander";
import { resultOfToken, stateOfRevocation } from "../../../core/revocation-words.ts";
import {
  ConnectionService,
  type Revocation,
  Revocation_State,
  RevocationSchema,
} from "../../../gen/latchkey/v1/connection_pb.ts";
import type { Act } from "../../session.ts";
import type { Tone } from "../../terminal/paint.ts";
import { listCommand } from "../command-kinds.ts";
import { nameOf } from "./names.ts";

interface RevocationListOptions {
  readonly integration?: string;
  readonly connection?: string;
  readonly endUser?: string;
  readonly state?: readonly Revocation_State[];
}

const states = { pending: Revocation_State.PENDING, done: Revocation_State.DONE, failed: Revocation_State.FAILED };
const stateNames = Object.keys(states);

/** Adds `connections revocations`. */
export function addRevocations(group: Command, act: Act): void {
  const list = group
    .command("revocations")
    .summary("show what became of the grants of deleted connections, newest first")
    .option("--integration <key>", "only connections of this integration")
    .option("--connection <connection>", "only connections with this id")
    .option("--end-user <id>", "only connections of this end user")
    .option("--state <state>", `only revocations in this state: ${stateNames.join(", ")}; repeatable`, statesNamed);
  listCommand(list, act, {
    schema: RevocationSchema,
    none: "no revocations",
    defaultLimit: 100,
    maxPageSize: 1_000,
    rpc: ({ client, environment }, page, given: RevocationListOptions) => {
      const { integration = "", connection: connectionId = "", endUser: endUserId = "", state = [] } = given;
      const filter = { integration, connectionId, endUserId, states: [...state] };
      return client(ConnectionService).listRevocations({ environment, ...filter, ...page });
    },
    items: ({ revocations }) => revocations,
    columns: [
      { title: "CONNECTION", text: ({ ref }) => nameOf(ref) },
      { title: "PROVIDER", text: ({ provider }) => provider },
      { title: "STATE", text: stateOfRevocation, tone: toneOf },
      { title: "TOKENS", text: tokensText },
      { title: "LAST ERROR", text: ({ lastError }) => lastError },
      { title: "DELETED", time: ({ createdAt }) => createdAt },
    ],
  });
}

function statesNamed(text: string, before: readonly Revocation_State[] = []): readonly Revocation_State[] {
  if (!Object.hasOwn(states, text)) throw new InvalidArgumentError(`It must be one of ${stateNames.join(", ")}.`);
  return [...before, states[text as keyof typeof states]];
}

function toneOf({ state }: Revocation): Tone {
  if (state === Revocation_State.FAILED) return "bad";
  return state === Revocation_State.DONE ? "good" : "warning";
}

/** What became of each token: `refresh_token revoked, access_token kept (shared)`. */
export const tokensText = ({ tokens, furtherToken }: Pick<Revocation, "tokens" | "furtherToken">): string =>
  tokens
    .map(
      (one) =>
        `${furtherToken === "" ? "" : `${furtherToken} `}${one.token} ${resultOfToken(one)}${one.cause === "" ? "" : ` (${one.cause})`}`,
    )
    .join(", ");
