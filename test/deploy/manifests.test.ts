import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { programEnvironment } from "../../src/cli/commands/run/program-environment.ts";
import { type ConfigSource, parseConfig } from "../../src/config/config.ts";
import { parseEdgeConfig } from "../../src/config/edges/edge-config.ts";
import { deployedMemory, deployedOptions } from "../bench/sidecar-process.ts";
import { adminKey, sealKey, secretKey, startTestSidecar } from "../support/sidecar/harness.ts";
import { hasKubectl, kubectlRenders, kubernetes, type Manifest, overlays, render } from "./manifests.ts";
import { mistakesIn } from "./schemas.ts";

const keyed = (all: readonly Manifest[]) =>
  Object.fromEntries(all.map((one) => [`${one.kind}/${one.metadata.name}`, one]));
const ofKind = (all: readonly Manifest[], kind: string) => all.filter((one) => one.kind === kind);
const workloadOf = (all: readonly Manifest[]) =>
  all.find(({ kind }) => kind === "Deployment" || kind === "StatefulSet");
const podOf = (all: readonly Manifest[]) => workloadOf(all).spec.template;
const containersOf = ({ spec }: Manifest): Manifest[] => [...(spec.initContainers ?? []), ...spec.containers];
const latchkeyOf = (all: readonly Manifest[]) => containersOf(podOf(all)).find(({ name }) => name === "latchkey");

/** Whether labels have all of a selector. */
const matches = (labels: Manifest, selector: Manifest): boolean =>
  Object.entries(selector).every(([name, value]) => labels[name] === value);

const mebibytes = (text: string) => Number(/^(\d+)Mi$/.exec(text)?.[1]);

/** Enough for the configuration, which reads certificates only when a listener opens. */
const certificate = "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n";
/** Files that other programs put into the pods. */
const mounted: Readonly<Record<string, string>> = {
  "/run/secrets/tls/tls.crt": certificate,
  "/run/secrets/tls/tls.key": "a-key",
  "/run/kubernetes/ca.crt": certificate,
  "/run/kubernetes/token": "a-token",
  "/run/latchkey/ca.crt": certificate,
  "/run/latchkey/token": [{ alg: "RS256" }, { exp: 4_000_000_000 }, "signature"]
    .map((part) => Buffer.from(JSON.stringify(part)).toString("base64url"))
    .join("."),
};

/** What its pod would get: the environment, and files at the volumes' paths. */
function configSourceOf(all: readonly Manifest[]): ConfigSource {
  const env: Record<string, string> = {};
  for (const { name, value, valueFrom } of latchkeyOf(all).env) {
    env[name] = valueFrom === undefined ? value : "10.1.2.3";
  }
  for (const name of Object.keys(env)) env[name] = (env[name] ?? "").replace(/\$\((\w+)\)/g, (_, of) => env[of] ?? "");
  const secrets: Readonly<Record<string, string>> = {
    "seal-keys": sealKey,
    "admin-key": adminKey,
    "app-key": secretKey,
    store: "postgres://latchkey:password@db.database.svc/latchkey",
  };
  const data = ofKind(all, "ConfigMap").find(({ metadata }) => metadata.name === "latchkey-config")?.data;
  const { volumeMounts } = latchkeyOf(all);
  return {
    env,
    files: {
      read(path) {
        const mount = volumeMounts.find(({ mountPath }: Manifest) => path.startsWith(`${mountPath}/`));
        const volume = podOf(all).spec.volumes.find(({ name }: Manifest) => name === mount?.name);
        const name = path.slice((mount?.mountPath.length ?? 0) + 1);
        const text = mounted[path] ?? (volume?.configMap === undefined ? secrets[name] : data?.[name]);
        if (volume === undefined || text === undefined) throw Object.assign(new Error(path), { code: "ENOENT" });
        return { text, mode: (volume.secret ?? volume.projected ?? volume.configMap).defaultMode ?? 0o644 };
      },
    },
  };
}

