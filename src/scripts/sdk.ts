/**
 * The types and functions that your script imports from `latchkey/scripts` (or from `nango`, which is the same).
 * None of this code runs: a script only describes itself, and the host that runs it provides the tools.
 */

/** A zod schema, of any version that implements Standard Schema. */
// biome-ignore lint/suspicious/noExplicitAny: a schema of whatever type; it is what the customer's schema says it is.
export interface Schema<Output = any> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined;
  };
}

/** The output type of a schema. */
export type Infer<S> = S extends { readonly "~standard": { readonly types?: infer T } }
  ? NonNullable<T> extends { readonly output: infer Output }
    ? Output
    : never
  : undefined;

export type Models = Readonly<Record<string, Schema<{ id: string }>>>;
export type MaybePromise<T> = T | Promise<T>;

export interface Endpoint {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Begins with a slash. */
  path: string;
  group?: string;
}

interface DescribedScript<Metadata> {
  description: string;
  version?: string;
  /** Shown to people only; Latchkey does not enforce scopes. */
  scopes?: string[];
  metadata?: Metadata;
}

export interface SyncDefinition<M extends Models, Metadata, Checkpoint = undefined> extends DescribedScript<Metadata> {
  /** At least 30 seconds, at most 31 days: `every 5 minutes`, `1d`. */
  frequency: string;
  /** Default: `full`. */
  syncType?: "full" | "incremental";
  endpoints?: Endpoint[];
  models: M;
  checkpoint?: Checkpoint;
  /** Deletes records that a complete full run does not return. */
  trackDeletes?: boolean;
  /** Runs the sync on its schedule from the creation of the connection, without being started. Default: true. */
  autoStart?: boolean;
  /** Types of notifications that call `onWebhook`; `*` for all. */
  webhookSubscriptions?: string[];
  exec: (nango: NangoSync<M, Metadata, Checkpoint>) => MaybePromise<void>;
  // biome-ignore lint/suspicious/noExplicitAny: what a provider sends is the provider's affair.
  onWebhook?: (nango: NangoSync<M, Metadata, Checkpoint>, payload: any) => MaybePromise<void>;
}

/** How clients of the MCP endpoint see an action. */
export type McpForm =
  /** A tool. With `content`, its output is MCP content: a block, a list of blocks, or `{ content, isError }`. */
  | { kind: "tool"; answers?: "output" | "content" }
  /** A prompt, whose arguments are the fields of `input`. Its output is text, or a list of messages. */
  | { kind: "prompt" }
  /**
   * A resource. Parts of the URI in braces become the fields of `input`: `files://{id}/text`. Its output is text, or
   * `{ text }` or `{ blob }` (Base64); any other value is shown as JSON.
   */
  | { kind: "resource"; uri: string; mimeType?: string; follows?: string };

export interface ActionDefinition<Input, Output, Metadata> extends DescribedScript<Metadata> {
  endpoint?: Endpoint;
  /** Default: a tool that answers with its output. */
  mcp?: McpForm;
  input?: Input;
  output?: Output;
  exec: (nango: NangoAction<Metadata>, input: Infer<Input>) => MaybePromise<Infer<Output>>;
}

export interface EventDefinition<Metadata> extends DescribedScript<Metadata> {
  event: "post-connection-creation" | "pre-connection-deletion" | "validate-connection";
  exec: (nango: NangoAction<Metadata>) => MaybePromise<void>;
}

export type Sync<M extends Models, Metadata, Checkpoint> = SyncDefinition<M, Metadata, Checkpoint> & { type: "sync" };
export type Action<Input, Output, Metadata> = ActionDefinition<Input, Output, Metadata> & { type: "action" };
export type OnEvent<Metadata> = EventDefinition<Metadata> & { type: "onEvent" };

/** Creates a sync, which fetches data on a schedule. */
export const createSync = <M extends Models, Metadata = undefined, Checkpoint = undefined>(
  definition: SyncDefinition<M, Metadata, Checkpoint>,
): Sync<M, Metadata, Checkpoint> => ({ ...definition, type: "sync" });

/** Creates an action, which does one task on demand. */
export const createAction = <Input = undefined, Output = undefined, Metadata = undefined>(
  definition: ActionDefinition<Input, Output, Metadata>,
): Action<Input, Output, Metadata> => ({ ...definition, type: "action" });

/** Creates a script that runs on an event of a connection. */
export const createOnEvent = <Metadata = undefined>(definition: EventDefinition<Metadata>): OnEvent<Metadata> => ({
  ...definition,
  type: "onEvent",
});

