import { PageFrame } from "../../components/page.tsx";
import { environmentName } from "../../state/environment.ts";
import { FirstSteps, useFirstProgress } from "./first-steps.tsx";
import { TrafficCharts } from "./traffic-charts.tsx";
import { UnwellList } from "./unwell-list.tsx";

/** What needs attention first, then what went through the proxy. */
export function OverviewPage() {
  const environment = environmentName.value;
  const progress = useFirstProgress(environment);
  // There is nothing to be well or unwell yet.
  const isNew = progress?.hasConnection === false;
  return (
    <PageFrame title="Overview">
      {progress?.isOver === false && <FirstSteps value={progress} />}
      <UnwellList key={`unwell ${environment}`} environment={environment} isNew={isNew} />
      {!isNew && <TrafficCharts key={`traffic ${environment}`} environment={environment} />}
    </PageFrame>
  );
}
