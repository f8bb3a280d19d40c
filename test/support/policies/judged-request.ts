import type { JudgedRequest } from "../../../src/core/policies/request-facts.ts";

/** A request for policies, in which a test changes what it is about. */
export const judgedRequest = (changes: Partial<JudgedRequest> = {}): JudgedRequest => ({
  method: "POST",
  host: "api.github.com",
  basePath: "/v1",
  path: "/%C3%BCber/x?tag=a%20b&tag=c&state",
  rawHeaders: [],
  sentHeaders: () => ["X-Team", "one", "x-team", "two", "Accept", "*/*"],
  body: { kind: "none" },
  message: "none",
  nowMs: Date.UTC(2026, 6, 1, 12),
  caller: { key: "shop", session: "", script: "", identity: {}, scopes: ["proxy", "syncs"] },
  integration: { key: "github", provider: "github", environment: "prod" },
  connection: { id: "ada", tags: { team: "shop" }, metadata: { plan: { seats: 3 } } },
  ...changes,
});
