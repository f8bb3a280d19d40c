import type { RareWarning } from "../base/rare-warning.ts";
import type { Readiness } from "../base/readiness.ts";
import type { World } from "../base/world.ts";
import type { Broker } from "../broker/broker.ts";
import type { Config } from "../config/config.ts";
import { type ControlPlane, createControlPlane, type PartsBeside } from "../control-plane/plane.ts";
import type { Listeners } from "./listeners.ts";

interface ControlListenerOptions {
  readonly readiness: Readiness;
  readonly warn: RareWarning;
  readonly world: World;
  readonly shutdown: AbortSignal;
  readonly listeners: Listeners;
}

export interface ControlListeners {
  /** Starts serving with this broker. */
  open(broker: Broker, beside: Omit<PartsBeside, "identityProvider">): void;
}

/** Opens the control listener, and that of the dashboard if it has one of its own. */
export async function openControl(config: Config, options: ControlListenerOptions): Promise<ControlListeners> {
  const { doors, limits, dashboard } = config;
  const { listeners, ...shared } = options;
  const planes: ControlPlane[] = [];
  for (const door of ["control", "ui"] as const) {
    const listener = doors[door];
    if (listener === undefined) continue;
    const hasDashboard = dashboard.door === door;
    const served = door === "ui" ? "only" : "also";
    const plane = createControlPlane({
      ...shared,
      door,
      dashboard: hasDashboard ? served : undefined,
      tls: listener.tls,
      guard: hasDashboard ? listeners.dashboardGuard(door) : listeners.guard(door),
      connections: listeners.connectionLimit(door),
      maxMessageBytes: limits.rpcMessageBytes,
      maxHeadBytes: limits.headBytes,
      maxHeadLines: limits.headLines,
    });
    await listeners.open(door, listener, plane);
    if (hasDashboard) shared.world.log.info("dashboard", { address: `${listeners.addresses[door]}/ui/` });
    planes.push(plane);
  }
  return {
    open(broker, beside) {
      const { identityProvider } = dashboard;
      if (identityProvider !== undefined) broker.sessionHolders.admitPeople(identityProvider);
      for (const plane of planes) plane.open(broker, { ...beside, identityProvider });
    },
  };
}