/** Throw this error in an action to return its payload to the caller. */
export class ActionError<Payload = unknown> extends Error {
  override readonly name = "ActionError";
  readonly type = "action_script_runtime_error";
  readonly payload: Payload | undefined;

  constructor(payload?: Payload) {
    const message = typeof payload === "string" ? payload : ((payload ?? {}) as { message?: unknown }).message;
    super(typeof message === "string" ? message : "");
    this.payload = payload;
  }
}

export interface ProxyConfiguration {
  /** The path at the provider, or a complete URL. */
  endpoint: string;
  method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE" | "get" | "post" | "put" | "patch" | "delete";
  params?: string | Record<string, string | number | boolean | (string | number)[] | undefined>;
  headers?: Record<string, string>;
  data?: unknown;
  /** The origin must be one that the integration allows. */
  baseUrlOverride?: string;
  retries?: number;
  /** Additional statuses to retry. */
  retryOn?: number[] | null;
  /** `arraybuffer` and `stream` return a Buffer. */
  responseType?: "json" | "text" | "arraybuffer" | "stream" | "blob";
  decompress?: boolean;
  paginate?: Partial<Pagination>;
  /** Use another connection than the script's own, if the host allows it. */
  connectionId?: string;
  providerConfigKey?: string;
}

export interface Pagination {
  type: "cursor" | "link" | "offset" | "none";
  limit?: number | string;
  limit_name_in_request?: string;
  /** Path of the list in the response. Default: the response itself. */
  response_path?: string;
  /** Sends the position in the body instead of the query. Default: true for POST, PUT and PATCH. */
  in_body?: boolean;
  cursor_path_in_response?: string;
  cursor_name_in_request?: string;
  /** Path of the cursor in the last item of the list, in place of `cursor_path_in_response`. */
  cursor_path_in_last_item?: string;
  /** Path of a field that is false on the last page. */
  has_more_path?: string;
  link_rel_in_response_header?: string;
  link_path_in_response_body?: string;
  offset_name_in_request?: string;
  offset_start_value?: number | string;
  offset_calculation_method?: "per-page" | "by-response-size";
  on_page?: (page: { nextPageParam?: string | number | undefined; response: ProxyResponse }) => MaybePromise<void>;
}

// biome-ignore lint/suspicious/noExplicitAny: as every HTTP client has it; the caller says what to expect.
export interface ProxyResponse<T = any> {
  status: number;
  headers: Record<string, string>;
  data: T;
  config: ProxyConfiguration;
}

type Json = Record<string, unknown>;

/** A question to the user of an MCP client, to its model, or to the client itself. */
export type ClientQuestion =
  /** A JSON Schema of flat fields: text, numbers, booleans and choices. */
  | { kind: "form"; message: string; schema: Json }
  | {
      kind: "sampling";
      /** Text, or a list of messages `{ role, content }`. */
      messages: string | { role?: "user" | "assistant"; content: string | Json }[];
      maxTokens: number;
      systemPrompt?: string;
      temperature?: number;
      stopSequences?: string[];
      modelPreferences?: Json;
      metadata?: Json;
    }
  | { kind: "roots" };

export type AnswerTo<Q extends ClientQuestion> = Q extends { kind: "form" }
  ? // biome-ignore lint/suspicious/noExplicitAny: the schema says what a field holds.
    { action: "accept"; content: Record<string, any> } | { action: "decline" | "cancel"; content?: undefined }
  : Q extends { kind: "sampling" }
    ? // biome-ignore lint/suspicious/noExplicitAny: one block of content, or a list of them.
      { role: "user" | "assistant"; content: any; model: string; stopReason?: string }
    : { roots: { uri: string; name?: string }[] };

/** The tools of every script. */
export interface NangoAction<Metadata = undefined> {
  readonly connectionId: string;
  readonly providerConfigKey: string;
  readonly provider: string;
  readonly environmentName: string;
  readonly variant: string;
  /** The ID of the run. */
  readonly activityLogId: string;
  readonly ActionError: typeof ActionError;

  // biome-ignore-start lint/suspicious/noExplicitAny: what an answer holds is the provider's affair.
  proxy<T = any>(config: ProxyConfiguration): Promise<ProxyResponse<T>>;
  get<T = any>(config: ProxyConfiguration): Promise<ProxyResponse<T>>;
  post<T = any>(config: ProxyConfiguration): Promise<ProxyResponse<T>>;
  put<T = any>(config: ProxyConfiguration): Promise<ProxyResponse<T>>;
  patch<T = any>(config: ProxyConfiguration): Promise<ProxyResponse<T>>;
  delete<T = any>(config: ProxyConfiguration): Promise<ProxyResponse<T>>;
  /** Yields page after page, with the provider's way of paging, or the one in `config.paginate`. */
  paginate<T = any>(config: ProxyConfiguration): AsyncGenerator<T[], undefined, void>;

