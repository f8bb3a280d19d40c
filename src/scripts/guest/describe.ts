import { isNothing, jsonSchemaOf } from "./schemas.ts";

type DescribedFields = Readonly<Record<string, unknown>>;

/** Returns what the file declares, as JSON; the host validates it. */
export function describe(script: unknown): object {
  if (typeof script !== "object" || script === null) return { type: "none" };
  const it = script as DescribedFields;
  const models = typeof it["models"] === "object" && it["models"] !== null ? (it["models"] as DescribedFields) : {};
  return {
    type: it["type"],
    description: it["description"],
    event: it["event"],
    frequency: it["frequency"],
    syncType: it["syncType"],
    autoStart: it["autoStart"],
    trackDeletes: it["trackDeletes"],
    webhookSubscriptions: it["webhookSubscriptions"],
    endpoints: it["endpoints"],
    endpoint: it["endpoint"],
    scopes: it["scopes"],
    mcp: it["mcp"],
    hasCheckpoint: !isNothing(it["checkpoint"]),
    hasExec: typeof it["exec"] === "function",
    hasOnWebhook: typeof it["onWebhook"] === "function",
    metadata: isNothing(it["metadata"]) ? undefined : jsonSchemaOf(it["metadata"], "input"),
    input: isNothing(it["input"]) ? undefined : jsonSchemaOf(it["input"], "input"),
    output: isNothing(it["output"]) ? undefined : jsonSchemaOf(it["output"], "output"),
    models: Object.fromEntries(
      Object.entries(models).map(([name, model]) => [name, jsonSchemaOf(model, "output") ?? {}]),
    ),
  };
}
