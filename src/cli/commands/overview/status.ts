import { ConnectError } from "@connectrpc/connect";
import { EnvironmentService } from "../../../gen/latchkey/v1/environment_pb.ts";
import { type GetStoreStatusResponse, StoreService } from "../../../gen/latchkey/v1/store_pb.ts";
import type { CommandSession } from "../../session.ts";
import { escapeControl } from "../../terminal/escape-control.ts";
import { formatTime } from "../../terminal/format.ts";
import { type Column, createTable } from "../../terminal/table.ts";
import { stateName } from "../connections/states.ts";
import { countText, type EnvironmentSurvey, survey, surveyedEnvironments } from "./survey.ts";

/** `latchkey status`. */
export async function showStatus(session: CommandSession): Promise<void> {
  const { client, output, address } = session;
  const server = await client(EnvironmentService).getCaller({});
  const environments = await surveyedEnvironments(session);
  const [store, ...surveys] = await Promise.all([
    storeStatus(session),
    ...environments.map((environment) => survey(session, environment)),
  ]);
  if (output.json) {
    return output.document({
      version: server.version,
      address,
      public_url: server.publicUrl,
      key: server.keyId,
      ...(store && { store: plainStore(store) }),
      environments: surveys.map(plainSurvey),
    });
  }
  const facts = [
    ["latchkey", `${server.version} at ${address}`],
    ["public URL", server.publicUrl],
    ["key", `${server.keyId} (${server.environment === "" ? "all environments" : server.environment})`],
    ...(store === undefined ? [] : [["store", storeText(store)]]),
  ].map(([title = "", text = ""]) => `${output.paint("dim", title.padEnd(12))}${escapeControl(text)}`);
  await output.line(`${facts.join("\n")}\n`);
  const table = createTable(columns, output.paint, output.layout);
  await output.line(surveys.length === 0 ? "no environments" : table.draw(surveys).trimEnd());
}

/** Reading the store's status takes the scope admin. */
async function storeStatus({ client }: CommandSession): Promise<GetStoreStatusResponse | undefined> {
  try {
    return await client(StoreService).getStoreStatus({});
  } catch (error) {
    if (error instanceof ConnectError) return undefined;
    throw error;
  }
}

const plainStore = ({ backend, writable, reason, lastBackup }: GetStoreStatusResponse) => ({
  backend,
  writable,
  reason,
  ...(lastBackup !== undefined && { last_backup_at: formatTime(lastBackup.at) }),
});

const megabyte = 1_000_000;

function storeText({ backend, writable, reason, sizeBytes, lastBackup }: GetStoreStatusResponse): string {
  const size = sizeBytes === undefined ? "" : `, ${(Number(sizeBytes) / megabyte).toFixed(1)} MB`;
  const backup = lastBackup === undefined ? "" : `, last backup ${formatTime(lastBackup.at)}`;
  const state = `${writable ? "accepts writes" : "accepts no writes"}${reason === "" ? "" : `: ${reason}`}`;
  return `${backend}${size}${backup}, ${state}`;
}

const warningsOf = ({ integrations }: EnvironmentSurvey): number =>
  integrations.reduce((sum, { warnings }) => sum + warnings.length, 0);

const pendingOf = ({ destinations }: EnvironmentSurvey): number =>
  destinations.reduce((sum, { pending }) => sum + Number(pending), 0);

const unwellText = ({ unwell }: EnvironmentSurvey): string =>
  unwell.map(([state, count]) => `${countText(count)} ${stateName(state)}`).join(", ");

const deliveryText = (one: EnvironmentSurvey): string => {
  const paused = one.destinations.some((destination) => destination.paused);
  if (one.environment.forwardUrl === "" && one.destinations.length === 0) return "no forward URL";
  return paused ? "paused" : `${pendingOf(one)} waiting`;
};

const columns: readonly Column<EnvironmentSurvey>[] = [
  { title: "ENVIRONMENT", text: ({ environment }) => environment.name },
  { title: "INTEGRATIONS", text: ({ integrations }) => String(integrations.length) },
  {
    title: "WARNINGS",
    text: (one) => String(warningsOf(one)),
    tone: (one) => (warningsOf(one) > 0 ? "warning" : "plain"),
  },
  { title: "CONNECTIONS", text: ({ connections }) => countText(connections) },
  { title: "DELIVERIES", text: deliveryText, tone: (one) => (deliveryText(one) === "paused" ? "bad" : "plain") },
  { title: "NEED ATTENTION", text: unwellText, tone: () => "bad" },
];

const plainSurvey = (one: EnvironmentSurvey) => ({
  name: one.environment.name,
  integrations: one.integrations.length,
  warnings: warningsOf(one),
  connections: one.connections.count,
  pending_deliveries: pendingOf(one),
  unwell: Object.fromEntries(one.unwell.map(([state, { count }]) => [stateName(state), count])),
});
