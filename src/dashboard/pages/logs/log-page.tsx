import type { Log, LogLine } from "../../../gen/latchkey/v1/log_pb.ts";
import { Badge } from "../../components/badge.tsx";
import { CopyField } from "../../components/copy.tsx";
import { LogLines } from "../../components/log-lines.tsx";
import { Facts, PageFrame, Section } from "../../components/page.tsx";
import { FaultNotice, Skeleton } from "../../components/states.tsx";
import { Time } from "../../components/time.tsx";
import { useLoad } from "../../data/load.ts";
import { logs, syncs } from "../../state/clients.ts";
import { environmentName } from "../../state/environment.ts";
import type { PageProps } from "../../state/page-route.ts";
import { linkTo, pathOf } from "../../state/router.ts";
import { LogOutcome } from "./logs-page.tsx";
import { operationText, subjectText } from "./words.ts";

/** One log: what happened, each cause that is possible, and where it belongs. */
export function LogPage({ values: { id = "" } }: PageProps) {
  const environment = environmentName.value;
  const { value, fault, reload } = useLoad((signal) => logs.getLog({ environment, id }, { signal }), [environment, id]);
  const log = value?.log;
  const above = [["Logs", linkTo("/logs")]] as const;
  if (log === undefined) {
    return (
      <PageFrame title="Log" above={above}>
        {fault === undefined ? <Skeleton /> : <FaultNotice fault={fault} retry={reload} />}
      </PageFrame>
    );
  }
  return (
    <PageFrame
      title={operationText(log.operation)}
      above={above}
      lead={
        <>
          <LogOutcome log={log} /> {subjectText(log)}
        </>
      }
    >
      <div class="columns">
        <div>
          <Causes log={log} />
          <Section title="What happened">
            <LogLines lines={log.lines.filter((line) => !isCause(line))} label="Lines" />
            {log.truncated && <p class="quiet">Some lines were left out, because the log is too large.</p>}
          </Section>
        </div>
        <aside>
          <LogFacts log={log} />
        </aside>
      </div>
    </PageFrame>
  );
}

const isCause = ({ message }: LogLine) => message === "likely cause" || message === "possible cause";

/** Every cause that is not excluded, the likeliest first. */
function Causes({ log }: { readonly log: Log }) {
  const causes = log.lines.filter(isCause);
  if (causes.length === 0) return null;
  const { integration, connectionId } = log;
  return (
    <Section title={causes.length === 1 ? "Possible cause" : "Possible causes"}>
      <div class="card">
        <ul class="causes">
          {causes.map(({ message, fields = {} }, i) => (
            <li key={i}>
              {sentence(fields["detail"] ?? fields["cause"])}{" "}
              {message === "likely cause" && <Badge tone="warn">Likely</Badge>} <code>{text(fields["cause"])}</code>
            </li>
          ))}
        </ul>
        {connectionId !== "" && (
          <p class="causes-foot">
            The end user must authorize again:{" "}
            <a href={linkTo(pathOf("connections", integration, connectionId))}>send a reconnect link</a>.
          </p>
        )}
      </div>
    </Section>
  );
}

const text = (value: unknown): string => (typeof value === "string" ? value : "");
const sentence = (value: unknown): string => text(value).replace(/^./, (first) => first.toUpperCase());

function LogFacts({ log }: { readonly log: Log }) {
  const { id, operation, integration, connectionId, environment } = log;
  const run = useLoad((signal) => runOf(log, signal), [id]);
  return (
    <Section title="Details">
      <div class="card">
        <Facts
          rows={[
            [
              "Connection",
              connectionId !== "" && (
                <a href={linkTo(pathOf("connections", integration, connectionId))}>{subjectText(log)}</a>
              ),
            ],
            [
              "Integration",
              integration !== "" && <a href={linkTo(pathOf("integrations", integration))}>{integration}</a>,
            ],
            ["Run", run.value !== undefined && <a href={linkTo(pathOf("runs", run.value))}>Open the run</a>],
            [
              "Channel",
              operation.startsWith("channel.") && <a href={linkTo("/channels", { integration })}>Open the channels</a>,
            ],
            ["Operation", <code key="operation">{operation}</code>],
            ["Environment", environment],
            ["Began", <Time key="began" at={log.createdAt} />],
            [
              "More",
              connectionId !== "" && (
                <a href={linkTo("/logs", { integration, connection: connectionId })}>All logs of this connection</a>
              ),
            ],
            ["Log ID", <CopyField key="id" text={id} label="log ID" />],
          ]}
        />
      </div>
    </Section>
  );
}

/** Finds the run of a log among the latest ones of its connection. */
async function runOf({ id, operation, environment, integration, connectionId }: Log, signal: AbortSignal) {
  if (!operation.startsWith("script.")) return undefined;
  const { runs } = await syncs.listRuns({ environment, integration, connectionId, pageSize: 200 }, { signal });
  return runs.find(({ logId }) => logId === id)?.id;
}
