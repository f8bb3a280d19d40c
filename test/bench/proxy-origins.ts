import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { nginxOrigin } from "./proxy-configurations.ts";
import { cores, descriptorLimit, freePorts, isThere, startProcess } from "./proxy-process.ts";

/** The providers of the bench. */
export interface Origins {
  /** `scripted` has streams, downloads and uploads; the other two are as fast as possible. */
  readonly ports: { readonly http: number; readonly https: number; readonly scripted: number };
  /** A PEM file with the authority of the origins' certificates. */
  readonly ca: string;
  stop(): Promise<void>;
}

const program = fileURLToPath(new URL("proxy-origin.ts", import.meta.url));

export async function startOrigins(folder: string): Promise<Origins> {
  const { ca, certificate, key } = makeCertificates(folder);
  const [scripted = 0, scriptedTls = 0, http = 0, https = 0] = await freePorts(4);
  const own = await startProcess({
    command: [process.execPath, program, String(scripted), String(scriptedTls), certificate, key],
    core: cores.load,
    ports: [scripted, scriptedTls],
  });
  if (!isThere("nginx")) return { ca, ports: { http: scripted, https: scriptedTls, scripted }, stop: own.stop };
  const home = join(folder, "origin");
  mkdirSync(home);
  const file = join(home, "nginx.conf");
  const options = { httpPort: http, httpsPort: https, certificate, key, folder: home, descriptors: descriptorLimit() };
  writeFileSync(file, nginxOrigin(options));
  const quick = await startProcess({ command: ["nginx", "-c", file], core: cores.load, ports: [http, https] });
  return {
    ca,
    ports: { http, https, scripted },
    stop: async () => void (await Promise.all([own.stop(), quick.stop()])),
  };
}

function makeCertificates(folder: string) {
  const at = (name: string) => join(folder, name);
  writeFileSync(at("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n");
  const newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  openssl([
    "req",
    "-x509",
    ...newKey,
    "-days",
    "2",
    "-subj",
    "/CN=bench CA",
    "-keyout",
    at("ca.key"),
    "-out",
    at("ca.pem"),
  ]);
  openssl(["req", ...newKey, "-subj", "/CN=localhost", "-keyout", at("origin.key"), "-out", at("origin.csr")]);
  const signed = [
    "-CA",
    at("ca.pem"),
    "-CAkey",
    at("ca.key"),
    "-CAcreateserial",
    "-days",
    "2",
    "-extfile",
    at("names"),
  ];
  openssl(["x509", "-req", "-in", at("origin.csr"), ...signed, "-out", at("origin.pem")]);
  return { ca: at("ca.pem"), certificate: at("origin.pem"), key: at("origin.key") };
}

function openssl(args: readonly string[]): void {
  const { status, stderr } = spawnSync("openssl", args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`openssl ${args[0]}: ${stderr}`);
}
