import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { root } from "../../bin/steps.ts";
import { metricTable } from "../../src/base/metrics/metrics.ts";
import { createAuthority, pem } from "../cases/control-plane/certificates.ts";
import { createIntegrations, startTestSidecar, temporaryFolder } from "../support/sidecar/harness.ts";
import { lacks } from "../support/sidecar/needs.ts";
import { alertCases } from "./alert-cases.ts";
import { kubernetes } from "./manifests.ts";
import { promtool } from "./promtool.ts";

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly annotations: { readonly summary: string; readonly runbook: string };
}

interface Groups {
  readonly groups: readonly { readonly name: string; readonly rules: readonly Rule[] }[];
}

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets?: readonly { readonly expr: string }[];
}

interface Dashboard {
  readonly templating: { readonly list: readonly { readonly name: string; readonly query: string }[] };
  readonly panels: readonly Panel[];
}

const read = (path: string) => readFileSync(join(kubernetes, "monitoring", path), "utf8");
const { spec: groups } = parse(read("prometheus-rule.yaml")) as { spec: Groups };
const rules = groups.groups.flatMap((group) => group.rules);
const dashboard = JSON.parse(read("dashboard.json")) as Dashboard;
const shown = dashboard.panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ title, expr })));
/** Fills in Grafana's own variables. */
const filled = (expr: string) => expr.replaceAll("$__rate_interval", "5m").replaceAll(/\$(?:namespace|pod)/g, ".*");
const all = [
  ...rules.map(({ alert, expr }) => ({ from: alert, expr })),
  ...shown.map(({ title, expr }) => ({ from: title, expr: filled(expr) })),
];

/** Labels that Prometheus knows of every pod's metrics. */
const ofTarget = ["namespace", "app", "pod", "job", "le"];

interface Selected {
  readonly metric: string;
  /** Required values by label name; undefined if the value is not plain text. */
  readonly labels: ReadonlyMap<string, string | undefined>;
}

function selectedIn(expr: string): Selected[] {
  return [...expr.matchAll(/\b((?:latchkey|process|nodejs)_\w+|up)\b(?:\{([^}]*)\})?/g)].map(
    ([, metric = "", inner = ""]) => ({
      metric,
      labels: new Map(
        [...inner.matchAll(/(\w+)\s*(=~|=|!=|!~)\s*"([^"]*)"/g)].map(([, name = "", how, value]) => [
          name,
          how === "=" ? value : undefined,
        ]),
      ),
    }),
  );
}

const groupedBy = (expr: string) =>
  [...expr.matchAll(/\b(?:by|on|without)\s*\(([^)]*)\)/g)].flatMap(([, names = ""]) =>
    names
      .split(",")
      .map((name) => name.trim())
      .filter(Boolean),
  );

it("asks for metrics that there are, by labels that they have", async () => {
  const sidecar = await startTestSidecar();
  await createIntegrations(sidecar);
  const exposition = await (await fetch(`${sidecar.ops}/metrics`)).text();
  const rows = Object.values(metricTable);
  for (const { from, expr } of all) {
    const selected = selectedIn(expr);
    expect(selected.length, from).toBeGreaterThan(0);
    for (const { metric, labels } of selected) {
      if (metric === "up") continue;
      const row = rows.find(({ name, kind }) => (kind === "histogram" ? metric === `${name}_bucket` : metric === name));
      if (row === undefined) {
        // Node's own, by prom-client.
        expect(metric, from).not.toMatch(/^latchkey_/);
        expect(exposition, from).toMatch(new RegExp(`^${metric}(?:\\{.*\\})? `, "m"));
        continue;
      }
      const known: readonly string[] = [...ofTarget, ...row.labels];
      for (const name of labels.keys()) expect(known, `${from}: ${metric}`).toContain(name);
    }
    const known = selected.flatMap(({ metric }) =>
      rows.flatMap((row): readonly string[] => (metric.startsWith(row.name) ? row.labels : [])),
    );
    for (const name of groupedBy(expr)) expect([...ofTarget, ...known], `${from}: ${name}`).toContain(name);
  }
});

it("compares labels with values that they can have", async () => {
  const { ops } = await startTestSidecar();
  const exposition = await (await fetch(`${ops}/metrics`)).text();
  const source = (path: string) => readFileSync(join(root, "src", path), "utf8");
  // Series that exist from the start, and series that appear with their first event.
  expect(exposition).toContain('latchkey_connections_unwell{state="reauthorization_required"}');
  expect(exposition).toContain('latchkey_connections_unwell{state="refresh_failing"}');
  expect(source("store/sealed/value-envelope.ts")).toContain('operation: "seal"');
  const { help } = metricTable.channelAlerts;
  for (const kind of ["expiring", "renewal_failed", "expired", "failed"]) expect(help).toContain(kind);
});

it.skipIf(lacks("openssl"))("knows when the certificate of a listener expires", async () => {
  const folder = await temporaryFolder();
  const { cert, key } = createAuthority(folder, "ca").issue("server", { names: "DNS:localhost", days: 30 });
  const files = {
    "/latchkey.yaml": JSON.stringify({ tls: { control: { cert: "/crt", key: "/key" } } }),
    "/crt": String(pem(cert)),
    "/key": String(pem(key)),
  };
  const { metric } = await startTestSidecar({ env: { LATCHKEY_CONFIG: "/latchkey.yaml" }, files });
  const end = (await metric('latchkey_certificate_end_seconds{door="control"}')) ?? 0;
  expect(Math.abs(end - (Date.now() / 1_000 + 30 * 86_400))).toBeLessThan(120);
  expect(await metric('latchkey_certificate_end_seconds{door="data"}')).toBeUndefined();
});

