import { signal, useSignal } from "@preact/signals";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import type { Integration } from "../../../gen/latchkey/v1/integration_pb.ts";
import { Badge } from "../../components/badge.tsx";
import { Button } from "../../components/button.tsx";
import { Select } from "../../components/field.tsx";
import { Empty, FaultNotice, Notice, Skeleton } from "../../components/states.tsx";
import { Table, type TableColumn } from "../../components/table.tsx";
import { Time } from "../../components/time.tsx";
import { visibleText } from "../../data/bytes.ts";
import { countText, msOf } from "../../data/format.ts";
import { useLoad } from "../../data/load.ts";
import { accessSessions, connections } from "../../state/clients.ts";
import { faultOf } from "../../state/fault.ts";
import { linkTo } from "../../state/router.ts";
import { may } from "../../state/session.ts";
import { type ListedTool, readTools, ToolsUnread } from "./tool-reading.ts";

/** The tools of a server as they were last read by this page, with the connection that read them. */
interface ToolListing {
  readonly tools: readonly ListedTool[];
  readonly connection: string;
  readonly atMs: number;
}

/** The listings by environment and integration: another tab of the page does not forget them. */
const listings = signal<ReadonlyMap<string, ToolListing>>(new Map());

interface ToolRow extends ListedTool {
  /** False: a session called it, and the server was not asked or does not list it. */
  readonly isListed: boolean;
  readonly calls: bigint;
  readonly refused: bigint;
  readonly lastMs: number;
}

const mostConnections = 200;
const longestText = 240;

/** The tools of an MCP server, and how sessions use them. */
export function ToolsTab({ integration }: { readonly integration: Integration }) {
  const { environment, key, mcpUrl } = integration;
  const name = `${environment}\0${key}`;
  const listing = listings.value.get(name);
  const { value, fault, reload } = useLoad((signal) => read(environment, key, signal), [environment, key]);
  if (value === undefined) return fault === undefined ? <Skeleton /> : <FaultNotice fault={fault} retry={reload} />;
  const rows = rowsOf(listing?.tools ?? [], value.used);
  const { pathname, search } = new URL(mcpUrl);
  return (
    <>
      {value.connections.length > 0 && (
        <ReadingForm
          connections={value.connections}
          listing={listing}
          read={async (connection) => {
            const tools = await readTools({ environment, integration: key, connection, path: `${pathname}${search}` });
            listings.value = new Map(listings.peek()).set(name, { tools, connection, atMs: Date.now() });
            reload();
          }}
        />
      )}
      {rows.length === 0 ? (
        <NoTools integration={key} hasConnections={value.connections.length > 0} listing={listing} />
      ) : (
        <>
          <Table label="Tools" columns={columns} rows={rows} keyOf={(row) => row.name} />
          <p class="quiet table-note">
            Calls are those of access sessions in use, as this replica has counted them. What a caller may call is
            decided by its limits and by policies.
          </p>
        </>
      )}
    </>
  );
}

interface NoToolsProps {
  readonly integration: string;
  readonly hasConnections: boolean;
  readonly listing: ToolListing | undefined;
}

function NoTools({ integration, hasConnections, listing }: NoToolsProps) {
  if (!hasConnections) {
    return (
      <Empty title="No account is connected">
        <p>The server lists its tools to a connected account.</p>
        <a class="button" href={linkTo("/connect", { integration })}>
          Make a link for a user
        </a>
      </Empty>
    );
  }
  if (listing !== undefined) return <Empty title="The server lists no tool to this account" />;
  return (
    <Empty title="The tools are not read yet">
      <p>Latchkey keeps no list of them. Reading asks the server with the account that you choose.</p>
    </Empty>
  );
}

interface ReadingFormProps {
  readonly connections: readonly string[];
  readonly listing: ToolListing | undefined;
  readonly read: (connection: string) => Promise<void>;
}

