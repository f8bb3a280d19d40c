import { timestampMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { EnvironmentService, type GetCallerResponse } from "../../../gen/latchkey/v1/environment_pb.ts";
import { StoreService } from "../../../gen/latchkey/v1/store_pb.ts";
import { SystemService, Warning_Severity } from "../../../gen/latchkey/v1/system_pb.ts";
import type { CommandSession } from "../../session.ts";
import { describeFailure } from "../../terminal/failure.ts";
import { formatCount } from "../../terminal/format.ts";
import { findWrongDoor } from "../../terminal/wrong-address.ts";
import { stateName } from "../connections/states.ts";
import { scopeName } from "../scope-names.ts";
import type { Finding } from "./finding.ts";
import { checkForwardUrl } from "./network-checks.ts";
import { countText, type EnvironmentSurvey, survey, surveyedEnvironments } from "./survey.ts";

interface ControlFindings {
  readonly findings: readonly Finding[];
  /** Undefined: the control plane did not answer. */
  readonly server?: GetCallerResponse;
}

/** Clocks that differ by more make signatures and ID tokens fail. */
const clockWarnMs = 5_000;
const clockFailMs = 60_000;

export async function checkControl({ client, address }: CommandSession): Promise<ControlFindings> {
  try {
    const began = Date.now();
    const server = await client(EnvironmentService).getCaller({});
    const { keyId, environment, scopes } = server;
    const reach = environment === "" ? "all environments" : environment;
    return {
      server,
      findings: [
        { check: "control plane", status: "ok", message: `${address} answers, version ${server.version}` },
        { check: "key", status: "ok", message: `${keyId}: ${reach}, ${scopes.map(scopeName).join(", ")}` },
        clockFinding(server, (began + Date.now()) / 2),
      ],
    };
  } catch (error) {
    const wrongDoor = await findWrongDoor(error, address);
    const { message, notes } = describeFailure(error, { address, interrupted: false, wrongDoor });
    const check = error instanceof ConnectError && error.code === Code.Unauthenticated ? "key" : "control plane";
    return { findings: [{ check, status: "fail", message, ...(notes[0] !== undefined && { remedy: notes[0] }) }] };
  }
}

function clockFinding({ time }: GetCallerResponse, nowMs: number): Finding {
  const check = "clock";
  const difference = time === undefined ? 0 : Math.abs(timestampMs(time) - nowMs);
  const message = `differs from this machine's by ${(difference / 1_000).toFixed(1)} s`;
  if (difference < clockWarnMs) return { check, status: "ok", message };
  const status = difference < clockFailMs ? "warn" : "fail";
  return { check, status, message, remedy: "synchronize both clocks with NTP" };
}

export async function checkStore({ client }: CommandSession): Promise<readonly Finding[]> {
  const check = "store";
  try {
    const { backend, writable, reason } = await client(StoreService).getStoreStatus({});
    if (writable && reason === "") return [{ check, status: "ok", message: `${backend}, accepts writes` }];
    const message = `${backend}, ${writable ? "accepts writes" : "accepts no writes"}: ${reason}`;
    return [{ check, status: writable ? "warn" : "fail", message, remedy: "see `latchkey store status` and the log" }];
  } catch (error) {
    if (error instanceof ConnectError && error.code === Code.PermissionDenied) {
      return [{ check, status: "ok", message: "not checked: this needs a key with the scope admin" }];
    }
    return [{ check, status: "fail", message: error instanceof Error ? error.message : "no answer" }];
  }
}

/** Warnings that no other check reports. */
const systemWarning =
  /^(?:store_damaged|backup|scrub|encryption_key|config|restart|key|replica|channels|egress)(?:_|$)/;

/** Reports the warnings about backups, encryption keys, configuration, keys, replicas, channels and the egress proxy. */
export async function checkSystem({ client, environment }: CommandSession): Promise<readonly Finding[]> {
  try {
    const { warnings } = await client(SystemService).listWarnings({ environment });
    return warnings
      .filter(({ code, severity }) => systemWarning.test(code) && severity !== Warning_Severity.NOTICE)
      .map(({ message, remedy, severity }): Finding => {
        const status = severity === Warning_Severity.CRITICAL ? "fail" : "warn";
        return { check: "system", status, message, ...(remedy !== "" && { remedy }) };
      });
  } catch (error) {
    // An older Latchkey has no warnings.
    if (error instanceof ConnectError) return [];
    throw error;
  }
}

/** Checks the deliveries, the integrations and the connections of each environment. */
export async function checkEnvironments(session: CommandSession): Promise<readonly Finding[]> {
  try {
    const environments = await surveyedEnvironments(session);
    const findings = await Promise.all(
      environments.map(async (environment) => {
        const seen = await survey(session, environment);
        return [...(await deliveryFindings(seen)), ...integrationFindings(seen), ...connectionFindings(seen)];
      }),
    );
    return findings.flat();
  } catch (error) {
    if (!(error instanceof ConnectError)) throw error;
    return [{ check: "environments", status: "warn", message: `not checked: ${error.rawMessage}` }];
  }
}

async function deliveryFindings({ environment, destinations }: EnvironmentSurvey): Promise<readonly Finding[]> {
  const { name, forwardUrl } = environment;
  const paused = destinations
    .filter((one) => one.paused)
    .map(
      ({ url, pausedReason }): Finding => ({
        check: "deliveries",
        status: "fail",
        message: `${name}: deliveries are paused: ${pausedReason}`,
        remedy: `repair your service, then: latchkey webhooks resume '${url}' -e ${name}`,
      }),
    );
  if (forwardUrl !== "") return [await checkForwardUrl(name, forwardUrl), ...paused];
  const none: Finding = {
    check: "forward URL",
    status: "warn",
    message: `${name}: none; webhooks are stored, but not delivered`,
    remedy: `latchkey environments update ${name} --forward-url URL, or LATCHKEY_FORWARD_URL for dev`,
  };
  return [none, ...paused];
}

function integrationFindings({ environment: { name }, integrations }: EnvironmentSurvey): readonly Finding[] {
  const warned = integrations.flatMap(({ key, warnings }) =>
    warnings.map(
      ({ code, message }): Finding => ({
        check: "integration",
        status: "warn",
        message: `${name}/${key}: ${code}`,
        remedy: message,
      }),
    ),
  );
  if (warned.length > 0) return warned;
  return [
    { check: "integrations", status: "ok", message: `${name}: ${formatCount(integrations.length, "integration")}` },
  ];
}

function connectionFindings({ environment: { name }, connections, unwell }: EnvironmentSurvey): readonly Finding[] {
  if (unwell.length === 0) {
    return [
      { check: "connections", status: "ok", message: `${name}: ${countText(connections)}, none needs attention` },
    ];
  }
  return unwell.map(
    ([state, count]): Finding => ({
      check: "connections",
      status: "warn",
      message: `${name}: ${countText(count)} ${stateName(state)}`,
      remedy: `latchkey connections list -e ${name} --state ${stateName(state)}`,
    }),
  );
}
