import type { Replica } from "../../../gen/latchkey/v1/system_pb.ts";
import { Badge } from "../../components/badge.tsx";
import { Section } from "../../components/page.tsx";
import { FaultNotice, Skeleton } from "../../components/states.tsx";
import { Table, type TableColumn } from "../../components/table.tsx";
import { Time } from "../../components/time.tsx";
import { counted, words } from "../../data/format.ts";
import { useLoad } from "../../data/load.ts";
import { system } from "../../state/clients.ts";

/** What each duty is, as a sentence. */
const duties: Readonly<Record<string, string>> = {
  deliveries: "Delivers webhooks and events to your application",
  runs: "Starts scheduled syncs",
  revocations: "Revokes the grants of deleted connections",
  channels: "Renews watch channels",
  descriptions: "Asks providers about imported connections",
  housekeeping: "Deletes what is too old, and watches for credentials that end",
};

const columns: readonly TableColumn<Replica>[] = [
  {
    name: "Host",
    show: ({ host, answering }) => (
      <span class="state-line">
        {host || "unnamed"}
        {answering && <Badge tone="info">Answers this page</Badge>}
      </span>
    ),
  },
  { name: "Version", show: ({ version }) => version, isMinor: true },
  { name: "Started", show: ({ startedAt }) => <Time at={startedAt} /> },
  { name: "Last seen", show: ({ seenAt }) => <Time at={seenAt} />, isMinor: true },
  {
    name: "Behind",
    show: ({ behind }) => (behind === 0n ? <span class="quiet">no</span> : counted(behind, "commit")),
    isMinor: true,
  },
  { name: "Partitions", show: ({ partitions }) => partitions, isMinor: true },
  {
    name: "Background work",
    show: (replica) =>
      replica.duties.length === 0 ? (
        <span class="quiet">none</span>
      ) : (
        <span class="duties">
          {replica.duties.map((duty) => (
            <span key={duty} class="chip" title={duties[duty]}>
              {words(duty)}
            </span>
          ))}
        </span>
      ),
  },
];

/** The processes that share the store. */
export function ReplicasPart() {
  const { value, fault, reload } = useLoad((signal) => system.listReplicas({}, { signal }), []);
  return (
    <Section title="Replicas">
      {fault !== undefined && <FaultNotice fault={fault} retry={reload} />}
      {value === undefined && fault === undefined && <Skeleton lines={2} />}
      {value !== undefined && <Table label="Replicas" columns={columns} rows={value.replicas} keyOf={({ id }) => id} />}
    </Section>
  );
}
