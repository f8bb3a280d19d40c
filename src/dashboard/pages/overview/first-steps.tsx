import type { Connection } from "../../../gen/latchkey/v1/connection_pb.ts";
import { Icon } from "../../components/icon.tsx";
import { msOf } from "../../data/format.ts";
import { useLoad } from "../../data/load.ts";
import { connections, integrations, traffic } from "../../state/clients.ts";
import { linkTo } from "../../state/router.ts";
import { useRefresh } from "./refresh.ts";

const refreshMs = 5_000;
const rarelyMs = 300_000;
/** With more connections, the way is known. */
const fewConnections = 3;

interface FirstStep {
  readonly name: string;
  readonly text: string;
  readonly verb: string;
  readonly path: string;
  readonly isDone: boolean;
}

/** What is done on the way to the first call. */
export interface FirstProgress {
  readonly hasIntegration: boolean;
  readonly hasConnection: boolean;
  readonly hasRequest: boolean;
  /** The steps need not be shown. */
  readonly isOver: boolean;
}

export function useFirstProgress(environment: string): FirstProgress | undefined {
  const { value, reload } = useLoad((signal) => readProgress(environment, signal), [environment]);
  useRefresh(reload, value?.isOver === true ? rarelyMs : refreshMs);
  return value;
}

/** The way to the first call, shown until it was made. */
export function FirstSteps({ value }: { readonly value: FirstProgress }) {
  const steps: readonly FirstStep[] = [
    {
      name: "Create an integration",
      text: "Choose a provider and enter its client ID and secret, or use a sandbox.",
      verb: "Choose a provider",
      path: "/integrations/new",
      isDone: value.hasIntegration,
    },
    {
      name: "Connect an account",
      text: "Authorize it as one of your users would.",
      verb: "Connect",
      path: "/connect",
      isDone: value.hasConnection,
    },
    {
      name: "Make the first call",
      text: "Latchkey adds the credentials and sends it to the provider.",
      verb: "Try a request",
      path: "/requests/try",
      isDone: value.hasRequest,
    },
  ];
  const next = steps.find(({ isDone }) => !isDone);
  return (
    <section class="card first-steps" aria-label="First steps">
      <h2>Three steps to your first call</h2>
      <ol>
        {steps.map((step) => (
          <li key={step.name} class={step.isDone ? "done" : undefined}>
            <span class="step-mark">{step.isDone ? <Icon name="check" /> : steps.indexOf(step) + 1}</span>
            <div>
              <p class="step-name">
                {step.name}
                {step.isDone && <span class="quiet"> · done</span>}
              </p>
              <p class="quiet">{step.text}</p>
            </div>
            {step === next && (
              <a class="button primary" href={linkTo(step.path)}>
                {step.verb}
              </a>
            )}
          </li>
        ))}
      </ol>
    </section>
  );
}

async function readProgress(environment: string, signal: AbortSignal): Promise<FirstProgress> {
  const [known, connected, recent] = await Promise.all([
    integrations.listIntegrations({ environment, pageSize: 1 }, { signal }),
    connections.listConnections({ environment, pageSize: fewConnections + 1 }, { signal }),
    traffic.getSeries({ environment, maxSeries: 1 }, { signal }),
  ]);
  const list = connected.connections;
  // Requests are counted since the start only; connections remember their last use.
  const hasRequest = recent.series.length > 0 || list.some(wasUsed);
  const hasConnection = list.length > 0;
  return {
    hasIntegration: known.integrations.length > 0,
    hasConnection,
    hasRequest,
    isOver: hasConnection && (hasRequest || list.length > fewConnections),
  };
}

/** The time of the last use begins as that of creation, and is right to a minute. */
const wasUsed = ({ lastFetchedAt, createdAt }: Connection): boolean =>
  (msOf(lastFetchedAt) ?? 0) - (msOf(createdAt) ?? 0) > 2 * 60_000;
