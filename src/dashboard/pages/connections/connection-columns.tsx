import type { Connection } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { TableColumn } from "../../components/table.tsx";
import { Time } from "../../components/time.tsx";
import { words } from "../../data/format.ts";
import type { ListedConnection } from "./connection-list.ts";
import { StateBadge } from "./state-words.tsx";

/** The name of the owner, as the application gave it. */
export const ownerOf = ({ endUser, tags }: Connection): string =>
  endUser?.displayName ||
  endUser?.email ||
  (tags["end_user_display_name"] ?? tags["end_user_email"] ?? tags["end_user_id"] ?? endUser?.id ?? "");

const mirrored = /^(?:end_user|organization)_/;

/** Tags that the owner does not say already. */
export const ownTags = ({ tags }: Connection): readonly string[] =>
  Object.entries(tags)
    .filter(([key]) => !mirrored.test(key))
    .map(([key, value]) => `${key}=${value}`);

export const connectionColumns: readonly TableColumn<ListedConnection>[] = [
  { name: "Connection", show: ({ connection }) => connection.ref?.id },
  { name: "Integration", show: ({ connection }) => connection.ref?.integration, isMinor: true },
  { name: "End user", show: ({ connection }) => ownerOf(connection) || <span class="quiet">–</span>, isMinor: true },
  {
    name: "State",
    show: ({ connection, isDeleted }) =>
      isDeleted ? (
        <span class="quiet">Deleted</span>
      ) : (
        <>
          <StateBadge state={connection.state} stateReason={connection.stateReason} />
          {connection.stateReason !== "" && <span class="state-reason"> {words(connection.stateReason)}</span>}
        </>
      ),
  },
  {
    name: "Tags",
    show: ({ connection }) =>
      ownTags(connection).map((tag) => (
        <span key={tag} class="chip" title={tag}>
          {tag}
        </span>
      )),
    isMinor: true,
  },
  { name: "Last used", show: ({ connection }) => <Time at={connection.lastFetchedAt} />, isMinor: true },
];
