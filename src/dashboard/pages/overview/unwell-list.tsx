import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { useEffect } from "preact/hooks";
import { Forward_State } from "../../../gen/latchkey/v1/webhook_pb.ts";
import { Badge } from "../../components/badge.tsx";
import { Icon } from "../../components/icon.tsx";
import { Section } from "../../components/page.tsx";
import { FaultNotice, Skeleton } from "../../components/states.tsx";
import { counted } from "../../data/format.ts";
import { type Loaded, useLoad } from "../../data/load.ts";
import { connections, system, webhooks } from "../../state/clients.ts";
import { caller } from "../../state/session.ts";
import { useRefresh } from "./refresh.ts";
import { deadLine, inOrder, type UnwellLine, unwellConnections, warningLine } from "./unwell.ts";

const refreshMs = 30_000;
const weekMs = 7 * 86_400_000;
/** The rest is behind a click: charts should stay in sight. */
const shownAtFirst = 8;
const countAgainMs = 1_000;

interface UnwellListProps {
  readonly environment: string;
  /** Nothing is connected: that nothing is unwell needs no words. */
  readonly isNew: boolean;
}

/** Everything that is unwell, the most urgent first, each with the way to mend it. */
export function UnwellList({ environment, isNew }: UnwellListProps) {
  const counts = useLoad((signal) => connections.countConnections({ environment }, { signal }), [environment]);
  const warnings = useLoad(
    // A control key sees all environments: a broken one should not go unnoticed.
    (signal) => system.listWarnings({ environment: caller.value?.environment ?? "" }, { signal }),
    [environment],
  );
  const dead = useLoad(
    (signal) => {
      const filter = { states: [Forward_State.DEAD], since: timestampFromMs(Date.now() - weekMs) };
      return webhooks.listForwards({ environment, filter, pageSize: 100 }, { signal });
    },
    [environment],
  );
  const all: readonly Loaded<unknown>[] = [counts, warnings, dead];
  useRefresh(() => {
    for (const one of all) one.reload();
  }, refreshMs);
  useRecount(counts.value?.isComplete === false, counts.reload);

  const failed = all.find(({ fault }) => fault !== undefined);
  const isKnown = all.every(({ value, fault }) => value !== undefined || fault !== undefined);
  const deadCount = dead.value?.forwards.length ?? 0;
  const lines = inOrder([
    ...(counts.value === undefined ? [] : unwellConnections(counts.value)),
    ...(deadCount === 0 ? [] : [deadLine(deadCount, dead.value?.nextPageToken !== "")]),
    ...(warnings.value?.warnings ?? []).map((one) => warningLine(one, environment)),
  ]);
  const connected = counts.value?.counts.reduce((sum, { count }) => sum + count, 0) ?? 0;
  return (
    <>
      {failed?.fault !== undefined && <FaultNotice fault={failed.fault} retry={failed.reload} />}
      {!isKnown ? (
        all.some(({ isSlow }) => isSlow) && <Skeleton lines={3} />
      ) : lines.length === 0 ? (
        failed === undefined && !isNew && <AllWell connected={connected} />
      ) : (
        <Section title={`${counted(lines.length, "thing needs", "things need")} attention`}>
          <Lines lines={lines} />
        </Section>
      )}
    </>
  );
}

/** A big store is still being counted right after a start. */
function useRecount(isUnfinished: boolean, reload: () => void) {
  useEffect(() => {
    if (!isUnfinished) return;
    const timer = setInterval(reload, countAgainMs);
    return () => clearInterval(timer);
  }, [isUnfinished, reload]);
}

const AllWell = ({ connected }: { readonly connected: number }) => (
  <p class="all-well">
    <Icon name="check" />
    <span>
      Everything is well.{" "}
      {connected > 0 && <span class="quiet">{counted(connected, "connection works", "connections work")}.</span>}
    </span>
  </p>
);

function Lines({ lines }: { readonly lines: readonly UnwellLine[] }) {
  const first = lines.slice(0, shownAtFirst);
  const rest = lines.slice(shownAtFirst);
  return (
    <>
      <ul class="unwell">
        {first.map((line) => (
          <Line key={line.id} line={line} />
        ))}
      </ul>
      {rest.length > 0 && (
        <details class="unwell-rest">
          <summary>{rest.length} more</summary>
          <ul class="unwell">
            {rest.map((line) => (
              <Line key={line.id} line={line} />
            ))}
          </ul>
        </details>
      )}
    </>
  );
}

const Line = ({ line }: { readonly line: UnwellLine }) => (
  <li>
    <Badge tone={line.tone}>{line.urgency}</Badge>
    <div class="unwell-text">
      <p>
        {line.environment !== "" && <span class="chip">{line.environment}</span>} {line.text}
      </p>
      {line.remedy !== "" && <p class="quiet">{line.remedy}</p>}
    </div>
    <a class="button small" href={line.link}>
      {line.verb}
    </a>
  </li>
);
