import { execFileSync } from "node:child_process";
import { generateKeyPairSync, X509Certificate } from "node:crypto";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { addressBytes } from "../../../../src/base/certificates/address-bytes.ts";
import { keptAuthority, makeAuthority, signingAuthority } from "../../../../src/base/certificates/authority.ts";
import { oid, positive, tagged, time } from "../../../../src/base/certificates/der.ts";
import { makeLeaf } from "../../../../src/base/certificates/leaf.ts";
import { pemOf } from "../../../../src/base/certificates/pem.ts";
import { lacks } from "../../../support/sidecar/needs.ts";

const nowMs = Date.parse("2026-11-25T12:00:00.500Z");
const lifeMs = 7 * 86_400_000;
const { publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
const spki = publicKey.export({ type: "spki", format: "der" });
const longName = `${"a".repeat(60)}.${"b".repeat(60)}.example.com`;
const hosts = ["api.example.com", "xn--bcher-kva.example", longName, "127.0.0.1", "::1", "2001:db8::7"];

async function certificates() {
  const authority = await makeAuthority("1a2b", nowMs);
  const leaves = await Promise.all(hosts.map((host) => makeLeaf({ host, publicKey: spki, authority, nowMs, lifeMs })));
  return { authority, leaves };
}

it("writes DER as X.690 wants it", () => {
  const hex = (bytes: Buffer) => bytes.toString("hex");
  expect(hex(positive(Buffer.from([0, 0, 0x7f])))).toBe("02017f");
  expect(hex(positive(Buffer.from([0x80])))).toBe("02020080");
  expect(hex(oid("1.2.840.10045.4.3.2"))).toBe("06082a8648ce3d040302");
  expect(hex(tagged(4, Buffer.alloc(200))).slice(0, 6)).toBe("0481c8");
  expect(hex(tagged(4, Buffer.alloc(300))).slice(0, 8)).toBe("0482012c");
  expect(time(nowMs).toString("latin1", 2)).toBe("261125120000Z");
  expect(time(Date.parse("2050-01-01T00:00:00Z")).toString("latin1", 2)).toBe("20500101000000Z");
});

it.each([
  ["127.0.0.1", "7f000001"],
  ["::", "0".repeat(32)],
  ["::1", `${"0".repeat(31)}1`],
  ["2001:db8::7", "20010db8000000000000000000000007"],
  ["fe80::1:2:3:4", "fe800000000000000001000200030004"],
  ["::ffff:1.2.3.4", "00000000000000000000ffff01020304"],
  ["1:2:3:4:5:6:7:8", "00010002000300040005000600070008"],
  ["example.com", undefined],
])("takes the bytes of the address %s", (host, bytes) => {
  expect(addressBytes(host)?.toString("hex")).toBe(bytes);
});

it("makes certificates for one host each, which Node verifies", async () => {
  const { authority, leaves } = await certificates();
  const ca = new X509Certificate(authority.certificate);
  expect([ca.ca, ca.verify(ca.publicKey), ca.subject]).toEqual([
    true,
    true,
    "O=Latchkey\nCN=Latchkey forward proxy 1a2b",
  ]);
  for (const [i, der] of leaves.entries()) {
    const leaf = new X509Certificate(der);
    const host = hosts[i] ?? "";
    expect([leaf.ca, leaf.checkIssued(ca), leaf.verify(ca.publicKey)]).toEqual([false, true, true]);
    const isAddress = addressBytes(host) !== undefined;
    expect(isAddress ? leaf.checkIP(host) : leaf.checkHost(host)).toBe(host);
    expect(leaf.checkHost("other.example.com")).toBe(undefined);
    expect(Date.parse(leaf.validFrom)).toBeLessThanOrEqual(nowMs - 86_400_000);
    expect(Date.parse(leaf.validTo)).toBe(Math.floor((nowMs + lifeMs) / 1_000) * 1_000);
  }
});

it("signs on with what was kept of an authority", async () => {
  const authority = signingAuthority(keptAuthority(await makeAuthority("1a2b", nowMs)));
  const der = await makeLeaf({ host: "api.example.com", publicKey: spki, authority, nowMs, lifeMs });
  const ca = new X509Certificate(authority.certificate);
  expect(new X509Certificate(der).verify(ca.publicKey)).toBe(true);
});

it("ends a certificate with its authority", async () => {
  const authority = await makeAuthority("1a2b", nowMs);
  const lateMs = authority.untilMs - 1_000;
  const der = await makeLeaf({ host: "api.example.com", publicKey: spki, authority, nowMs: lateMs, lifeMs });
  expect(Date.parse(new X509Certificate(der).validTo)).toBe(authority.untilMs);
});

describe("other programs", () => {
  const folder = mkdtempSync(join(tmpdir(), "latchkey-certificates-"));

  async function files() {
    const { authority, leaves } = await certificates();
    const ca = join(folder, "ca.pem");
    writeFileSync(ca, pemOf("CERTIFICATE", authority.certificate));
    const paths = leaves.map((der, i) => {
      const path = join(folder, `leaf-${i}.pem`);
      writeFileSync(path, pemOf("CERTIFICATE", der));
      return path;
    });
    return { ca, paths };
  }

  it.skipIf(lacks("openssl"))("are accepted by openssl, strictly", async () => {
    const { ca, paths } = await files();
    const at = String(Math.floor(nowMs / 1_000));
    const args = ["verify", "-x509_strict", "-purpose", "sslserver", "-attime", at, "-CAfile", ca, ...paths];
    const said = execFileSync("openssl", args, { encoding: "utf8" });
    expect(said.match(/: OK/g)).toHaveLength(hosts.length);
    const text = execFileSync("openssl", ["x509", "-in", ca, "-noout", "-text"], { encoding: "utf8" });
    expect(text).toContain("CA:TRUE, pathlen:0");
    expect(text).toMatch(/X509v3 Key Usage: critical\s+Certificate Sign\n/);
    expect(text).toMatch(/Extended Key Usage:\s+TLS Web Server Authentication\n/);
  });

  it.skipIf(lacks("go"))(
    "are accepted by Go",
    async () => {
      const { ca, paths } = await files();
      const program = join(folder, "verify.go");
      writeFileSync(program, goProgram);
      const args = ["run", program, String(Math.floor(nowMs / 1_000)), ca];
      const pairs = paths.flatMap((path, i) => [path, hosts[i] ?? ""]);
      expect(execFileSync("go", [...args, ...pairs], { encoding: "utf8" })).toBe("ok\n");
    },
    60_000,
  );
});

const goProgram = `package main

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"strconv"
	"time"
)

func read(path string) *x509.Certificate {
	bytes, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	block, _ := pem.Decode(bytes)
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		panic(err)
	}
	return parsed
}

func main() {
	seconds, _ := strconv.ParseInt(os.Args[1], 10, 64)
	roots := x509.NewCertPool()
	roots.AddCert(read(os.Args[2]))
	for i := 3; i < len(os.Args); i += 2 {
		options := x509.VerifyOptions{Roots: roots, DNSName: os.Args[i+1], CurrentTime: time.Unix(seconds, 0)}
		if _, err := read(os.Args[i]).Verify(options); err != nil {
			panic(err)
		}
	}
	fmt.Println("ok")
}
`;
