import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { useMemo } from "preact/hooks";
import { type GetSeriesResponse, SeriesStep } from "../../../gen/latchkey/v1/traffic_pb.ts";
import { Chart } from "../../components/chart.tsx";
import { TabFilter } from "../../components/filters.tsx";
import { Section } from "../../components/page.tsx";
import { FaultNotice, Skeleton } from "../../components/states.tsx";
import { clockTime, countText, durationText, msOf } from "../../data/format.ts";
import { useLoad } from "../../data/load.ts";
import { traffic } from "../../state/clients.ts";
import { linkTo, queryValue } from "../../state/router.ts";
import { IntegrationTable } from "./integration-table.tsx";
import { useRefresh } from "./refresh.ts";
import { chartsOf, share, sumOf, type TrafficLines } from "./traffic-lines.ts";

const ranges = [
  ["", "1 h"],
  ["6h", "6 h"],
  ["24h", "24 h"],
] as const;
const hours: Readonly<Record<string, number>> = { "": 1, "6h": 6, "24h": 24 };
const hourMs = 3_600_000;
const refreshMs = 15_000;

/** Rates, times and errors of what went through the proxy. */
export function TrafficCharts({ environment }: { readonly environment: string }) {
  const range = Object.hasOwn(hours, queryValue("range")) ? queryValue("range") : "";
  const { value, fault, isSlow, reload } = useLoad(
    (signal) => {
      const since = timestampFromMs(Date.now() - (hours[range] ?? 1) * hourMs);
      const step = range === "" ? SeriesStep.MINUTE : SeriesStep.FIVE_MINUTES;
      return traffic.getSeries({ environment, since, step, maxSeries: 101 }, { signal });
    },
    [environment, range],
  );
  useRefresh(reload, refreshMs);
  return (
    <Section title="Requests" actions={<TabFilter name="range" label="Time range" options={ranges} />}>
      {fault !== undefined && <FaultNotice fault={fault} retry={reload} />}
      {value === undefined ? isSlow && <Skeleton /> : <Drawn answer={value} />}
    </Section>
  );
}

function Drawn({ answer }: { readonly answer: GetSeriesResponse }) {
  const isByMinute = answer.step?.seconds === 60n;
  const lines = useMemo(() => chartsOf(answer), [answer]);
  if (answer.series.length === 0) {
    return (
      <p class="card quiet">
        No requests in this time. <a href={linkTo("/requests/try")}>Try one</a>, or send one through the proxy.
      </p>
    );
  }
  return (
    <>
      <Figures answer={answer} lines={lines} />
      <div class="charts">
        <ChartCard title={isByMinute ? "Requests a minute" : "Requests in 5 minutes"}>
          <Chart label="Requests by integration" times={lines.times} lines={lines.counts} format={countOf} />
        </ChartCard>
        <ChartCard title={isByMinute ? "Errors a minute" : "Errors in 5 minutes"}>
          <Chart
            label="Errors of providers and of Latchkey"
            times={lines.times}
            lines={lines.errors}
            format={countOf}
          />
        </ChartCard>
        <ChartCard title="Slowest 1 % (p99)">
          <Chart
            label="99th percentile, by integration"
            times={lines.times}
            lines={lines.slowest}
            format={durationText}
          />
        </ChartCard>
        <ChartCard title="Added by Latchkey">
          <Chart label="Time added by Latchkey" times={lines.times} lines={lines.added} format={durationText} />
        </ChartCard>
      </div>
      <IntegrationTable series={answer.series} />
      <Origin answer={answer} />
    </>
  );
}

const ChartCard = ({ title, children }: { readonly title: string; readonly children: preact.ComponentChildren }) => (
  <figure class="card chart-card">
    <figcaption>{title}</figcaption>
    {children}
  </figure>
);

/** An axis may have steps of a half. */
const countOf = (value: number): string => (Number.isInteger(value) ? countText(value) : "");

function Figures({ answer: { total }, lines }: { readonly answer: GetSeriesResponse; readonly lines: TrafficLines }) {
  const all = sumOf(total?.requests);
  const provider = sumOf(total?.providerErrors);
  const own = sumOf(total?.ownErrors);
  return (
    <dl class="figures">
      <Figure name="Requests" value={countText(all)} />
      <Figure name="Provider errors" value={share(provider, all)} isBad={provider > 0} />
      <Figure name="Latchkey errors" value={share(own, all)} isBad={own > 0} />
      <Figure name="Latest p99" value={lines.latestP99 === undefined ? "–" : durationText(lines.latestP99)} />
    </dl>
  );
}

interface FigureProps {
  readonly name: string;
  readonly value: string;
  readonly isBad?: boolean;
}

const Figure = ({ name, value, isBad = false }: FigureProps) => (
  <div class="card">
    <dt>{name}</dt>
    <dd class={isBad ? "bad-text" : undefined}>{value}</dd>
  </div>
);

/** Series live in the memory of one replica. */
function Origin({ answer: { replica, countedSince, start } }: { readonly answer: GetSeriesResponse }) {
  const since = msOf(countedSince) ?? 0;
  const isShort = since > (msOf(start) ?? 0);
  return (
    <p class="quiet chart-foot">
      Counted by the replica {replica}
      {isShort && ` since it was started at ${clockTime(since)}`}. Other replicas count their own requests.
    </p>
  );
}
