import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { StoreRefused } from "../../../../src/store/contract.ts";
import { parsePostgresUrl, placeOf } from "../../../../src/store/postgres/servers/url.ts";

describe("the address of a PostgreSQL store", () => {
  const folder = mkdtempSync(join(tmpdir(), "latchkey-url-"));
  afterAll(() => rmSync(folder, { recursive: true }));

  it("names user, host and database, with libpq's defaults", () => {
    expect(parsePostgresUrl("postgres://ada:p%40ss@db.example.test/broker")).toMatchObject({
      servers: [{ host: "db.example.test", port: 5432 }],
      user: "ada",
      password: "p@ss",
      database: "broker",
      schema: "latchkey",
      applicationName: "latchkey",
    });
    expect(parsePostgresUrl("postgresql://ada@db.example.test:6432").database).toBe("ada");
  });

  it("takes parameters in the place of parts, and a plus for a plus", () => {
    const url = "postgres:///?host=/run/postgresql&port=5433&user=ada&password=a+b&dbname=broker&schema=second";
    const address = parsePostgresUrl(url);
    expect(address).toMatchObject({
      servers: [{ host: "/run/postgresql", port: 5433 }],
      user: "ada",
      password: "a+b",
      database: "broker",
      schema: "second",
    });
    expect(placeOf(address)).toBe("/run/postgresql/.s.PGSQL.5433");
  });

  it.each([
    ["postgres://ada@%2Frun%2Fpostgresql/broker", "/run/postgresql"],
    ["postgres://ada@[::1]:5433/broker", "::1"],
  ])("reads the host of %s", (url, host) => {
    expect(parsePostgresUrl(url).servers[0]?.host).toBe(host);
  });

  it.each([
    ["postgres://ada:p%2C@one.test,two.test:5433,[::1]/broker", "one.test:5432, two.test:5433, [::1]:5432"],
    ["postgres://ada@one.test:1,two.test:2/broker?target_session_attrs=read-write", "one.test:1, two.test:2"],
    ["postgres:///broker?user=ada&host=one,two&port=1,2&target_session_attrs=primary", "one:1, two:2"],
    ["postgres://ada@one,two/broker?port=7", "one:7, two:7"],
  ])("reads the hosts of %s", (url, place) => {
    const address = parsePostgresUrl(url);
    expect(placeOf(address)).toBe(place);
    expect(address.database).toBe("broker");
  });

  it("encrypts to several hosts unless all are this machine", () => {
    expect(parsePostgresUrl("postgres://ada@localhost,127.0.0.1:2/broker").tls).toBeUndefined();
    expect(parsePostgresUrl("postgres://ada@localhost,db.example.test/broker").tls).toEqual({
      rejectUnauthorized: true,
    });
  });

  it.each(["localhost", "127.0.0.1", "127.1.2.3", "[::1]", "%2Ftmp"])("does not encrypt to %s by default", (host) => {
    expect(parsePostgresUrl(`postgres://ada@${host}/broker`).tls).toBeUndefined();
  });

  it.each([
    "db.example.test/broker",
    "10.0.0.5/broker",
    "127.example.test/broker",
    "db.example.test/broker?sslmode=verify-full",
  ])("requires verification at %s", (rest) => {
    const { tls } = parsePostgresUrl(`postgres://ada@${rest}`);
    expect(tls).toEqual({ rejectUnauthorized: true });
  });

  it("encrypts without verification on request, as libpq does", () => {
    const at = "postgres://ada@db.example.test/broker";
    expect(parsePostgresUrl(`${at}?sslmode=require`).tls?.rejectUnauthorized).toBe(false);
    const file = join(folder, "ca.crt");
    writeFileSync(file, "a certificate");
    const withAuthority = parsePostgresUrl(`${at}?sslmode=require&sslrootcert=${file}`).tls;
    expect(withAuthority?.rejectUnauthorized).toBe(true);
    expect(withAuthority?.ca?.toString()).toBe("a certificate");
    expect(withAuthority?.checkServerIdentity).toBeDefined();
    // A named authority requires verification, on this machine too.
    expect(parsePostgresUrl(`postgres://ada@localhost/broker?sslrootcert=${file}`).tls?.ca).toBeDefined();
  });

  it.each([
    ["postgres://db.example.test/broker", /no user/],
    ["postgres:///broker?user=ada", /no host/],
    ["postgres://ada@one.test,/broker", /no host/],
    ["postgres://ada@one.test:1x,two.test/broker", /not a port/],
    ["postgres://ada@one,two,three/broker?port=1,2", /3 hosts and 2 ports/],
    ["postgres://ada@one.test,two.test/broker?target_session_attrs=any", /target_session_attrs=any/],
    ["postgres://ada@db.example.test/broker?sslmode=prefer", /sslmode=prefer/],
    ["postgres://ada@db.example.test/broker?sslmodus=require", /unknown parameter/],
    ["postgres://ada@db.example.test/broker?schema=Robert'; drop", /schema=/],
    ["postgres://ada@db.example.test/broker?port=0", /not a port/],
    ["postgres://ada@db.example.test/broker?sslrootcert=/nowhere/ca.crt", /sslrootcert=\/nowhere\/ca.crt/],
    ["postgres://ada@db.example.test/broker?sslcert=/etc/hostname", /must be set together/],
    ["postgres://ada:100%@db.example.test/broker", /percent/],
    ["postgres://", /no host/],
  ])("refuses %s", (url, why) => {
    expect(() => parsePostgresUrl(url)).toThrow(StoreRefused);
    expect(() => parsePostgresUrl(url)).toThrow(why);
  });

  it("never quotes a password", () => {
    for (const rest of ["db.test/b?secretparameter=x", "db.test/b?sslmode=x", "db.test:99999/b", "a,/c", "db.test/%"]) {
      let said = "";
      try {
        parsePostgresUrl(`postgres://ada:hunter2@${rest}`);
      } catch (error) {
        said = String((error as Error).stack) + String((error as Error).cause);
      }
      expect(said).toContain("StoreRefused");
      expect(said).not.toContain("hunter2");
    }
  });
});