function ReadingForm({ connections: ids, listing, read }: ReadingFormProps) {
  const chosen = useSignal(listing?.connection ?? ids[0] ?? "");
  const isBusy = useSignal(false);
  const failure = useSignal("");
  async function submit() {
    isBusy.value = true;
    failure.value = "";
    try {
      await read(chosen.value);
    } catch (error) {
      failure.value = error instanceof ToolsUnread ? error.message : faultOf(error).message;
    } finally {
      isBusy.value = false;
    }
  }
  return (
    <form
      class="tools-form"
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
    >
      <Select
        label="With the connection"
        value={chosen.value}
        onInput={(id) => (chosen.value = id)}
        options={ids.map((id) => [id, id] as const)}
      />
      <Button type="submit" needs={Scope.PROXY} isBusy={isBusy.value}>
        {listing === undefined ? "Read the tools" : "Read again"}
      </Button>
      {listing !== undefined && (
        <p class="quiet">
          Read <Time at={listing.atMs} /> with {listing.connection}
        </p>
      )}
      {failure.value !== "" && (
        <div role="alert">
          <Notice tone="bad">{visibleText(failure.value)}</Notice>
        </div>
      )}
    </form>
  );
}

interface UsedTools {
  readonly connections: readonly string[];
  readonly used: ReadonlyMap<string, Pick<ToolRow, "calls" | "refused" | "lastMs">>;
}

async function read(environment: string, integration: string, signal: AbortSignal): Promise<UsedTools> {
  if (!may(Scope.CONNECTIONS_READ)) return { connections: [], used: new Map() };
  const filter = { integrations: [integration] };
  const [known, { sessions }] = await Promise.all([
    connections.listConnections({ environment, filter, pageSize: mostConnections }, { signal }),
    accessSessions.listAccessSessions({ environment, inUse: true, pageSize: 1_000 }, { signal }),
  ]);
  const used = new Map<string, Pick<ToolRow, "calls" | "refused" | "lastMs">>();
  for (const tool of sessions.flatMap(({ use }) => use?.tools ?? [])) {
    if (tool.integration !== integration) continue;
    const { calls = 0n, refused = 0n, lastMs = 0 } = used.get(tool.tool) ?? {};
    used.set(tool.tool, {
      calls: calls + tool.calls,
      refused: refused + tool.refused,
      lastMs: Math.max(lastMs, msOf(tool.lastCalledAt) ?? 0),
    });
  }
  return { connections: known.connections.map(({ ref }) => ref?.id ?? ""), used };
}

const noUse = { calls: 0n, refused: 0n, lastMs: 0 };

function rowsOf(tools: readonly ListedTool[], used: UsedTools["used"]): readonly ToolRow[] {
  const listed = new Map(
    tools.map((tool) => [tool.name, { ...tool, isListed: true, ...noUse, ...used.get(tool.name) }]),
  );
  const others = [...used].filter(([name]) => !listed.has(name));
  const unlisted = { title: "", description: "", isReadOnly: false, isDestructive: false, isListed: false };
  return [...listed.values(), ...others.map(([name, use]) => ({ ...unlisted, name, ...use }))];
}

const shortened = (text: string): string => (text.length > longestText ? `${text.slice(0, longestText)}…` : text);

const columns: readonly TableColumn<ToolRow>[] = [
  {
    name: "Tool",
    show: ({ name, title, description }) => (
      <>
        <code>{visibleText(name)}</code>
        <span class="marked-sub">{visibleText(shortened(description === "" ? title : description))}</span>
      </>
    ),
  },
  { name: "The server says", show: (row) => <Hint row={row} />, isMinor: true },
  { name: "Calls", show: ({ calls }) => countText(calls), isNumber: true },
  {
    name: "Refused",
    show: ({ refused }) => <span class={refused === 0n ? "quiet" : "bad-text"}>{countText(refused)}</span>,
    isNumber: true,
    isMinor: true,
  },
  {
    name: "Last call",
    show: ({ lastMs }) => <Time at={lastMs === 0 ? undefined : lastMs} />,
    isMinor: true,
  },
];

/** What the server says about a tool. Nothing proves it. */
function Hint({ row: { isReadOnly, isDestructive, isListed } }: { readonly row: ToolRow }) {
  if (!isListed) return <Badge tone="quiet">Not listed</Badge>;
  if (isDestructive) return <Badge tone="bad">Deletes</Badge>;
  return isReadOnly ? <Badge tone="good">Only reads</Badge> : <span class="quiet">–</span>;
}
