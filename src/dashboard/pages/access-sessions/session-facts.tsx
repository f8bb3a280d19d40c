import type { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import {
  type AccessAudience,
  type AccessSession,
  AccessSessionState,
} from "../../../gen/latchkey/v1/access_session_pb.ts";
import { scopeName } from "../../components/button.tsx";
import { Facts } from "../../components/page.tsx";
import { Time } from "../../components/time.tsx";
import { countText } from "../../data/format.ts";

interface SessionFactsProps {
  readonly session: AccessSession;
  /** Permissions that the session and its key both have now. */
  readonly scopes: readonly Scope[];
}

/** The facts of a session: its key, its end, and how much of it was used. */
export function SessionFacts({ session, scopes }: SessionFactsProps) {
  const { createdBy, createdAt, expiresAt, endedAt, endedBy, state, use } = session;
  const isActive = state === AccessSessionState.ACTIVE;
  return (
    <aside class="card session-facts" aria-label="About the session">
      <Facts
        rows={[
          ["Expires", isActive && <Time key="expires" at={expiresAt} />],
          ["Ended", endedAt && <Time key="ended" at={endedAt} />],
          ["Ended by", endedBy],
          ["Budget", <Budget key="budget" session={session} />],
          ["Last used", <Time key="used" at={use?.lastUsedAt} none="Not seen by this replica" />],
          ["Requests", use && countText(use.requests)],
          ["Refused", use && use.refused > 0n && countText(use.refused)],
          ["Permissions", scopes.map(scopeName).join(", ") || "None"],
          ["Usable from", <Audience key="audience" audience={session.audience} />],
          ["Key", createdBy],
          ["Created", <Time key="created" at={createdAt} />],
          ["Counted by", use?.replica],
        ]}
      />
    </aside>
  );
}

function Budget({ session: { budget, budgetLeft } }: { readonly session: AccessSession }) {
  if (budget === 0n) return <>Any number of requests</>;
  if (budgetLeft === undefined) return <>{countText(budget)} requests</>;
  return (
    <>
      {countText(budgetLeft)} of {countText(budget)} left
      <progress class="budget" max={Number(budget)} value={Number(budgetLeft)} aria-label="Budget that is left" />
    </>
  );
}

function Audience({ audience }: { readonly audience: AccessAudience | undefined }) {
  const { listeners = [], addresses = [], certificateNames = [], serviceAccounts = [] } = audience ?? {};
  const parts = [
    ["Listener", listeners],
    ["Address", addresses],
    ["Certificate", certificateNames],
    ["Service account", serviceAccounts],
  ] as const;
  const given = parts.filter(([, values]) => values.length > 0);
  if (given.length === 0) return <>Everywhere</>;
  return (
    <>
      {given.map(([name, values]) => (
        <p key={name}>
          {name} {values.join(" or ")}
        </p>
      ))}
    </>
  );
}
