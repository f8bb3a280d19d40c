import { useSignal } from "@preact/signals";
import type { Connection, ConnectionRef } from "../../../../gen/latchkey/v1/connection_pb.ts";
import { CopyField } from "../../../components/copy.tsx";
import { TabFilter } from "../../../components/filters.tsx";
import { Facts, PageFrame, Section } from "../../../components/page.tsx";
import { Empty, FaultNotice, Skeleton } from "../../../components/states.tsx";
import { Time } from "../../../components/time.tsx";
import { useLoad } from "../../../data/load.ts";
import { useWatch } from "../../../data/watch.ts";
import { connections } from "../../../state/clients.ts";
import { environmentName } from "../../../state/environment.ts";
import type { PageProps } from "../../../state/page-route.ts";
import { linkTo, pathOf, queryValue } from "../../../state/router.ts";
import { TryRequest } from "../../requests/try-request.tsx";
import { ownerOf } from "../connection-columns.tsx";
import { StateBadge } from "../state-words.tsx";
import { ChoicesSection } from "./choices-section.tsx";
import { ConnectionActions, DeleteSection } from "./connection-actions.tsx";
import { CredentialsSection } from "./credentials-section.tsx";
import { HealthNotice } from "./health-notice.tsx";
import { ConfigEditor, MetadataEditor } from "./json-editors.tsx";
import { TagsEditor } from "./tags-editor.tsx";
import { TimeLine } from "./time-line.tsx";

/** One connection: how it is, what happened, and what can be done. */
export function ConnectionPage({ values: { integration = "", id = "" } }: PageProps) {
  const environment = environmentName.value;
  const ref = { environment, integration, id };
  const { connection, fault, isGone, reload } = useConnection(ref);
  const above = [["Connections", linkTo("/connections")]] as const;
  if (isGone || fault?.code === "unknown_connection") {
    return (
      <PageFrame title={id} above={above}>
        <Empty title={isGone ? "This connection was deleted" : "There is no such connection"}>
          <p>
            Nothing is stored under {integration}/{id} in the environment {environment}.
          </p>
          <a href={linkTo("/audit", { target: `${integration}/${id}` })}>What happened to it</a>
        </Empty>
      </PageFrame>
    );
  }
  if (connection === undefined) {
    return (
      <PageFrame title={id} above={above}>
        {fault === undefined ? <Skeleton /> : <FaultNotice fault={fault} retry={reload} />}
      </PageFrame>
    );
  }
  return <ConnectionDetails key={`${environment}/${integration}/${id}`} connection={connection} onChange={reload} />;
}

/** Reads a connection, and again whenever it changes. */
function useConnection({ environment, integration, id }: Pick<ConnectionRef, "environment" | "integration" | "id">) {
  const ref = { environment, integration, id };
  const isGone = useSignal(false);
  const { value, fault, reload } = useLoad(
    async (signal) => {
      const found = await connections.getConnection({ ref }, { signal });
      isGone.value = false;
      return found.connection;
    },
    [environment, integration, id],
  );
  useWatch(
    (signal) => connections.watchConnections({ environment, integration, changesOnly: true }, { signal }),
    ({ event }) => {
      if (event.case === "put" && event.value.ref?.id === id) reload();
      if (event.case === "deleted" && event.value.ref?.id === id) isGone.value = true;
    },
    { dependencies: [environment, integration, id], onReopen: reload },
  );
  // While another connection is read, the one before is not shown under its name.
  const isIt = value?.ref?.id === id && value.ref.integration === integration && value.ref.environment === environment;
  return { connection: isIt ? value : undefined, fault, isGone: isGone.value, reload };
}

interface ConnectionDetailsProps {
  readonly connection: Connection;
  readonly onChange: () => void;
}

const tabs = [
  ["", "Timeline"],
  ["try", "Try a request"],
] as const;

function ConnectionDetails({ connection, onChange }: ConnectionDetailsProps) {
  const { integration = "", id = "" } = connection.ref ?? {};
  return (
    <PageFrame
      title={id}
      above={[["Connections", linkTo("/connections")]]}
      lead={
        <span class="connection-lead">
          <StateBadge state={connection.state} stateReason={connection.stateReason} />
          <a href={linkTo(pathOf("integrations", integration))}>{integration}</a>
          <span>{ownerOf(connection)}</span>
        </span>
      }
      actions={<ConnectionActions connection={connection} onChange={onChange} />}
    >
      <HealthNotice connection={connection} />
      <div class="connection-columns">
        <div>
          <TabFilter name="tab" label="What to show" options={tabs} />
          {queryValue("tab") === "try" && connection.ref !== undefined ? (
            <TryRequest connection={connection.ref} />
          ) : (
            <TimeLine connection={connection} />
          )}
        </div>
        <aside aria-label="About this connection">
          <ChoicesSection connection={connection} onChange={onChange} />
          <CredentialsSection connection={connection} />
          <About connection={connection} />
          <TagsEditor connection={connection} onChange={onChange} />
          <MetadataEditor connection={connection} onChange={onChange} />
          <ConfigEditor connection={connection} onChange={onChange} />
          <DeleteSection connection={connection} />
        </aside>
      </div>
    </PageFrame>
  );
}

const About = ({ connection }: { readonly connection: Connection }) => {
  const { ref, provider, createdAt, updatedAt, lastFetchedAt, webhookUrlOverride, number } = connection;
  const [integration, id] = [ref?.integration ?? "", ref?.id ?? ""];
  return (
    <Section title="About">
      <Facts
        rows={[
          ["ID", <CopyField key="id" text={id} label="ID" />],
          ["Provider", provider],
          ["Number", String(number)],
          ["Created", <Time key="created" at={createdAt} />],
          ["Changed", <Time key="changed" at={updatedAt} />],
          ["Last used", <Time key="used" at={lastFetchedAt} />],
          ["Deliveries go to", webhookUrlOverride],
          [
            "See also",
            <span key="also" class="see-also">
              <a href={linkTo("/webhooks", { integration, connection: id })}>Webhooks</a>
              <a href={linkTo("/channels", { integration, connection: id })}>Channels</a>
              <a href={linkTo("/requests", { integration, connection: id })}>Requests</a>
              <a href={linkTo("/logs", { integration, connection: id })}>Logs</a>
              <a href={linkTo("/runs", { integration, connection: id })}>Runs</a>
              <a href={linkTo(pathOf("records", integration, id))}>Records</a>
            </span>,
          ],
        ]}
      />
    </Section>
  );
};
