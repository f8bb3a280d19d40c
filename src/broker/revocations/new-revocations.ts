import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { isOfFormerIssuer } from "../../auth/oauth2/token-issuer.ts";
import { sequentialId } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import { resultOfToken } from "../../core/revocation-words.ts";
import { type RevocationTask, RevocationTaskSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import {
  type Connection,
  TokenRevocation_Result as Result,
  Revocation_State,
  RevocationSchema,
  TokenRevocationSchema,
} from "../../gen/latchkey/v1/connection_pb.ts";
import type { Credentials } from "../../gen/latchkey/v1/credentials_pb.ts";
import { type IntegrationSecrets, IntegrationSecretsSchema } from "../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { DeletedGrant, PlannedRevocation, PlanRevocation } from "../connections/grant-removal.ts";
import type { Providers } from "../setup/providers.ts";
import { furtherCredentials, type GrantToken, revocationWayOf, tokensToRevoke } from "./grant-tokens.ts";
import type { RevocationCollections } from "./revocation-collections.ts";

interface NewRevocationsOptions {
  readonly collections: RevocationCollections;
  readonly providers: Providers;
  readonly world: World;
}

/** Returns the function that plans the revocation of a deleted connection's grant. */
export function createRevocationPlan({ collections, providers, world }: NewRevocationsOptions): PlanRevocation {
  const { revocations, revocationTasks } = collections;

  return (deleted) => {
    const { connection, credentials } = deleted;
    const provider = providers.lookUp(connection.provider);
    // Tokens of a former issuer must not be sent to the current one.
    const isGone = credentials === undefined || provider === undefined || isOfFormerIssuer(credentials, provider);
    if (isGone) return { revocation: undefined, changes: [] };
    const main = planFor({ deleted, provider, credentials, furtherToken: "" });
    // Tokens of a user beside that of a bot are grants of their own, and are told of one by one.
    const further = furtherCredentials(credentials).flatMap(
      ([furtherToken, held]) => planFor({ deleted, provider, credentials: held, furtherToken }).changes,
    );
    return { ...main, changes: [...main.changes, ...further] };
  };

  function planFor({ deleted, provider, credentials, furtherToken }: GrantToPlan): PlannedRevocation {
    const { connection, integration, secrets, keepGrant, actor } = deleted;
    const way = revocationWayOf(provider);
    const nowMs = world.now();
    const tokens = tokensToRevoke(credentials, way, nowMs);
    const isGrant = way === "request" || credentials.kind.case === "oauth2";
    if (tokens.length === 0 || !isGrant) return { revocation: undefined, changes: [] };
    const decided = decidedResult({ way, keepGrant, keepsGrants: integration.keepGrants });
    const now = timestampFromMs(nowMs);
    const revocation = create(RevocationSchema, {
      id: sequentialId(nowMs),
      ...(connection.ref === undefined ? {} : { ref: connection.ref }),
      provider: provider.name,
      endUserId: endUserIdOf(connection),
      furtherToken,
      state: decided === undefined ? Revocation_State.PENDING : Revocation_State.DONE,
      tokens: tokens.map(({ name: token }) => create(TokenRevocationSchema, { token, ...decided })),
      createdAt: now,
      ...(decided === undefined ? { nextAttemptAt: now } : { endedAt: now }),
    });
    const added = revocations.added(revocation);
    if (decided !== undefined) {
      count(tokens, decided.result);
      return { revocation, changes: added };
    }
    const task: RevocationTask = create(RevocationTaskSchema, {
      id: revocation.id,
      connection,
      credentials,
      integration,
      ...(secrets === undefined ? {} : { secrets: clientSecretsOf(secrets) }),
      // A custom provider may be deleted before the provider answers.
      ...(provider.custom ? { provider } : {}),
      actor,
      furtherToken,
      createdMs: nowMs,
      dueMs: nowMs,
    });
    return { revocation, changes: [...added, ...revocationTasks.added(task)] };
  }

  function count(tokens: readonly GrantToken[], result: Result): void {
    world.metrics.revokedTokens.inc({ result: resultOfToken({ result }) }, tokens.length);
  }
}

interface GrantToPlan {
  readonly deleted: DeletedGrant;
  readonly provider: Provider;
  readonly credentials: Credentials;
  readonly furtherToken: string;
}

interface RevocationChoice {
  readonly way: ReturnType<typeof revocationWayOf>;
  readonly keepGrant: boolean | undefined;
  readonly keepsGrants: boolean;
}

/** Returns the result that is known without the provider; undefined: the provider is asked. */
function decidedResult({ way, keepGrant, keepsGrants }: RevocationChoice) {
  if (keepGrant === true) return { result: Result.KEPT, cause: "requested" };
  if (keepGrant === undefined && keepsGrants) return { result: Result.KEPT, cause: "integration" };
  return way === "unsupported" ? { result: Result.NOT_SUPPORTED, cause: "" } : undefined;
}

/** Returns the secrets of the client alone: no request of a revocation needs others. */
const clientSecretsOf = (secrets: IntegrationSecrets): IntegrationSecrets =>
  create(IntegrationSecretsSchema, { ...secrets, webhookSecret: "" });

/** The end user of a connection, by its own field or by the tag that mirrors it. */
export const endUserIdOf = ({ endUser, tags }: Pick<Connection, "endUser" | "tags">): string =>
  endUser?.id || (tags["end_user_id"] ?? "");
