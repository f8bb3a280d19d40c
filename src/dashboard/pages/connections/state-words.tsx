import { type Connection, Connection_State as State } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { BadgeTone } from "../../components/badge.tsx";
import { Badge } from "../../components/badge.tsx";
import { words } from "../../data/format.ts";

/** A state as people read it, and in the address. */
interface ConnectionStateWords {
  readonly state: State;
  readonly key: string;
  readonly name: string;
  readonly tone: BadgeTone;
}

const healthy: ConnectionStateWords = { state: State.ACTIVE, key: "active", name: "Healthy", tone: "good" };

/** What needs a person first. */
export const stateWords: readonly ConnectionStateWords[] = [
  {
    state: State.REAUTHORIZATION_REQUIRED,
    key: "reauthorization_required",
    name: "Needs reconnect",
    tone: "bad",
  },
  { state: State.REFRESH_FAILING, key: "refresh_failing", name: "Refresh failing", tone: "warn" },
  { state: State.EXPIRING, key: "expiring", name: "Expiring", tone: "warn" },
  healthy,
];

export const wordsOf = (state: State): ConnectionStateWords => stateWords.find((one) => one.state === state) ?? healthy;

interface ReasonWords {
  /** What happened, in a sentence. */
  readonly what: string;
  /** What the person can do. */
  readonly todo: string;
}

const reconnect = "Send the end user a reconnect link.";

/** The reasons of a state. A reason of a later version is shown as it is. */
const reasons: Readonly<Record<string, ReasonWords>> = {
  invalid_grant: { what: "The provider no longer accepts the refresh token.", todo: reconnect },
  revoked: { what: "The end user, or an administrator, took the access back.", todo: reconnect },
  grant_expired: { what: "The grant is older than the provider allows.", todo: reconnect },
  idle_too_long: { what: "The refresh token was not used for too long.", todo: reconnect },
  testing_grant_expired: {
    what: "The provider ends grants of apps that are in testing.",
    todo: "Publish the app at the provider, then send a reconnect link.",
  },
  too_many_grants: {
    what: "The account has more live grants than the provider allows.",
    todo: "Delete connections that are not needed, then send a reconnect link.",
  },
  rotation_response_lost: { what: "The answer with the new refresh token was lost.", todo: reconnect },
  restored_backup: { what: "The store was restored from a backup that holds an older refresh token.", todo: reconnect },
  used_elsewhere: {
    what: "Another system used the refresh token.",
    todo: "Stop the other system, then send a reconnect link.",
  },
  credentials_expired: { what: "The credentials have expired and cannot be refreshed.", todo: reconnect },
  credentials_expire: { what: "The credentials expire soon and cannot be refreshed.", todo: reconnect },
  grant_expires: { what: "The grant ends soon.", todo: "Send the end user a reconnect link before it does." },
  provider_unavailable: {
    what: "The provider does not answer refreshes.",
    todo: "Nothing to do: Latchkey tries again. Look at the log if it lasts.",
  },
  answer_lost: { what: "The answer to a refresh was lost.", todo: "Nothing to do: Latchkey tries again." },
  answer_unusable: {
    what: "The provider answers refreshes with something that is not a token.",
    todo: "Compare the log with the description of the provider.",
  },
  client_refused: {
    what: "The provider refuses the client ID or the client secret.",
    todo: "Correct the client secret of the integration.",
  },
  integration_misconfigured: {
    what: "The integration lacks something that a refresh needs.",
    todo: "Complete the settings of the integration.",
  },
  failing_for_days: {
    what: "Refreshes have failed for days.",
    todo: "Look at the log; send a reconnect link if the cause is gone.",
  },
};

export const reasonWords = (reason: string): ReasonWords =>
  reasons[reason] ?? { what: `${words(reason)}.`, todo: "Look at the log of the connection." };

export const StateBadge = ({ state, stateReason }: Pick<Connection, "state" | "stateReason">) => {
  const { name, tone } = wordsOf(state);
  return (
    <Badge tone={tone} title={stateReason === "" ? undefined : reasonWords(stateReason).what}>
      {name}
    </Badge>
  );
};

/** Only a new authorization helps. */
export const needsReconnect = ({ state }: Pick<Connection, "state">): boolean =>
  state === State.REAUTHORIZATION_REQUIRED || state === State.EXPIRING;
