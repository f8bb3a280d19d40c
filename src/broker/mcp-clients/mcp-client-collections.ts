import {
  type McpAnswer,
  McpAnswerSchema,
  type McpSubscriptions,
  McpSubscriptionsSchema,
} from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Store } from "../../store/contract.ts";
import { createRecords } from "../../store/records.ts";
import { bornAt } from "../stored/sortable-time.ts";

/** What clients of the MCP endpoint have sent to another process than the one that needs it. */
export function createMcpClientCollections(store: Store) {
  return {
    mcpAnswers: createRecords({
      store,
      name: "mcp-answer",
      schema: McpAnswerSchema,
      secret: true,
      key: ({ questionHash }: McpAnswer) => [questionHash],
      indexes: { age: ({ createdAt }: McpAnswer) => [[bornAt(createdAt)]] },
    }),
    mcpSubscriptions: createRecords({
      store,
      name: "mcp-subscriptions",
      schema: McpSubscriptionsSchema,
      secret: true,
      key: ({ callerHash, sessionHash }: McpSubscriptions) => [callerHash, sessionHash],
      keyParts: 2,
      indexes: { age: ({ createdAt }: McpSubscriptions) => [[bornAt(createdAt)]] },
    }),
  } as const;
}

export type McpClientCollections = ReturnType<typeof createMcpClientCollections>;
