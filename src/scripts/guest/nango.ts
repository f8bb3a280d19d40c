import { ActionError, type Pagination, type ProxyConfiguration, type ProxyResponse } from "../sdk.ts";
import { Buffer } from "./buffer.ts";
import { log, logWithOptions } from "./log.ts";
import { paginate } from "./paginate.ts";
import { callerStack, withCallerPosition, withCallerStack } from "./place.ts";
import { call, callWithText } from "./port.ts";
import { SchemaError, validate } from "./schemas.ts";
import { base64 } from "./text.ts";
import { URLSearchParams } from "./url.ts";

/** Facts about the run that a script can read. */
export interface Facts {
  readonly environment: string;
  readonly integration: string;
  readonly connectionId: string;
  readonly provider: string;
  readonly variant: string;
  readonly lastSyncDate?: string;
  readonly runId: string;
}

/** Tools that pass their arguments to the host unchanged. */
const plain = [
  "getConnection",
  "getIntegration",
  "getToken",
  "setMetadata",
  "updateMetadata",
  "getWebhookURL",
  "getEnvironmentVariables",
  "triggerAction",
  "triggerSync",
  "startSync",
  "tryAcquireLock",
  "releaseLock",
  "releaseAllLocks",
  "progress",
  "askClient",
  "getMcpClient",
] as const;
const plainOfSyncs = [
  "getCheckpoint",
  "saveCheckpoint",
  "clearCheckpoint",
  "trackDeletesStart",
  "trackDeletesEnd",
  "deleteRecordsFromPreviousExecutions",
] as const;
const methods = ["get", "post", "put", "patch", "delete"] as const;

const forwarders = (names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, (...args: unknown[]) => call(name, ...args)]));

/** Creates the object that a script gets: each method is a call to the host. */
export function createNango(facts: Facts, metadata: unknown, isSync: boolean): object {
  const action = {
    connectionId: facts.connectionId,
    providerConfigKey: facts.integration,
    provider: facts.provider,
    environmentName: facts.environment,
    variant: facts.variant,
    activityLogId: facts.runId,
    ActionError,
    ...forwarders(plain),
    proxy,
    ...Object.fromEntries(
      methods.map((method) => [method, (config: ProxyConfiguration) => proxy({ ...config, method: upper(method) })]),
    ),
    paginate: (config: ProxyConfiguration) => pages(config, callerStack()),
    log: async (...said: unknown[]) => logWithOptions(said),
    getMetadata: withCallerPosition(async () => {
      const held = await call("getMetadata");
      const judged = await validate(held, metadata);
      if (!judged.ok) throw new SchemaError("invalid_input", "metadata", judged.problems);
      return held;
    }),
    zodValidateInput: withCallerPosition(zodValidateInput),
    // A script file has no attributes besides its own declarations.
    getFlowAttributes: () => ({}),
    uncontrolledFetch() {
      throw new Error("scripts have no network access: use nango.get, nango.post and so on");
    },
  };
  return isSync ? { ...action, ...syncTools(facts) } : action;
}

function syncTools({ lastSyncDate }: Facts): object {
  return {
    lastSyncDate: lastSyncDate === undefined ? undefined : new Date(lastSyncDate),
    ...forwarders(plainOfSyncs),
    batchSave: batches("batchSave"),
    batchUpdate: batches("batchUpdate"),
    batchDelete: batches("batchDelete"),
    /** The host returns the records found; the map uses the IDs as requested. */
    async getRecordsByIds(ids: readonly (string | number)[], model: string) {
      const found = (await call("getRecordsByIds", ids, model)) as readonly { id: unknown }[];
      const byId = new Map(found.map((record) => [String(record.id), record]));
      return new Map(ids.flatMap((id) => (byId.has(String(id)) ? [[id, byId.get(String(id))] as const] : [])));
    },
    async setMergingStrategy({ strategy }: { strategy: string }) {
      if (strategy === "override") return;
      throw new Error(`the merging strategy "${strategy}" is not supported: use "override"`);
    },
  };
}

const upper = (method: string) => method.toUpperCase() as NonNullable<ProxyConfiguration["method"]>;

async function proxy(config: ProxyConfiguration): Promise<ProxyResponse> {
  const answered = (await call("proxy", forHost(config))) as ProxyResponse & { readonly dataBase64?: string };
  const { dataBase64, ...response } = answered;
  const data = dataBase64 === undefined ? response.data : Buffer.from(dataBase64, "base64");
  return { ...response, data, config };
}

/** Forms and bytes are not JSON: forms become text, bytes become base64. */
function forHost({ paginate: _, ...config }: ProxyConfiguration): object {
  const { data, headers, params } = config;
  const query = (params as unknown) instanceof URLSearchParams ? { params: String(params) } : {};
  if (data instanceof URLSearchParams) {
    const type = { "content-type": "application/x-www-form-urlencoded", ...lowerCased(headers) };
    return { ...config, ...query, data: String(data), headers: type };
  }
  const bytes = data instanceof ArrayBuffer ? new Uint8Array(data) : data;
  if (!(bytes instanceof Uint8Array)) return { ...config, ...query };
  const { data: __, ...rest } = config;
  return { ...rest, ...query, dataBase64: base64(bytes) };
}

const lowerCased = (headers: Readonly<Record<string, string>> = {}) =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));

/** Later pages are not fetched from a line of the script: their errors get the position of the `paginate` call. */
async function* pages(config: ProxyConfiguration, at: string): AsyncGenerator<unknown[], undefined, void> {
  try {
    const usual = (await call("paginationOf")) as Partial<Pagination> | null | undefined;
    return yield* paginate(config, usual ?? undefined, proxy);
  } catch (thrown) {
    throw withCallerStack(thrown, at);
  }
}

/** Long lists are sent in batches, so that reading, encrypting and committing one does not delay others. */
const batchCount = 250;
const batchLength = 128 * 1_024;

const batches = (tool: string) =>
  withCallerPosition((records: unknown, model: unknown) => inBatches(tool, records, model));

async function inBatches(tool: string, records: unknown, model: unknown): Promise<boolean> {
  if (!Array.isArray(records)) throw new TypeError(`the first argument of nango.${tool} must be a list of records`);
  const name = JSON.stringify(String(model));
  let texts: string[] = [];
  let length = 0;
  const send = async () => {
    if (texts.length > 0) await callWithText(tool, `[[${texts.join(",")}],${name}]`);
    texts = [];
    length = 0;
  };
  for (const record of records) {
    const text = JSON.stringify(record) ?? "null";
    if (texts.length === batchCount || length + text.length > batchLength) await send();
    texts.push(text);
    length += text.length;
  }
  // Sends an empty list as well: the host checks whether the model exists.
  if (texts.length > 0 || records.length === 0) await callWithText(tool, `[[${texts.join(",")}],${name}]`);
  return true;
}

async function zodValidateInput({ zodSchema, input }: { zodSchema: unknown; input: unknown }) {
  const judged = await validate(input, zodSchema);
  if (judged.ok) return { success: true, data: judged.data };
  for (const { path, message } of judged.problems) log("error", [`Invalid input: ${message} at path ${path}`]);
  throw new ActionError({ message: "Invalid input", errors: judged.problems });
}
