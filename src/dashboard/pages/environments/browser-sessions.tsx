import { useSignal } from "@preact/signals";
import type { BrowserSession } from "../../../gen/latchkey/v1/sign_in_pb.ts";
import { Badge } from "../../components/badge.tsx";
import { Button } from "../../components/button.tsx";
import { Confirm } from "../../components/confirm.tsx";
import { Empty } from "../../components/states.tsx";
import { PagedTable, type TableColumn } from "../../components/table.tsx";
import { Time } from "../../components/time.tsx";
import { usePager } from "../../data/pager.ts";
import { signIns } from "../../state/clients.ts";
import { forgetSession } from "../../state/session.ts";

/** The browsers that are signed in: for a key with the scope admin, those of everybody. */
export function BrowserSessions() {
  const asked = useSignal<BrowserSession | undefined>(undefined);
  const pager = usePager(async (pageToken, signal) => {
    const page = await signIns.listBrowserSessions({ pageToken, pageSize: 50 }, { signal });
    return { items: page.sessions, nextPageToken: page.nextPageToken };
  }, []);
  return (
    <>
      <PagedTable
        label="Browser sessions"
        pager={pager}
        columns={columns((session) => (asked.value = session))}
        keyOf={({ id }) => id}
        empty={
          <Empty title="No browser is signed in">
            <p>A session appears here when somebody signs in with a key, a link or an identity provider.</p>
          </Empty>
        }
      />
      {asked.value !== undefined && (
        <SignOutQuestion of={asked.value} onClose={() => (asked.value = undefined)} onDone={pager.reload} />
      )}
    </>
  );
}

interface SignOutQuestionProps {
  readonly of: BrowserSession;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

const SignOutQuestion = ({ of, onClose, onDone }: SignOutQuestionProps) => (
  <Confirm
    title={of.current ? "Sign out of this browser?" : `Sign out ${whoOf(of)}?`}
    verb="Sign out"
    isDanger
    done={`Signed out ${whoOf(of)}.`}
    onClose={onClose}
    act={async () => {
      await signIns.revokeBrowserSession({ id: of.id });
      if (of.current) forgetSession();
      else onDone();
    }}
  >
    <p>The browser at {of.address || "an unknown address"} must sign in again.</p>
  </Confirm>
);

const whoOf = ({ person, keyId }: BrowserSession): string => person || keyId;

const columns = (ask: (session: BrowserSession) => void): readonly TableColumn<BrowserSession>[] => [
  {
    name: "Who",
    show: (session) => (
      <span class="state-line">
        {whoOf(session)}
        {session.current && <Badge tone="info">This browser</Badge>}
      </span>
    ),
  },
  { name: "Browser", show: ({ userAgent }) => <span title={userAgent}>{browserOf(userAgent)}</span> },
  { name: "Address", show: ({ address }) => address, isMinor: true },
  {
    name: "Environments",
    show: ({ environments }) => environments.join(", ") || <span class="quiet">all</span>,
    isMinor: true,
  },
  { name: "Signed in", show: ({ createdAt }) => <Time at={createdAt} />, isMinor: true },
  { name: "Last used", show: ({ lastUsedAt }) => <Time at={lastUsedAt} none="never" /> },
  { name: "Ends", show: ({ expiresAt }) => <Time at={expiresAt} />, isMinor: true },
  {
    name: "Actions",
    show: (session) => (
      <span class="row-actions">
        <Button isSmall label={`Sign out ${whoOf(session)}`} onClick={() => ask(session)}>
          Sign out
        </Button>
      </span>
    ),
  },
];

/** Marks of browsers in a `User-Agent`. Later ones are in those of the earlier ones too. */
const marks = [
  ["Edg", "Edge"],
  ["OPR", "Opera"],
  ["Firefox", "Firefox"],
  ["Chrome", "Chrome"],
  ["Safari", "Safari"],
] as const;

/** "Firefox on Linux", from the `User-Agent` that the browser sent. */
function browserOf(userAgent: string): string {
  const [, name = ""] = marks.find(([mark]) => userAgent.includes(`${mark}/`)) ?? [];
  const [system = ""] = /Windows|Android|iPhone|iPad|Mac OS X|Linux|CrOS/.exec(userAgent) ?? [];
  const known = [name, system.replace("Mac OS X", "macOS")].filter((part) => part !== "");
  return known.length === 0 ? "Unknown" : known.join(" on ");
}