const configOf = (all: readonly Manifest[]) => parseConfig(configSourceOf(all));
const isEdge = (all: readonly Manifest[]) => latchkeyOf(all).args?.[0] === "edge";
const anyConfigOf = (all: readonly Manifest[]) => (isEdge(all) ? parseEdgeConfig(configSourceOf(all)) : configOf(all));
/** Overlays whose Latchkey is a container of its own pod. */
const alone = ["standalone", "brokers", "forward-proxy"];

describe.each(overlays)("the overlay %s", (name) => {
  const folder = join(kubernetes, "overlays", name);
  const all = render(folder);
  const pod = podOf(all);
  const latchkey = latchkeyOf(all);

  it.skipIf(!hasKubectl())("is the same for kubectl as for these tests", () => {
    expect(keyed(kubectlRenders(folder) ?? [])).toEqual(keyed(all));
  });

  it("has only fields that Kubernetes knows, with values that it takes", async () => {
    for (const one of all) expect(await mistakesIn(one), `${one.kind} ${one.metadata.name}`).toEqual([]);
  });

  it("has no duplicate names, and no references to missing objects", () => {
    const names = Object.keys(keyed(all));
    expect(names).toHaveLength(all.length);
    const volumes = new Set(
      [...pod.spec.volumes, ...(workloadOf(all).spec.volumeClaimTemplates ?? [])].map(
        (one: Manifest) => one.name ?? one.metadata.name,
      ),
    );
    for (const { volumeMounts = [] } of containersOf(pod)) {
      for (const mount of volumeMounts) expect(volumes).toContain(mount.name);
    }
    for (const { configMap, persistentVolumeClaim } of pod.spec.volumes) {
      if (configMap !== undefined) expect(names).toContain(`ConfigMap/${configMap.name}`);
      if (persistentVolumeClaim !== undefined) {
        expect(names).toContain(`PersistentVolumeClaim/${persistentVolumeClaim.claimName}`);
      }
    }
    expect(names).toContain(`ServiceAccount/${pod.spec.serviceAccountName}`);
  });

  it("leads every selector to the pod, and every port to one that it has", () => {
    const ports = containersOf(pod).flatMap((one) => (one.ports ?? []).map((port: Manifest) => port.name));
    const selectors = [
      workloadOf(all).spec.selector.matchLabels,
      ...ofKind(all, "Service").map(({ spec }) => spec.selector),
      ...ofKind(all, "NetworkPolicy").map(({ spec }) => spec.podSelector.matchLabels),
      ...ofKind(all, "PodDisruptionBudget").map(({ spec }) => spec.selector.matchLabels),
      ...ofKind(all, "PodMonitor").map(({ spec }) => spec.selector.matchLabels),
    ];
    const labels = ofKind(all, "Deployment").map(({ spec }) => spec.template.metadata.labels);
    for (const selector of selectors) {
      const isOther = labels.some((one) => matches(one, selector));
      if (!isOther) expect(pod.metadata.labels).toMatchObject(selector);
    }
    for (const { spec } of ofKind(all, "Service")) {
      for (const { targetPort } of spec.ports) expect(ports).toContain(targetPort);
    }
    for (const { spec } of ofKind(all, "NetworkPolicy")) {
      for (const { ports: allowed } of spec.ingress ?? [])
        for (const { port } of allowed) expect(ports).toContain(port);
    }
    for (const { spec } of ofKind(all, "PodMonitor")) {
      for (const { port } of spec.podMetricsEndpoints) expect(ports).toContain(port);
    }
  });

  it("gives no container a right that it does not need", () => {
    expect(pod.spec).toMatchObject({ automountServiceAccountToken: false, enableServiceLinks: false });
    expect(pod.spec.securityContext).toMatchObject({
      runAsNonRoot: true,
      runAsUser: 65532,
      fsGroup: 65532,
      seccompProfile: { type: "RuntimeDefault" },
    });
    for (const { securityContext, name: container } of containersOf(pod)) {
      expect(securityContext, container).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        privileged: false,
        capabilities: { drop: ["ALL"] },
      });
    }
    for (const field of ["hostNetwork", "hostPID", "hostIPC"]) expect(pod.spec).not.toHaveProperty(field);
    expect(pod.spec.volumes.filter(({ hostPath }: Manifest) => hostPath !== undefined)).toEqual([]);
    expect(ofKind(all, "ServiceAccount")[0].automountServiceAccountToken).toBe(false);
  });

  it("sets valid configuration, with secrets from files only", () => {
    const config = anyConfigOf(all);
    expect(config.warnings).toEqual([]);
    const values = latchkey.env.flatMap(({ value = "" }: Manifest) => value);
    for (const secret of [sealKey, adminKey, secretKey, "password"]) expect(values.join()).not.toContain(secret);
    for (const { name: variable } of latchkey.env) {
      expect(variable).not.toMatch(/^LATCHKEY_(?:SEAL_KEYS|ADMIN_KEY|SECRET_KEY|FORWARD_SECRET)$/);
    }
    const doors: Manifest = config.doors;
    // As a sidecar of a service, the data listener is reachable in its pod only.
    expect(doors.data.address.host).toBe(alone.includes(name) ? "0.0.0.0" : "127.0.0.1");
    for (const door of isEdge(all) ? ["ops"] : ["public", "control", "ops"]) {
      expect(doors[door].address.host).toBe("0.0.0.0");
    }
    expect(config.allowedHosts).toContain("10.1.2.3");
    const listening = new Map(latchkey.ports.map((port: Manifest) => [port.name, port.containerPort]));
    for (const [door, port] of listening)
      expect(doors[door === "forward" ? "forwardProxy" : (door as string)]).toMatchObject({ address: { port } });
  });

  it("leaves balancers, streams and the rest their time", () => {
    const { graceMs, drainDelayMs, streamGraceMs } = anyConfigOf(all);
    const { periodSeconds, failureThreshold } = latchkey.readinessProbe;
    expect(drainDelayMs).toBeGreaterThan(periodSeconds * failureThreshold * 1_000);
    expect(streamGraceMs).toBeGreaterThan(drainDelayMs);
    expect(graceMs).toBeGreaterThan(streamGraceMs);
    const ofApplication =
      pod.spec.initContainers === undefined ? 0 : pod.spec.containers[0].lifecycle.preStop.sleep.seconds;
    expect(pod.spec.terminationGracePeriodSeconds).toBeGreaterThan(graceMs / 1_000 + ofApplication);
  });

  it("requests memory for the heap and everything beside it", () => {
    const { requests, limits } = latchkey.resources;
    const options = latchkey.env.find((one: Manifest) => one.name === "NODE_OPTIONS").value;
    // The bench measures with the deployed options.
    expect(options).toContain(deployedOptions);
    for (const [name, value] of Object.entries(deployedMemory)) expect(latchkey.env).toContainEqual({ name, value });
    const heap = Number(/--max-old-space-size=(\d+)/.exec(options)?.[1]);
    expect(heap).toBeLessThan(mebibytes(limits.memory) * 0.65);
    expect(mebibytes(requests.memory)).toBeGreaterThan(130);
    expect(limits).not.toHaveProperty("cpu");
  });

  it("probes addresses that there are", async () => {
    const { ops } = await startTestSidecar();
    for (const probe of ["startupProbe", "readinessProbe", "livenessProbe"]) {
      const { path, port } = latchkey[probe].httpGet;
      expect(port).toBe("ops");
      expect((await fetch(`${ops}${path}`)).status, path).toBe(200);
    }
  });

  it.skipIf(isEdge(all))(
    "opens the public listener to the ingress, control to the platform, ops to monitoring, and nothing else",
    () => {
      const [policy] = ofKind(all, "NetworkPolicy").filter(({ metadata }) => metadata.name === "latchkey");
      const rules = policy.spec.ingress.map(({ from, ports }: Manifest) => [
        ports.map(({ port }: Manifest) => port),
        from.map((one: Manifest) => one.namespaceSelector.matchLabels["kubernetes.io/metadata.name"]),
      ]);
      expect(rules).toEqual([
        [["public"], ["ingress-nginx"]],
        [["control"], ["platform"]],
        [["ops"], ["monitoring"]],
      ]);
      expect(policy.spec.policyTypes).toEqual(["Ingress", "Egress"]);
      const reached = ofKind(all, "NetworkPolicy").flatMap(({ spec }) =>
        (spec.ingress ?? []).flatMap(({ ports }: Manifest) => ports),
      );
      const toData = reached.filter(({ port }) => port === "data" || port === 3003);
      expect(toData).toHaveLength(alone.includes(name) ? 1 : 0);
      for (const { spec } of ofKind(all, "Ingress")) {
        for (const { http } of spec.rules) {
          for (const { backend } of http.paths)
            expect(backend.service).toEqual({ name: "latchkey-public", port: { name: "public" } });
        }
      }
    },
  );
});

