import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { StoreRefused } from "../../../src/store/contract.ts";
import { type Authority, type Certificate, createAuthority } from "../../cases/control-plane/certificates.ts";
import { handOver } from "../../support/postgres/postgres.ts";
import { postgresForFile, put } from "../../support/postgres/stores.ts";
import { lacks } from "../../support/sidecar/needs.ts";

describe.skipIf(lacks("postgres") || lacks("openssl"))(
  "a PostgreSQL server with authentication and a certificate",
  () => {
    const folder = mkdtempSync(join(tmpdir(), "latchkey-door-"));
    afterAll(() => rmSync(folder, { recursive: true }));
    let authority: Authority;
    let stranger: Authority;
    let client: Certificate;
    const password = "hunter2 & 3%";
    beforeAll(() => {
      authority = createAuthority(folder, "authority");
      stranger = createAuthority(folder, "stranger");
      client = authority.issue("ada", { names: "DNS:ada.test" });
      handOver(folder);
    });
    const file = postgresForFile(() => ({
      password,
      tls: authority.issue("server", { names: "IP:127.0.0.1" }),
      settings: { ssl_ca_file: authority.cert },
    }));

    async function seenBy(parameters: Readonly<Record<string, string>>) {
      const schema = file.newSchema();
      const { store } = await file.open({ schema, parameters: { application_name: schema, ...parameters } });
      await store.commit([put("a", "1")]);
      return file.server.query(
        `select distinct ssl, client_dn from pg_stat_ssl join pg_stat_activity using (pid) where application_name = $1`,
        [schema],
      );
    }

    it("is believed when its certificate is of the right authority and of its name", async () => {
      const parameters = { sslmode: "verify-full", sslrootcert: authority.cert };
      expect(await seenBy(parameters)).toEqual([{ ssl: true, client_dn: null }]);
    });

    it("authenticates by a client certificate", async () => {
      const parameters = { sslrootcert: authority.cert, sslcert: client.cert, sslkey: client.key };
      expect(await seenBy(parameters)).toEqual([{ ssl: true, client_dn: "/CN=ada" }]);
    });

    it("is not believed under another name, unless the authority is all that counts", async () => {
      const elsewhere = { host: "localhost", sslrootcert: authority.cert };
      const opening = seenBy({ ...elsewhere, sslmode: "verify-full" });
      await expect(opening).rejects.toBeInstanceOf(StoreRefused);
      await expect(opening).rejects.toThrow(/localhost/);
      expect(await seenBy({ ...elsewhere, sslmode: "verify-ca" })).toEqual([{ ssl: true, client_dn: null }]);
    });

    it.each(["verify-full", "verify-ca", "require"])(
      "is not believed with a certificate of a stranger (%s)",
      async (sslmode) => {
        const opening = seenBy({ sslmode, sslrootcert: stranger.cert });
        await expect(opening).rejects.toBeInstanceOf(StoreRefused);
        await expect(opening).rejects.toThrow(/certificate/);
      },
    );

    it("is encrypted without verification on request", async () => {
      expect(await seenBy({ sslmode: "require" })).toEqual([{ ssl: true, client_dn: null }]);
    });

    it("refuses another password, which no log shows", async () => {
      const schema = file.newSchema();
      const wrong = "not-the-password";
      const opening = file.open({ schema, parameters: { password: wrong } });
      const error = await opening.catch((caught: Error) => caught);
      expect(error).toBeInstanceOf(StoreRefused);
      const said = JSON.stringify([String(error), (error as Error).stack, String((error as Error).cause)]);
      expect(said).toContain("password authentication failed");
      expect(said).not.toContain(wrong);
      // A store's errors after the loss of its server do not show the right password either.
      const { store, logged } = await file.open({ schema });
      await file.server.shutDown();
      while (store.status().writable) await new Promise((resolve) => setTimeout(resolve, 20));
      await file.server.start();
      expect(`${logged.join("")}${store.status().reason}`).not.toMatch(/hunter2/);
    });

    describe("when the environment knows a password and the address does not", () => {
      afterEach(() => {
        delete process.env["PGPASSWORD"];
      });

      it("refuses every client", async () => {
        process.env["PGPASSWORD"] = password;
        const opening = file.open({ schema: file.newSchema(), parameters: { password: "" } });
        await expect(opening).rejects.toThrow(/password/);
      });
    });
  },
);
