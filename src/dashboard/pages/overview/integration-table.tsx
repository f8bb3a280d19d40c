import type { TrafficSeries } from "../../../gen/latchkey/v1/traffic_pb.ts";
import { Table, type TableColumn } from "../../components/table.tsx";
import { countText, durationText } from "../../data/format.ts";
import { linkTo } from "../../state/router.ts";
import { nameOf, share, sumOf } from "./traffic-lines.ts";

const columns: readonly TableColumn<TrafficSeries>[] = [
  { name: "Integration", show: nameOf },
  { name: "Requests", show: ({ requests }) => countText(sumOf(requests)), isNumber: true },
  { name: "Provider errors", show: (one) => errorText(one, one.providerErrors), isNumber: true },
  { name: "Latchkey errors", show: (one) => errorText(one, one.ownErrors), isNumber: true },
  { name: "Highest median", show: ({ wholeP50Ms }) => highest(wholeP50Ms), isNumber: true, isMinor: true },
  { name: "Highest p99", show: ({ wholeP99Ms }) => highest(wholeP99Ms), isNumber: true },
];

/** The same numbers as in the charts, for all integrations. */
export const IntegrationTable = ({ series }: { readonly series: readonly TrafficSeries[] }) => (
  <Table
    label="Requests by integration"
    columns={columns}
    rows={series}
    keyOf={nameOf}
    linkOf={({ integration }) => linkTo("/requests", { integration })}
  />
);

const errorText = ({ requests }: TrafficSeries, errors: readonly number[]) => {
  const text = share(sumOf(errors), sumOf(requests));
  return text === "0" ? <span class="quiet">0</span> : <span class="bad-text">{text}</span>;
};

const highest = (values: readonly number[]): string => durationText(Math.max(0, ...values));