const files = { bundle: "/ca.pem", trustStore: "/ca.jks", nodeAgents: "/agents.cjs", browser: "/browser" };
const program = { proxyUrl: "http://proxy", files, authorities: "", localPort: undefined, launchers: undefined };

it("closes every way of a program but that through the forward proxy, and gives it what `latchkey run` does", () => {
  const all = render(join(kubernetes, "overlays/forward-proxy"));
  const agent = keyed(all)["Deployment/your-agent"]?.spec.template;
  const { spec } = keyed(all)["NetworkPolicy/behind-latchkey"] ?? {};
  expect(matches(agent.metadata.labels, spec.podSelector.matchLabels)).toBe(true);
  expect(spec.policyTypes).toEqual(["Ingress", "Egress"]);
  expect(spec.ingress).toEqual([]);
  const ports = spec.egress.map(({ ports: of }: Manifest) => of.map(({ port }: Manifest) => port));
  expect(ports).toEqual([[53, 53], ["forward"]]);
  const names = agent.spec.containers[0].env.map(({ name }: Manifest) => name);
  // These need files of `latchkey run`.
  const set = Object.keys(programEnvironment({}, program)).filter(
    (name) => !/^(?:JAVA_TOOL_OPTIONS|NODE_OPTIONS|no_proxy)$/.test(name),
  );
  expect(names).toEqual(expect.arrayContaining(set));
});

