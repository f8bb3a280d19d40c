import * as v from "valibot";
import type { Manifest } from "./manifests.ts";

interface Validator {
  (data: unknown): boolean;
  readonly errors?: unknown;
}

const core = "IoK8sApi";
/** The names of `kubernetes-models`, by API version and kind. */
const models: Readonly<Record<string, string>> = {
  "v1/ServiceAccount": `${core}CoreV1ServiceAccount`,
  "v1/ConfigMap": `${core}CoreV1ConfigMap`,
  "v1/Service": `${core}CoreV1Service`,
  "v1/PersistentVolumeClaim": `${core}CoreV1PersistentVolumeClaim`,
  "apps/v1/Deployment": `${core}AppsV1Deployment`,
  "apps/v1/StatefulSet": `${core}AppsV1StatefulSet`,
  "networking.k8s.io/v1/NetworkPolicy": `${core}NetworkingV1NetworkPolicy`,
  "networking.k8s.io/v1/Ingress": `${core}NetworkingV1Ingress`,
  "policy/v1/PodDisruptionBudget": `${core}PolicyV1PodDisruptionBudget`,
};

const labels = v.record(v.string(), v.string());
const metadata = v.strictObject({ name: v.string(), labels: v.optional(labels) });
const duration = v.pipe(v.string(), v.regex(/^\d+(?:ms|s|m|h|d)$/));
/** The Prometheus operator's resources, as far as they are used here. */
const own: Readonly<Record<string, v.GenericSchema>> = {
  "monitoring.coreos.com/v1/PodMonitor": v.strictObject({
    apiVersion: v.string(),
    kind: v.string(),
    metadata,
    spec: v.strictObject({
      selector: v.strictObject({ matchLabels: labels }),
      podMetricsEndpoints: v.array(
        v.strictObject({
          port: v.string(),
          path: v.string(),
          interval: duration,
          relabelings: v.array(
            v.strictObject({
              action: v.literal("replace"),
              sourceLabels: v.optional(v.array(v.string())),
              targetLabel: v.string(),
              replacement: v.optional(v.string()),
            }),
          ),
        }),
      ),
    }),
  }),
  "monitoring.coreos.com/v1/PrometheusRule": v.strictObject({
    apiVersion: v.string(),
    kind: v.string(),
    metadata,
    spec: v.strictObject({
      groups: v.array(
        v.strictObject({
          name: v.string(),
          rules: v.array(
            v.strictObject({
              alert: v.string(),
              expr: v.string(),
              for: v.optional(duration),
              labels: v.strictObject({ severity: v.picklist(["critical", "warning"]) }),
              annotations: v.strictObject({ summary: v.string(), runbook: v.string() }),
            }),
          ),
        }),
      ),
    }),
  }),
};

/** Every mistake in a manifest, and every field that its schema does not define. */
export async function mistakesIn(manifest: Manifest): Promise<string[]> {
  const type = `${manifest.apiVersion}/${manifest.kind}`;
  const described = own[type];
  if (described !== undefined) {
    const { issues = [] } = v.safeParse(described, manifest);
    return issues.map((issue) => `${v.getDotPath(issue)}: ${issue.message}`);
  }
  const model = models[type];
  if (model === undefined) return [`${type} is not known`];
  // The module name comes from the manifest; each module exports its validator.
  const { validate } = (await import(`kubernetes-models/_schemas/${model}`)) as { validate: Validator };
  const read = new Set<string>();
  const isValid = validate(spied(manifest, "", read));
  return [...(isValid ? [] : [JSON.stringify(validate.errors)]), ...unread(manifest, "", read)];
}

/** The validators accept unknown fields but never read them: an unread field is unknown. */
function spied(value: Manifest, path: string, read: Set<string>): Manifest {
  if (typeof value !== "object" || value === null) return value;
  return new Proxy(value, {
    get(target, name, receiver) {
      if (typeof name !== "string" || !Object.hasOwn(target, name)) return Reflect.get(target, name, receiver);
      read.add(`${path}/${name}`);
      return spied(target[name], `${path}/${name}`, read);
    },
  });
}

function unread(value: Manifest, path: string, read: ReadonlySet<string>): string[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.keys(value).flatMap((name) => {
    const at = `${path}/${name}`;
    return read.has(at) ? unread(value[name], at, read) : [`${at} is not a field`];
  });
}
