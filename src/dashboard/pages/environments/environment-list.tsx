import type { Environment } from "../../../gen/latchkey/v1/environment_pb.ts";
import { Badge } from "../../components/badge.tsx";
import { Empty } from "../../components/states.tsx";
import { PagedTable, type TableColumn } from "../../components/table.tsx";
import { Time } from "../../components/time.tsx";
import { usePager } from "../../data/pager.ts";
import { environments } from "../../state/clients.ts";
import { linkTo, pathOf } from "../../state/router.ts";

const columns: readonly TableColumn<Environment>[] = [
  { name: "Name", show: ({ name }) => name },
  {
    name: "Forward URL",
    show: ({ forwardUrl }) => (forwardUrl === "" ? <span class="quiet">none</span> : forwardUrl),
  },
  {
    name: "Allowed origins",
    show: ({ allowedOrigins }) =>
      allowedOrigins.length === 0 ? <span class="quiet">none</span> : allowedOrigins.join(", "),
    isMinor: true,
  },
  {
    name: "Managed in",
    show: ({ declared }) =>
      declared ? <Badge tone="info">Configuration file</Badge> : <span class="quiet">here</span>,
    isMinor: true,
  },
  { name: "Created", show: ({ createdAt }) => <Time at={createdAt} /> },
];

export function EnvironmentList() {
  const pager = usePager(async (pageToken, signal) => {
    const page = await environments.listEnvironments({ pageToken, pageSize: 50 }, { signal });
    return { items: page.environments, nextPageToken: page.nextPageToken };
  }, []);
  return (
    <PagedTable
      label="Environments"
      pager={pager}
      columns={columns}
      keyOf={({ name }) => name}
      linkOf={({ name }) => linkTo(pathOf("environments", name), { env: name })}
      empty={
        <Empty title="No environments">
          <p>Create one for each deployment of your application, such as staging and prod.</p>
        </Empty>
      }
    />
  );
}
