import { Code, ConnectError } from "@connectrpc/connect";
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { ConnectSession } from "../../../gen/latchkey/v1/connect_session_pb.ts";
import type { ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import { connections, connectSessions } from "../../state/clients.ts";

/** What became of a link. */
export type LinkOutcome =
  | { readonly kind: "open"; readonly isOpened: boolean }
  | { readonly kind: "connected"; readonly ref: ConnectionRef }
  | { readonly kind: "ended" };

const lookAgainMs = 1_500;

/** Follows a link until its connection is stored, or it has ended. */
export function useLinkOutcome(session: ConnectSession | undefined): LinkOutcome {
  const outcome = useSignal<LinkOutcome>({ kind: "open", isOpened: false });
  useEffect(() => {
    if (session === undefined) return;
    const over = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const begun = session;
    async function look(): Promise<void> {
      if (document.visibilityState === "visible") {
        const found = await outcomeOf(begun, over.signal).catch(() => undefined);
        if (over.signal.aborted) return;
        if (found !== undefined) outcome.value = found;
      }
      if (outcome.peek().kind === "open") timer = setTimeout(() => void look(), lookAgainMs);
    }
    timer = setTimeout(() => void look(), lookAgainMs);
    return () => {
      clearTimeout(timer);
      over.abort();
    };
  }, [session?.id]);
  return outcome.value;
}

async function outcomeOf(session: ConnectSession, signal: AbortSignal): Promise<LinkOutcome> {
  try {
    const { session: now } = await connectSessions.getConnectSession({ id: session.id }, { signal });
    return { kind: "open", isOpened: now?.browserHash !== "" };
  } catch (error) {
    if (ConnectError.from(error).code !== Code.NotFound) throw error;
    const ref = await connectionOf(session, signal);
    return ref === undefined ? { kind: "ended" } : { kind: "connected", ref };
  }
}

/**
 * Returns the connection that the link can have made: with its tags, and changed after the session. Sessions do not
 * record their connection.
 */
async function connectionOf(
  { environment, tags, endUser, reconnect, allowedIntegrations, revision }: ConnectSession,
  signal: AbortSignal,
): Promise<ConnectionRef | undefined> {
  const wanted = { ...tags, ...(endUser !== undefined && endUser.id !== "" && { end_user_id: endUser.id }) };
  const filter =
    reconnect === undefined
      ? { integrations: [...allowedIntegrations], tags: wanted }
      : { integrations: [reconnect.integration], id: reconnect.id };
  const page = await connections.listConnections({ environment, filter, pageSize: 1_000 }, { signal });
  const [latest] = page.connections
    .filter((one) => one.revision > revision)
    .sort((one, other) => Number(other.revision - one.revision));
  return latest?.ref;
}
