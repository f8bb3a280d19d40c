import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Postgres, startPostgres } from "../../support/postgres/postgres.ts";
import { startTestSidecar } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { type Face, faces, startForSessions, unhurried, useUp } from "./faces.ts";

describe.skipIf(lacks("postgres"))("two replicas over PostgreSQL", () => {
  let server: Postgres;
  let schemas = 0;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());
  const ask = faces["/proxy"] as Face;

  async function two() {
    schemas += 1;
    const env = { LATCHKEY_STORE: server.storeUrl(`access_sessions_${schemas}`) };
    const first = await startForSessions({ env });
    const allowed = first.config.allowPrivate.join(",");
    const second = await startTestSidecar({
      env: { ...env, LATCHKEY_ALLOW_PRIVATE: allowed, LATCHKEY_CONFIG: "/config" },
      files: { "/config": JSON.stringify(unhurried) },
    });
    const create = async (more: object) => {
      const limits = { connections: [{ integration: "here", id: "ada" }] };
      const { body } = await first.rest("POST", "/access-sessions", { body: { limits, ...more } });
      return body.data as { readonly id: string; readonly token: string };
    };
    return { first, second: { ...first, ...second }, create };
  }

  it("admit exactly the budget of a session, whichever replica is asked", async () => {
    const { first, second, create } = await two();
    for (const budget of [1, 7, 100]) {
      const { id, token } = await create({ budget });
      const before = first.sent();
      const asked = Array.from({ length: budget + 40 }, (_, i) => ask(i % 2 === 0 ? first : second, token));
      const answers = await Promise.all(asked);
      expect(answers.filter(([status]) => status !== 200 && status !== 403)).toEqual([]);
      // A replica may have been refused while the other one still held a few.
      for (const one of [first, second]) await useUp(() => ask(one, token));
      expect(first.sent() - before).toBe(budget);
      const { body } = await second.rest("GET", `/access-sessions/${id}`);
      expect(body.data.budget_left).toBe(0);
    }
  });

  it("use a new session at once, and refuse an ended one within a second", async () => {
    const { first, second, create } = await two();
    const { id, token } = await create({});
    expect(await ask(second, token)).toEqual([200, null]);
    expect((await first.rest("DELETE", `/access-sessions/${id}`)).status).toBe(200);
    const endedAt = performance.now();
    await expect.poll(() => ask(second, token), { interval: 10 }).toEqual([401, "unknown_key"]);
    console.log(`refused by the other replica after ${Math.round(performance.now() - endedAt)} ms`);
  });
});