it("gives an application beside an edge what `latchkey run` does", () => {
  const all = render(join(kubernetes, "overlays/edge-forward"));
  const [app] = podOf(all).spec.containers;
  const { doors, forwardProxyCaFile } = parseEdgeConfig(configSourceOf(all));
  const value = (name: string) => app.env.find((one: Manifest) => one.name === name)?.value;
  expect(doors.forwardProxy).toMatchObject({ address: { host: "127.0.0.1", port: 3008 } });
  expect(value("HTTPS_PROXY")).toMatch(/@127\.0\.0\.1:3008$/);
  for (const [name, given] of Object.entries(programEnvironment({}, program))) {
    if (given === "/ca.pem") expect([name, value(name)]).toEqual([name, forwardProxyCaFile]);
  }
  // The edge writes the file that the application reads.
  const mountOf = ({ volumeMounts }: Manifest) => volumeMounts.find((one: Manifest) => one.name === "ca");
  expect(forwardProxyCaFile?.startsWith(`${mountOf(latchkeyOf(all)).mountPath}/`)).toBe(true);
  expect(mountOf(app)).toEqual({ ...mountOf(latchkeyOf(all)), readOnly: true });
});

it("gives a store of one's own to one pod at a time, and replicas a database", () => {
  const sidecar = render(join(kubernetes, "overlays/sidecar"));
  const shared = render(join(kubernetes, "overlays/sidecar-shared"));
  const standalone = render(join(kubernetes, "overlays/standalone"));
  for (const all of [sidecar, standalone]) {
    expect(workloadOf(all).spec.replicas).toBe(1);
    const [claim] = [...ofKind(all, "PersistentVolumeClaim"), ...(workloadOf(all).spec.volumeClaimTemplates ?? [])];
    expect(claim.spec.accessModes).toEqual(["ReadWriteOncePod"]);
    expect(configOf(all).store).toMatchObject({ kind: "level", folder: "/var/lib/latchkey/store" });
    expect(latchkeyOf(all).volumeMounts).toContainEqual({ name: "store", mountPath: "/var/lib/latchkey" });
  }
  expect(workloadOf(sidecar).spec.strategy).toEqual({ type: "Recreate" });
  expect(workloadOf(shared).spec).toMatchObject({
    replicas: 3,
    strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
  });
  expect(configOf(shared).store.kind).toBe("postgres");
  expect(ofKind(shared, "PersistentVolumeClaim")).toEqual([]);
  // Everything else of the container is the same.
  const { env: sharedEnv, volumeMounts: _a, ...sharedRest } = latchkeyOf(shared);
  const { env, volumeMounts: _b, ...rest } = latchkeyOf(sidecar);
  expect(sharedRest).toEqual(rest);
  expect(sharedEnv.filter(({ name }: Manifest) => !name.startsWith("LATCHKEY_STORE"))).toEqual(
    env.filter(({ name }: Manifest) => name !== "LATCHKEY_STORE"),
  );
});

