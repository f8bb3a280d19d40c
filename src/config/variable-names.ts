import { suggestion } from "../base/similar.ts";
import { edgeVariables } from "./edges/edge-variables.ts";
import type { Refuse } from "./values.ts";
import { clientVariables, variables } from "./variables.ts";

interface VariableReport {
  readonly refuse: Refuse;
  readonly warn: Refuse;
}

/**
 * Kubernetes sets such variables in each pod of a namespace, for each Service there. A Service called `latchkey` makes
 * `LATCHKEY_PORT` and `LATCHKEY_SERVICE_HOST`, one called `latchkey-ops` `LATCHKEY_OPS_PORT`.
 */
const serviceForm =
  /^LATCHKEY_(?:[A-Z0-9_]+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:ADDR|PORT|PROTO))?)$/;
/** `tcp://10.0.0.1:3003`: only Kubernetes writes a port so. */
const linkForm = /^(?:tcp|udp|sctp):\/\/\S+$/;

/** Refuses unknown variables. Those that Kubernetes sets for Services are ignored with one warning. */
export function checkVariableNames(
  env: Readonly<Record<string, string | undefined>>,
  { refuse, warn }: VariableReport,
): void {
  const known = new Set<string>([
    ...[...variables, ...edgeVariables].flatMap((row) =>
      "secret" in row ? [row.name, `${row.name}_FILE`] : [row.name],
    ),
    ...clientVariables,
  ]);
  const ofServices: string[] = [];
  for (const [name, value] of Object.entries(env)) {
    if (!name.startsWith("LATCHKEY_") || known.has(name)) continue;
    const isPort = /^LATCHKEY_(?:[A-Z0-9_]+_)?PORT$/.test(name) && linkForm.test(value ?? "");
    if (isPort || serviceForm.test(name)) ofServices.push(name);
    else refuse(`${name} is not a variable of Latchkey${suggestion(name, known)}`);
  }
  if (ofServices.length === 0) return;
  const others = ofServices.length > 3 ? ` and ${ofServices.length - 3} more` : "";
  warn(
    `ignored variables that Kubernetes sets for a Service: ${ofServices.slice(0, 3).join(", ")}${others}; set enableServiceLinks: false in the pod's spec to avoid them`,
  );
}
