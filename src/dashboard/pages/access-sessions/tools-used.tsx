import type { AccessSessionToolUse, AccessSessionUse } from "../../../gen/latchkey/v1/access_session_pb.ts";
import { Section } from "../../components/page.tsx";
import { Table, type TableColumn } from "../../components/table.tsx";
import { Time } from "../../components/time.tsx";
import { visibleText } from "../../data/bytes.ts";
import { countText } from "../../data/format.ts";

const columns: readonly TableColumn<AccessSessionToolUse>[] = [
  { name: "Tool", show: ({ tool }) => <code>{visibleText(tool)}</code> },
  {
    name: "Of",
    show: ({ integration }) => (integration === "" ? <span class="quiet">Latchkey</span> : integration),
    isMinor: true,
  },
  { name: "Calls", show: ({ calls }) => countText(calls), isNumber: true },
  {
    name: "Refused",
    show: ({ refused }) => <span class={refused === 0n ? "quiet" : "bad-text"}>{countText(refused)}</span>,
    isNumber: true,
  },
  { name: "Last call", show: ({ lastCalledAt }) => <Time at={lastCalledAt} />, isMinor: true },
];

/** The tools that a session called last, as one replica has seen them. */
export const ToolsUsed = ({ use }: { readonly use: AccessSessionUse | undefined }) => (
  <Section title="Tools used lately">
    {use === undefined || use.tools.length === 0 ? (
      <p class="quiet">This replica has seen no call of a tool.</p>
    ) : (
      <Table
        label="Tools used lately"
        columns={columns}
        rows={use.tools}
        keyOf={({ integration, tool }) => `${integration}/${tool}`}
      />
    )}
  </Section>
);
