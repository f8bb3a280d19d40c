import { createHash } from "node:crypto";
import { version } from "../../src/base/version.ts";
import type { NpmPackage } from "./packages.ts";

export interface DebianPackage {
  readonly name: string;
  readonly version: string;
  readonly architecture: string;
  readonly path: string;
  readonly sha256?: string;
}

interface Contents {
  readonly npm: readonly NpmPackage[];
  readonly debian: readonly DebianPackage[];
}

/** What is in the image, in CycloneDX 1.6. The same content makes the same bill: it has no time and no number of its own. */
export function softwareBill({ npm, debian }: Contents) {
  const components = [...npm.map(ofNpm), ...debian.map(ofDebian)].sort((a, b) => (a.purl < b.purl ? -1 : 1));
  const main = `pkg:generic/latchkey@${version}`;
  return {
    $schema: "http://cyclonedx.org/schema/bom-1.6.schema.json",
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    serialNumber: `urn:uuid:${uuidOf(components.map(({ purl }) => purl).join("\n"))}`,
    version: 1,
    metadata: {
      component: { type: "application", "bom-ref": main, name: "latchkey", version, purl: main },
    },
    components,
    dependencies: [{ ref: main, dependsOn: components.map((one) => one["bom-ref"]) }],
  };
}

function ofNpm({ name, version: found, license, integrity }: NpmPackage) {
  const purl = `pkg:npm/${name.replace("@", "%40")}@${found}`;
  const sha512 = integrity?.startsWith("sha512-")
    ? Buffer.from(integrity.slice(7), "base64").toString("hex")
    : undefined;
  return {
    type: "library",
    "bom-ref": purl,
    name,
    version: found,
    purl,
    licenses: [/^[\w.+-]+$/.test(license) ? { license: { id: license } } : { expression: license }],
    ...(sha512 === undefined ? {} : { hashes: [{ alg: "SHA-512", content: sha512 }] }),
  };
}

function ofDebian({ name, version: found, architecture, sha256 }: DebianPackage) {
  const purl = `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(found)}?arch=${architecture}`;
  return {
    type: "library",
    "bom-ref": purl,
    name,
    version: found,
    purl,
    ...(sha256 === undefined ? {} : { hashes: [{ alg: "SHA-256", content: sha256 }] }),
  };
}

/** Of what is named: version 8 of RFC 9562, for identifiers of one's own making. */
function uuidOf(text: string): string {
  const bytes = createHash("sha256").update(text).digest().subarray(0, 16);
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x80;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}
