import type { Environment } from "../../gen/latchkey/v1/environment_pb.ts";
import type { Integration } from "../../gen/latchkey/v1/integration_pb.ts";
import { Warning_Severity as Severity, Warning_Subject as Subject } from "../../gen/latchkey/v1/system_pb.ts";
import type { Destination } from "../../gen/latchkey/v1/webhook_pb.ts";
import type { ChannelTroubles } from "../channels/troubles.ts";
import { problemsOf } from "./integration-problems.ts";
import type { FoundWarning } from "./warning-list.ts";

interface EnvironmentFacts {
  readonly environment: Environment;
  /** Undefined: the caller may not read integrations. */
  readonly integrations: readonly Integration[] | undefined;
  readonly destinations: readonly Destination[];
  readonly troubles: ChannelTroubles;
  readonly problems: Parameters<typeof problemsOf>[1];
}

/** Warns of an environment: its integrations, destinations and watch channels. */
export async function environmentWarnings(facts: EnvironmentFacts): Promise<readonly FoundWarning[]> {
  const { environment, integrations, destinations, troubles, problems } = facts;
  const { name, forwardUrl } = environment;
  const ofIntegrations = await Promise.all(
    (integrations ?? []).map(async (integration) => {
      const found = await problemsOf(integration, problems);
      return found.map(
        ({ code, message }): FoundWarning => ({
          code,
          severity: Severity.WARNING,
          message: `${integration.key}: ${message}`,
          environment: name,
          subject: Subject.INTEGRATION,
          name: integration.key,
          doc: "troubleshooting.md#a-user-cannot-connect",
        }),
      );
    }),
  );
  const hasIntegrations = integrations === undefined || integrations.length > 0;
  return [
    ...ofIntegrations.flat(),
    ...destinations.flatMap((one) => pausedWarning(one, name)),
    ...(forwardUrl === "" && hasIntegrations ? [noForwardUrl(name)] : []),
    ...channelWarnings(troubles, name),
  ];
}

function pausedWarning({ url, paused, pausedReason, pending }: Destination, environment: string): FoundWarning[] {
  if (!paused) return [];
  return [
    {
      code: "destination_paused",
      severity: Severity.CRITICAL,
      message: `deliveries to ${url} are paused: ${pausedReason}; ${pending} waiting`,
      remedy: "repair your service, then resume the destination",
      environment,
      subject: Subject.DESTINATION,
      name: url,
      doc: "webhooks.md#repair",
    },
  ];
}

const noForwardUrl = (environment: string): FoundWarning => ({
  code: "forward_url_missing",
  severity: Severity.NOTICE,
  message: `${environment} has no forward URL: webhooks are stored, but not delivered`,
  remedy: "set the forward URL if your application should get webhooks and events",
  environment,
  subject: Subject.ENVIRONMENT,
  name: environment,
  doc: "webhooks.md#set-it-up",
});

function channelWarnings({ failed, runOut }: ChannelTroubles, environment: string): readonly FoundWarning[] {
  const of = { environment, subject: Subject.CHANNEL, doc: "channels.md#when-the-provider-does-not-cooperate" };
  const counted = (count: number, noun: string, verb: readonly [one: string, many: string]) =>
    `${count} ${noun}${count === 1 ? "" : "s"} ${verb[count === 1 ? 0 : 1]}`;
  return [
    ...(failed === 0
      ? []
      : [
          {
            ...of,
            code: "channels_failed",
            severity: Severity.WARNING,
            message: `${counted(failed, "watch channel", ["was", "were"])} refused by the provider: it sends no webhooks for what they watch`,
            remedy: "read the reason of each channel, and reconnect its connection",
          },
        ]),
    ...(runOut === 0
      ? []
      : [
          {
            ...of,
            code: "channels_run_out",
            severity: Severity.WARNING,
            message: `${counted(runOut, "watch channel", ["could", "could"])} not be renewed and will run out`,
            remedy: "read the reason of each channel; Latchkey tries again until it runs out",
          },
        ]),
  ];
}
