import type { DoorsConfig } from "./doors.ts";
import type { ConfigFile } from "./file.ts";
import type { Refuse } from "./values.ts";
import type { VariableReader } from "./variable-reader.ts";

export interface DashboardConfig {
  /** The listener that serves the dashboard; undefined: none does. */
  readonly door: "control" | "ui" | undefined;
}

interface DashboardSource {
  readonly variables: Pick<VariableReader, "optionalChoice">;
  readonly doors: DoorsConfig;
  readonly file: ConfigFile;
  readonly refuse: Refuse;
}

export function dashboardOf({ variables, doors, file, refuse }: DashboardSource): DashboardConfig {
  const chosen = variables.optionalChoice("LATCHKEY_UI", ["on", "off"]);
  const isOn = chosen === undefined ? file.dashboard?.enabled : chosen === "on";
  if (isOn === false && doors.ui !== undefined) {
    refuse("LATCHKEY_UI is off, but LATCHKEY_UI_LISTEN sets an address for the dashboard; remove one of them");
  }
  if (doors.ui !== undefined) return { door: "ui" };
  return { door: isOn === true ? "control" : undefined };
}
