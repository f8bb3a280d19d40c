import type {
  AccessSessionConnection,
  AccessSessionPolicy,
  ExplainAccessSessionResponse,
} from "../../../gen/latchkey/v1/access_session_pb.ts";
import { Connection_State } from "../../../gen/latchkey/v1/connection_pb.ts";
import { PolicyEffect } from "../../../gen/latchkey/v1/policy_pb.ts";
import { Badge, type BadgeTone } from "../../components/badge.tsx";
import { Facts, Section } from "../../components/page.tsx";
import { Notice } from "../../components/states.tsx";
import { Table, type TableColumn } from "../../components/table.tsx";
import { visibleText } from "../../data/bytes.ts";
import { capitalized } from "../../data/format.ts";
import { linkTo, pathOf } from "../../state/router.ts";
import { wordsOf } from "../connections/state-words.tsx";

/** What a session may do now: each connection with its limits, and the policies about its requests. */
export const Permissions = ({ explained }: { readonly explained: ExplainAccessSessionResponse }) => (
  <>
    <section class="section" aria-label="What may this session do?">
      <h2>{explained.refusal === "" ? "What may this session do?" : "What could this session do?"}</h2>
      {explained.connections.length === 0 && (
        <p class="quiet">Nothing: its limits and those of its key have no connection in common.</p>
      )}
      {explained.connections.map((one) => (
        <ConnectionCard key={`${one.integration}/${one.connection}`} one={one} />
      ))}
    </section>
    <Policies policies={explained.policies} />
  </>
);

const anything = <span class="quiet">All</span>;

function ConnectionCard({ one }: { readonly one: AccessSessionConnection }) {
  const { integration, connection, state, mcp, hosts, methods, paths, refusal } = one;
  const words = state === Connection_State.UNSPECIFIED ? undefined : wordsOf(state);
  return (
    <article class="card permission" aria-label={`${integration}/${connection}`}>
      <div class="permission-head">
        <h3>
          {connection === "" ? (
            <>
              All of <a href={linkTo(pathOf("integrations", integration))}>{integration}</a>
            </>
          ) : (
            <a href={linkTo(pathOf("connections", integration, connection))}>
              {integration}/{connection}
            </a>
          )}
        </h3>
        {mcp && <Badge tone="info">MCP server</Badge>}
        {words !== undefined && <Badge tone={words.tone}>{words.name}</Badge>}
      </div>
      {refusal === "" ? (
        <Facts
          rows={[
            ["Tools", mcp && <Tools one={one} />],
            ["Methods", methods.length === 0 ? anything : <Chips values={methods} />],
            [
              "Hosts",
              hosts.length === 0 ? <span class="quiet">Those of the connection</span> : <Chips values={hosts} />,
            ],
            [
              "Paths",
              paths.length === 0 ? <span class="quiet">{mcp ? "Its endpoint" : "All"}</span> : <Chips values={paths} />,
            ],
          ]}
        />
      ) : (
        <Notice tone="warn">{capitalized(refusal)}.</Notice>
      )}
    </article>
  );
}

function Tools({ one: { tools, noTools } }: { readonly one: AccessSessionConnection }) {
  if (noTools) return <>None: the limits of the session and of its key have no tool in common</>;
  return tools.length === 0 ? anything : <Chips values={tools} />;
}

const Chips = ({ values }: { readonly values: readonly string[] }) => (
  <ul class="chips">
    {values.map((value) => (
      <li key={value} class="chip" title={value}>
        {value}
      </li>
    ))}
  </ul>
);

const effects: Readonly<Record<PolicyEffect, readonly [tone: BadgeTone, word: string]>> = {
  [PolicyEffect.UNSPECIFIED]: ["quiet", "Unknown"],
  [PolicyEffect.ALLOW]: ["good", "Allow"],
  [PolicyEffect.DENY]: ["bad", "Deny"],
  [PolicyEffect.LOG]: ["quiet", "Log"],
  [PolicyEffect.HOLD]: ["warn", "Hold"],
};

interface PolicySubProps {
  readonly description: string;
  readonly integrations: readonly string[];
}

function PolicySub({ description, integrations }: PolicySubProps) {
  const about = integrations.length === 0 ? "" : `Only ${integrations.join(", ")}`;
  const parts = [visibleText(description), about].filter((text) => text !== "");
  return parts.length === 0 ? null : <span class="marked-sub">{parts.join(" · ")}</span>;
}

const columns: readonly TableColumn<AccessSessionPolicy>[] = [
  {
    name: "Policy",
    show: ({ policy, integrations }) => (
      <>
        {policy?.id}
        <PolicySub description={policy?.description ?? ""} integrations={integrations} />
      </>
    ),
  },
  {
    name: "Effect",
    show({ policy }) {
      const [tone, word] = effects[policy?.effect ?? PolicyEffect.UNSPECIFIED] ?? (["quiet", "Unknown"] as const);
      return <Badge tone={tone}>{word}</Badge>;
    },
  },
  { name: "If", show: ({ policy }) => <code>{visibleText(policy?.condition ?? "")}</code>, isMinor: true },
];

const Policies = ({ policies }: { readonly policies: readonly AccessSessionPolicy[] }) => (
  <Section title="Policies about its requests">
    {policies.length === 0 ? (
      <p class="quiet">None. Only its limits decide.</p>
    ) : (
      <Table label="Policies" columns={columns} rows={policies} keyOf={({ policy }) => policy?.id ?? ""} />
    )}
  </Section>
);