it("has a dashboard whose panels do not overlap, and have unique ids", () => {
  const { panels } = dashboard;
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
    Array.from({ length: w * h }, (_, i) => `${x + (i % w)},${y + Math.floor(i / w)}`),
  );
  expect(new Set(cells).size).toBe(cells.length);
  expect(Math.max(...panels.map(({ gridPos: { x, w } }) => x + w))).toBe(24);
  expect(dashboard.templating.list.map(({ name }) => name)).toEqual(["datasource", "namespace", "pod"]);
  for (const { type, targets = [], title } of panels) expect(targets.length > 0, title).toBe(type !== "row");
});

it("explains each alert in the runbook, under a heading of its name", () => {
  const runbook = readFileSync(join(root, "deploy/runbooks.md"), "utf8");
  const headings = [...runbook.matchAll(/^### (Latchkey\w+)$/gm)].map(([, name]) => name ?? "");
  expect(headings).toEqual(rules.map(({ alert }) => alert));
  for (const { alert, annotations } of rules) {
    const [path = "", anchor] = annotations.runbook.split("#");
    // GitHub makes such an anchor of a heading.
    expect([path, anchor]).toEqual(["deploy/runbooks.md", alert.toLowerCase()]);
    const [, text = ""] = new RegExp(`^### ${alert}$([\\s\\S]*?)(?=^#|(?![\\s\\S]))`, "m").exec(runbook) ?? [];
    expect(text.trim().length, alert).toBeGreaterThan(80);
  }
});

describe.skipIf(lacks("promtool"))("to Prometheus", () => {
  it("every expression is one, of the alerts and of the dashboard", async () => {
    expect(await promtool(["check", "rules", "rules.yaml"], { "rules.yaml": groups })).toMatchObject({
      isContent: true,
      said: expect.stringContaining(`SUCCESS: ${rules.length} rules found`),
    });
    const recorded = {
      groups: [
        { name: "dashboard", rules: shown.map(({ expr }, i) => ({ record: `panel:${i}`, expr: filled(expr) })) },
      ],
    };
    const checked = await promtool(["check", "rules", "--lint=none", "rules.yaml"], { "rules.yaml": recorded });
    expect(checked.said).toContain(`SUCCESS: ${shown.length} rules found`);
    const broken = { groups: [{ name: "broken", rules: [{ record: "x", expr: "sum by (" }] }] };
    expect((await promtool(["check", "rules", "rules.yaml"], { "rules.yaml": broken })).isContent).toBe(false);
  });

  it("each alert fires when it should, and not a little before", async () => {
    expect(Object.keys(alertCases).sort()).toEqual(rules.map(({ alert }) => alert).sort());
    const series = (lines: readonly string[]) =>
      lines.map((line) => {
        const at = line.indexOf(" ", line.indexOf("}"));
        return { series: line.slice(0, at), values: line.slice(at + 1) };
      });
    const tests = Object.entries(alertCases).flatMap(([alert, { fires, stays, at = "30m" }]) =>
      [{ lines: fires, samples: [{ labels: "{}", value: 1 }] }, ...stays.map((lines) => ({ lines, samples: [] }))].map(
        ({ lines, samples }) => ({
          interval: "1m",
          name: `${alert} ${samples.length === 0 ? "stays" : "fires"}`,
          input_series: series(lines),
          promql_expr_test: [
            { expr: `count(ALERTS{alertname="${alert}",alertstate="firing"})`, eval_time: at, exp_samples: samples },
          ],
        }),
      ),
    );
    const ran = await promtool(["test", "rules", "tests.yaml"], {
      "rules.yaml": groups,
      "tests.yaml": { rule_files: ["rules.yaml"], evaluation_interval: "1m", tests },
    });
    expect(ran).toEqual({ isContent: true, said: expect.stringContaining("SUCCESS") });
  });

  it("an alert says what is wrong, and links to the explanation", async () => {
    const labels = { namespace: "shop", pod: "shop-1", app: "shop", job: "latchkey" };
    const tests = [
      {
        interval: "1m",
        input_series: [
          {
            series:
              'latchkey_certificate_end_seconds{namespace="shop",app="shop",pod="shop-1",job="latchkey",door="control"}',
            values: "864000x120",
          },
        ],
        alert_rule_test: [
          {
            eval_time: "90m",
            alertname: "LatchkeyCertificateExpiring",
            exp_alerts: [
              {
                exp_labels: { ...labels, door: "control", severity: "warning" },
                exp_annotations: {
                  summary: "The certificate of the control listener expires in 9d 22h 30m 0s",
                  runbook: "deploy/runbooks.md#latchkeycertificateexpiring",
                },
              },
            ],
          },
        ],
      },
    ];
    const ran = await promtool(["test", "rules", "tests.yaml"], {
      "rules.yaml": groups,
      "tests.yaml": { rule_files: ["rules.yaml"], evaluation_interval: "1m", tests },
    });
    expect(ran).toEqual({ isContent: true, said: expect.stringContaining("SUCCESS") });
  });
});