it("starts before the application and ends after it, beside it", () => {
  for (const name of ["sidecar", "sidecar-shared", "edge", "edge-forward"]) {
    const { spec } = podOf(render(join(kubernetes, "overlays", name)));
    expect(spec.initContainers).toHaveLength(1);
    expect(spec.initContainers[0]).toMatchObject({ name: "latchkey", restartPolicy: "Always" });
    expect(spec.initContainers[0].startupProbe.httpGet.path).toBe("/startupz");
  }
});

it("leads edges to the brokers, with an identity that these allow", () => {
  const [edge, brokers] = [render(join(kubernetes, "overlays/edge")), render(join(kubernetes, "overlays/brokers"))];
  const config = parseEdgeConfig(configSourceOf(edge));
  const { doors, edgeIdentities, allowedHosts, store } = configOf(brokers);
  const [service] = ofKind(brokers, "Service").filter(({ metadata }) => metadata.name === "latchkey-brokers");
  const portOf = (name: string) => service.spec.ports.find((port: Manifest) => port.name === name).port;
  const host = "latchkey-brokers.latchkey.svc";
  expect(config.brokers.urls).toEqual([`https://${host}:${portOf("control")}`]);
  expect(config.brokers.dataUrls).toEqual([`https://${host}:${portOf("data")}`]);
  expect(allowedHosts).toContain(host);
  for (const door of [doors.control, doors.data]) expect(door.tls).toBeDefined();
  expect(store.kind).toBe("postgres");
  expect(workloadOf(brokers).spec.replicas).toBe(3);

  const [projected] = podOf(edge).spec.volumes;
  const { audience } = projected.projected.sources[0].serviceAccountToken;
  const account = `your-namespace/${podOf(edge).spec.serviceAccountName}`;
  expect(edgeIdentities.serviceAccounts?.issuer).toMatchObject({ audience });
  const grants = edgeIdentities.serviceAccounts?.grants.map(({ namespace, name }) => `${namespace}/${name}`);
  expect(grants).toEqual([account]);
  // What one pod may send, the other takes.
  const [policy] = ofKind(brokers, "NetworkPolicy").filter(({ metadata }) => metadata.name === "latchkey-brokers");
  expect(podOf(edge).metadata.labels).toMatchObject(policy.spec.ingress[0].from[0].podSelector.matchLabels);
  const [own] = ofKind(edge, "NetworkPolicy");
  const toBrokers = own.spec.egress.find(({ to }: Manifest) => to[0].podSelector !== undefined);
  expect(podOf(brokers).metadata.labels).toMatchObject(toBrokers.to[0].podSelector.matchLabels);
  expect(toBrokers.ports.map(({ port }: Manifest) => port)).toEqual([portOf("data"), portOf("control")]);
  // No secret of Latchkey is in the pods of services.
  expect(JSON.stringify(podOf(edge))).not.toMatch(/latchkey-secrets|seal-keys|admin-key/);
});

it("sees a field that Kubernetes does not know, and a value that it does not take", async () => {
  const [deployment] = ofKind(render(join(kubernetes, "overlays/sidecar")), "Deployment");
  deployment.spec.template.spec.initContainers[0].startupProbe.htpGet = {};
  deployment.spec.replicas = "one";
  const mistakes = (await mistakesIn(deployment)).join("\n");
  expect(mistakes).toContain("/spec/template/spec/initContainers/0/startupProbe/htpGet is not a field");
  expect(mistakes).toContain('"/spec/replicas"');
});
