import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import { type Connection, ListConnectionsRequest_Order as Order } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { Log } from "../../../gen/latchkey/v1/log_pb.ts";
import { Section } from "../../components/page.tsx";
import { FaultNotice } from "../../components/states.tsx";
import { Table, type TableColumn } from "../../components/table.tsx";
import { Time } from "../../components/time.tsx";
import { useLoad } from "../../data/load.ts";
import { connections, logs } from "../../state/clients.ts";
import { linkTo, pathOf } from "../../state/router.ts";
import { may } from "../../state/session.ts";
import { StateBadge } from "../connections/state-words.tsx";

interface RecentActivityProps {
  readonly environment: string;
  readonly integration: string;
  /** Changes when the lists have to be read again. */
  readonly round: string;
}

const shown = 5;

const connectionColumns: readonly TableColumn<Connection>[] = [
  { name: "Connection", show: ({ ref }) => ref?.id },
  { name: "State", show: (one) => <StateBadge {...one} /> },
  { name: "Created", show: ({ createdAt }) => <Time at={createdAt} />, isMinor: true },
];

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

const failureColumns: readonly TableColumn<Log>[] = [
  { name: "What failed", show: ({ lines, operation }) => capital(lines.at(-1)?.message ?? operation) },
  { name: "Connection", show: ({ connectionId }) => connectionId, isMinor: true },
  { name: "When", show: ({ createdAt }) => <Time at={createdAt} /> },
];

/** The newest connections of an integration, and what failed lately. */
export const RecentActivity = (props: RecentActivityProps) =>
  may(Scope.CONNECTIONS_READ) ? <KnownActivity {...props} /> : null;

function KnownActivity({ environment, integration, round }: RecentActivityProps) {
  const { value, fault, reload } = useLoad(
    async (signal) => {
      const filter = { integrations: [integration] };
      const [newest, failed] = await Promise.all([
        connections.listConnections({ environment, filter, order: Order.NEWEST_FIRST, pageSize: shown }, { signal }),
        logs.listLogs({ environment, integration, failed: true, pageSize: shown }, { signal }),
      ]);
      return { connections: newest.connections, failures: failed.logs };
    },
    [environment, integration, round],
  );
  if (fault !== undefined) return <FaultNotice fault={fault} retry={reload} />;
  if (value === undefined) return null;
  return (
    <>
      <Section title="Connections" actions={<a href={linkTo("/connections", { integration })}>Show all</a>}>
        {value.connections.length === 0 ? (
          <p class="quiet">
            No account is connected yet. Test it with one of your own, or{" "}
            <a href={linkTo("/connect", { integration })}>make a link for a user</a>.
          </p>
        ) : (
          <Table
            label="Newest connections"
            columns={connectionColumns}
            rows={value.connections}
            keyOf={({ number }) => String(number)}
            linkOf={({ ref }) => linkTo(pathOf("connections", integration, ref?.id ?? ""))}
          />
        )}
      </Section>
      {value.failures.length > 0 && (
        <Section title="Last failures" actions={<a href={linkTo("/logs", { integration, failed: "1" })}>Show all</a>}>
          <Table
            label="Last failures"
            columns={failureColumns}
            rows={value.failures}
            keyOf={({ id }) => id}
            linkOf={({ id }) => linkTo(pathOf("logs", id))}
          />
        </Section>
      )}
    </>
  );
}