  getConnection(providerConfigKey?: string, connectionId?: string): Promise<any>;
  getIntegration(options?: Json): Promise<any>;
  getToken(): Promise<any>;
  triggerAction<In = unknown, Out = any>(
    providerConfigKey: string,
    connectionId: string,
    name: string,
    input?: In,
  ): Promise<Out>;
  // biome-ignore-end lint/suspicious/noExplicitAny: as above.
  getMetadata<T = Metadata extends undefined ? Json : Infer<Metadata>>(): Promise<T>;
  setMetadata(metadata: Json): Promise<unknown>;
  updateMetadata(metadata: Json): Promise<unknown>;
  startSync(
    providerConfigKey: string,
    syncs: (string | { name: string; variant: string })[],
    connectionId: string,
  ): Promise<void>;
  getWebhookURL(): Promise<string | null | undefined>;
  getEnvironmentVariables(): Promise<{ name: string; value: string }[] | null>;
  triggerSync(
    providerConfigKey: string,
    connectionId: string,
    sync: string | { name: string; variant: string },
    mode?: boolean | string | Json,
  ): Promise<unknown>;
  /**
   * Returns true if this run now holds the lock. Within an environment, only one run can hold a key. A lock lasts
   * `ttlMs` (default 60 s, at most 1 hour), but never longer than the run.
   */
  tryAcquireLock(lock: { key: string; ttlMs?: number }): Promise<boolean>;
  /** Returns true if this run held the lock. */
  releaseLock(lock: { key: string }): Promise<boolean>;
  releaseAllLocks(): Promise<void>;
  /** Always empty: a script has no attributes besides those in its file. */
  getFlowAttributes(): Json;
  /** Tells a client of the MCP endpoint that waits for the run how far it is. Does nothing for any other caller. */
  progress(step: { progress: number; total?: number; message?: string }): Promise<void>;
  /**
   * Asks the MCP client that waits for the run, and returns its answers by the names of the questions. Without them, the
   * run ends here and nothing catches it: once the client has answered, the action runs again from its beginning.
   */
  askClient<Q extends Record<string, ClientQuestion>>(questions: Q): Promise<{ [K in keyof Q]: AnswerTo<Q[K]> }>;
  /** Says what the client can be asked. Null: no MCP client waits for the run. */
  getMcpClient(): Promise<{ forms: boolean; sampling: boolean; roots: boolean } | null>;
  /** Writes to the log of the run. The last argument may set the level: `{ level: "error" }`. */
  log(...said: unknown[]): Promise<void>;
  /** Throws an ActionError that lists what is wrong with the input, and where. */
  // biome-ignore lint/suspicious/noExplicitAny: a schema of zod 3 or 4.
  zodValidateInput<T = any>(given: { zodSchema: any; input: unknown }): Promise<{ success: true; data: T }>;
}

/** The additional tools of a sync. */
export interface NangoSync<M extends Models = Models, Metadata = undefined, Checkpoint = undefined>
  extends NangoAction<Metadata> {
  /** Start time of the last successful run. */
  readonly lastSyncDate: Date | undefined;
  batchSave<N extends keyof M & string>(records: Infer<M[N]>[], model: N): Promise<boolean>;
  batchUpdate<N extends keyof M & string>(
    records: (Partial<Infer<M[N]>> & { id: string })[],
    model: N,
  ): Promise<boolean>;
  batchDelete<N extends keyof M & string>(records: { id: string }[], model: N): Promise<boolean>;
  getRecordsByIds<K extends string | number, N extends keyof M & string>(
    ids: readonly K[],
    model: N,
  ): Promise<Map<K, Infer<M[N]>>>;
  getCheckpoint<T = Checkpoint extends undefined ? Json : Infer<Checkpoint>>(): Promise<T | null>;
  saveCheckpoint(checkpoint: Json): Promise<void>;
  clearCheckpoint(): Promise<void>;
  trackDeletesStart(model: keyof M & string): Promise<void>;
  trackDeletesEnd(model: keyof M & string): Promise<unknown>;
  deleteRecordsFromPreviousExecutions(model: keyof M & string): Promise<unknown>;
  /** Only `override`, the default, is supported; other strategies throw. */
  setMergingStrategy(merging: { strategy: string }, model: keyof M & string): Promise<void>;
}
